"""What a check says: findings, their severity, and the verdict over them. A leaf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import TypeAlias

__all__ = ["Facts", "Finding", "Severity", "Verdict", "verdict_of"]

Facts: TypeAlias = Mapping[str, object]
"""Values that json.dumps accepts, by name."""


class Severity(Enum):
    """How a finding bears on the verdict."""

    ERROR = "error"  # the program is wrong: exit code 1
    INCOMPLETE = "incomplete"  # something was not checked: exit code 3, unless there is an error
    LINT = "lint"  # a fence or scope that the text asks for and practice often leaves out: no effect on the exit code
    NOTE = "note"  # worth knowing, right as it is: no effect on the exit code


class Verdict(IntEnum):
    """The outcome of a command; its value is the process's exit code (2 is a user's mistake)."""

    CLEAN = 0
    FINDINGS = 1
    INCOMPLETE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a check found, as data; text, JSON and Markdown render it.

    `kind` is a member of the closed set (a StrEnum) of the check that made it; `message` is one sentence
    with the names and values; `facts` holds the same values for programs.
    """

    kind: StrEnum
    message: str
    severity: Severity = Severity.ERROR
    facts: Facts = field(default_factory=dict)


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """An error outweighs incompleteness, which outweighs nothing found."""
    severities = {finding.severity for finding in findings}
    if Severity.ERROR in severities:
        return Verdict.FINDINGS
    return Verdict.INCOMPLETE if Severity.INCOMPLETE in severities else Verdict.CLEAN
