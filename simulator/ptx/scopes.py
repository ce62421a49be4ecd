"""What names and numbers of a PTX text mean: lexical scopes, families of registers such as %r<9>, literals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias

from ..errors import InputError
from .lexer import Token
from .program import Immediate, Label, Operand, Register, Symbol

__all__ = ["Parsed", "Scope", "Unresolved", "family_bits", "immediate"]


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A name that is not declared yet: a label, if anything."""

    name: str
    scope: Scope
    line: int


Parsed: TypeAlias = Operand | Unresolved


@dataclass(slots=True, eq=False)
class Scope:
    """What the names of one `{ }` mean."""

    parent: Scope | None = None
    registers: dict[str, int] = field(default_factory=dict)  # name -> bits
    families: dict[str, tuple[int, int]] = field(default_factory=dict)  # prefix of %r<9> -> count, bits
    used: dict[str, Register] = field(default_factory=dict)
    symbols: dict[str, Symbol] = field(default_factory=dict)
    labels: dict[str, Label] = field(default_factory=dict)
    tables: dict[str, tuple[Unresolved, ...]] = field(default_factory=dict)


def family_bits(name: str, scope: Scope) -> int:
    """Bits of a register of a family such as %r<9>, 0 if there is none."""
    prefix = name.rstrip("0123456789")
    digits = name[len(prefix) :]
    if digits and prefix in scope.families and len(digits) < 10:
        count, bits = scope.families[prefix]
        return bits if int(digits) < count else 0
    return 0


def immediate(token: Token) -> Immediate:
    text = token.text.rstrip("U")
    head = text[:2].lower()
    if head == "0f":
        return Immediate(int(text[2:], 16), 32)
    if head == "0d":
        return Immediate(int(text[2:], 16), 64)
    if head in ("0x", "0b"):
        return Immediate(int(text, 0))
    if "." in text:
        raise InputError(f"line {token.line}: {text!r}: a float is written with 0f or 0d here")
    octal = re.fullmatch("0[0-7]+", text) is not None
    return Immediate(int(text, 8 if octal else 10))
