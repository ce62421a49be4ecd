"""PTX text to tokens. A dotted word is a token of its own, so that white space inside an opcode means nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ..errors import InputError

__all__ = ["MAX_TEXT", "MAX_TOKENS", "Kind", "Token", "tokenize"]

MAX_TEXT = 16 * 2**20
"""Largest PTX text, in characters."""

MAX_TOKENS = 3_000_000
_MAX_NUMBER = 80  # characters: 64 binary digits, and more than Python would convert in linear time is not needed


class Kind(Enum):
    """What a token is; the value is the name of its group in the regular expression."""

    LINE = "line"  # .loc and .file, which end with the line and not with a semicolon
    DOT = "dot"  # .type, .mbarrier::complete_tx::bytes
    NUMBER = "number"
    NAME = "name"  # identifiers, %-names and $-names
    STRING = "string"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Token:
    """A token and the line (from 1) on which it begins."""

    kind: Kind
    text: str
    line: int


_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*)
  | (?P<block>/\*(?s:.*?)\*/)
  | (?P<line>\.(?:loc|file)\b[^\n]*)
  | (?P<dot>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
  | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
              |[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+U?)
  | (?P<name>[A-Za-z_$%][A-Za-z0-9_$]*)
  | (?P<string>"[^"\n]*")
  | (?P<mark>[][{}()<>@!,;:|=+*/~&^?-])
    """,
    re.VERBOSE,
)


def tokenize(text: str) -> list[Token]:
    """All tokens of a PTX text. Raises InputError for a text that is too long or a character that PTX does not have."""
    if len(text) > MAX_TEXT:
        raise InputError(f"the PTX text has {len(text)} characters, more than {MAX_TEXT}")
    tokens: list[Token] = []
    line, at = 1, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InputError(f"line {line}: {text[at]!r} is not PTX")
        at = match.end()
        group = str(match.lastgroup)
        if group == "number" and len(match.group()) > _MAX_NUMBER:
            raise InputError(f"line {line}: a number of {len(match.group())} characters")
        if len(tokens) >= MAX_TOKENS:
            raise InputError(f"line {line}: more than {MAX_TOKENS} words and marks")
        if group in _KINDS:
            tokens.append(Token(_KINDS[group], match.group(), line))
        elif group == "newline":
            line += 1
        elif group == "block":
            line += match.group().count("\n")
    return tokens


_KINDS = {kind.value: kind for kind in Kind}
