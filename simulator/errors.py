"""Errors of the package. A leaf: imports nothing of it.

TileschedError
├── InputError        the caller's value is outside its bound (command line: one line, exit code 2)
│   └── TraceError    a trace file is damaged, foreign, or of another version
└── UndefinedSchedule the original scheduler has no defined result for this problem
"""

__all__ = ["InputError", "TileschedError", "TraceError", "UndefinedSchedule"]


class TileschedError(Exception):
    """Root of the errors that this package raises on purpose."""


class InputError(TileschedError):
    """A value from outside is not usable. The text is one line: name, value, bound."""


class TraceError(InputError):
    """A trace file cannot be read as one."""


class UndefinedSchedule(TileschedError):
    """The original divides by zero or loops for ever on this problem. The text says where."""
