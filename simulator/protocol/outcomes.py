"""Protocols whose control depends on timing: every outcome is a protocol of its own (docs/protocol.md, outcomes).

What a role does next may hang on an answer that timing decides: whether a query is declined, which CTA an atomic
counter gives a tile, whether a poll of try_wait came too early. The maker of the protocol asks `Outcomes` for it; the
same question has the same answer for every role. Each assignment of answers makes one protocol, in which control no
longer depends on timing, so that one run decides it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import InputError
from ..findings import Finding
from .ordered import check_ordered
from .program import Protocol

__all__ = ["MAX_OPTIONS", "MAX_OUTCOMES", "OutcomeVerdict", "Outcomes", "branches", "check_outcomes"]

MAX_OUTCOMES = 4096
"""Outcomes that are judged; beyond it the verdict is incomplete."""

MAX_OPTIONS = 64
"""Answers that a question can have."""


class Outcomes:
    """The answers of one branch. What has not been asked before gets its first answer, 0."""

    def __init__(self, given: Mapping[str, int]) -> None:
        self._given = given
        self.asked: dict[str, tuple[int, int]] = {}  # answer and number of options, in the order of asking

    def choose(self, question: str, options: int = 2) -> int:
        """An answer from 0 to options - 1.

        Raises InputError for options outside [1, MAX_OPTIONS], or other than when the question was asked before.
        """
        if not 1 <= options <= MAX_OPTIONS:
            raise InputError(f"question {question!r}: options={options} is outside [1, {MAX_OPTIONS}]")
        answer, before = self.asked.setdefault(question, (self._given.get(question, 0), options))
        if before != options:
            raise InputError(f"question {question!r} is asked with {before} and with {options} options")
        return answer

    @property
    def answers(self) -> dict[str, int]:
        """What was answered."""
        return {question: answer for question, (answer, _) in self.asked.items()}


def branches(make: Callable[[Outcomes], Protocol]) -> Iterator[tuple[dict[str, int], Protocol]]:
    """Every outcome once, with its protocol: a depth-first walk over the questions as they are asked."""
    given: dict[str, int] | None = {}
    while given is not None:
        outcomes = Outcomes(given)
        protocol = make(outcomes)
        yield outcomes.answers, protocol
        given = _next(outcomes)


def _next(outcomes: Outcomes) -> dict[str, int] | None:
    """The answers up to the last question that has an answer left, with its next one."""
    asked = list(outcomes.asked.items())
    while asked:
        question, (answer, options) = asked.pop()
        if answer + 1 < options:
            return {**{name: before for name, (before, _) in asked}, question: answer + 1}
    return None


@dataclass(frozen=True, slots=True)
class OutcomeVerdict:
    """The first finding of each kind and barrier or slot over all outcomes; `complete` if all were judged."""

    findings: tuple[Finding, ...]
    outcomes: int
    complete: bool


def check_outcomes(make: Callable[[Outcomes], Protocol], *, limit: int = MAX_OUTCOMES) -> OutcomeVerdict:
    """Judge every outcome, up to `limit`."""
    found: dict[tuple[str, object], Finding] = {}
    number = 0
    for answers, protocol in branches(make):
        if number == limit:
            return OutcomeVerdict(tuple(found.values()), number, complete=False)
        number += 1
        for finding in check_ordered(protocol):
            found.setdefault((str(finding.kind), finding.facts.get("about")), _with(answers, finding))
    return OutcomeVerdict(tuple(found.values()), number, complete=True)


def _with(answers: Mapping[str, int], finding: Finding) -> Finding:
    if not answers:
        return finding
    shown = ", ".join(f"{question}={answer}" for question, answer in answers.items())
    return replace(
        finding, message=f"with {shown}: {finding.message}", facts={**finding.facts, "outcome": dict(answers)}
    )
