"""Errors of the package.

TileschedError
├── InputError             the caller's value is outside its bound (command line: one line, exit code 2)
│   └── TraceError         a trace file is damaged, foreign, or of another version
└── FindingError           the work ends in a finding instead of a result (exit code 1)
    ├── NoScheduleError    a scheduler divides by zero, raises, or never ends
    └── KernelError        a kernel fails, or a part of it does not run
"""

from .findings import Finding

__all__ = ["FindingError", "InputError", "KernelError", "NoScheduleError", "TileschedError", "TraceError"]


class TileschedError(Exception):
    """Root of the errors that this package raises on purpose."""


class InputError(TileschedError):
    """A value from outside is not usable. The text is one line: name, value, bound."""


class TraceError(InputError):
    """A trace file cannot be read as one."""


class FindingError(TileschedError):
    """Not the caller's mistake but a result: `finding` says what is wrong."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class NoScheduleError(FindingError):
    """A scheduler yields no schedule for this problem."""


class KernelError(FindingError):
    """A kernel yields no recording."""
