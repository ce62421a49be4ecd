"""Tokens one after the other, with errors that name the line."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from .lexer import Kind, Token
from .scopes import immediate

__all__ = ["Stream"]


class Stream:
    """The tokens of a text, from the first on."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self._at = 0

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes, or the one so many after it; an empty mark at the end."""
        if self._at + ahead < len(self.tokens):
            return self.tokens[self._at + ahead]
        return Token(Kind.MARK, "", self.tokens[-1].line if self.tokens else 1)

    def next(self) -> Token:
        """Take the token that comes."""
        token = self.peek()
        if not token.text:
            raise self.error("more")
        self._at += 1
        return token

    def take(self, text: str) -> bool:
        """Take it if it has this text; whether it had."""
        if self.peek().text == text:
            self._at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Take a token with this text. Raises InputError for another."""
        if not self.take(text):
            raise self.error(f"{text!r} is expected")

    def error(self, why: str) -> InputError:
        """An error at the token that comes."""
        token = self.peek()
        if not token.text:
            return InputError(f"line {token.line}: the PTX text ends in the middle of something")
        return InputError(f"line {token.line}: {why} at {token.text[:40]!r}")

    def name(self) -> str:
        """Take a name."""
        if self.peek().kind is not Kind.NAME:
            raise self.error("a name is expected")
        return self.next().text

    def number(self) -> int:
        """Take an integer, with its sign."""
        sign = -1 if self.take("-") else 1
        if self.peek().kind is not Kind.NUMBER:
            raise self.error("a number is expected")
        value = immediate(self.peek())
        if value.float_bits:
            raise self.error("an integer is expected")
        self._at += 1
        return sign * value.value
