"""Errors of the package.

TileschedError
├── InputError        the caller's value is outside its bound (command line: one line, exit code 2)
│   └── TraceError    a trace file is damaged, foreign, or of another version
└── UndefinedSchedule the original scheduler has no defined result for this problem
"""

from .findings import Finding

__all__ = ["InputError", "NoScheduleError", "TileschedError", "TraceError"]


class TileschedError(Exception):
    """Root of the errors that this package raises on purpose."""


class InputError(TileschedError):
    """A value from outside is not usable. The text is one line: name, value, bound."""


class TraceError(InputError):
    """A trace file cannot be read as one."""


class NoScheduleError(TileschedError):
    """A scheduler divides by zero, raises, or never ends: not the caller's mistake but a result."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding
