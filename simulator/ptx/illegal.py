"""The error values of the pure half of the PTX machine: what a descriptor, tensor map or operand says wrongly."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Illegal", "Unsupported"]


@dataclass(frozen=True, slots=True)
class Illegal:
    """`field` of `what` has a value that no kernel may use; `rule` says what would be allowed.

    A value, not an exception: a function that decodes or computes returns its result or one of these, and the caller
    knows the instruction and the thread to blame.
    """

    what: str
    field: str
    value: int | str
    rule: str

    @property
    def message(self) -> str:
        """One line: where, name, value, bound."""
        return f"{self.what}: {self.field}={self.value}: {self.rule}"


@dataclass(frozen=True, slots=True)
class Unsupported(Illegal):
    """Allowed by the architecture, or not documented well enough to judge: the machine cannot go on ("incomplete")."""
