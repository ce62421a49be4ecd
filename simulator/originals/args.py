"""Parameters of originals as they come from a file: read by name, each with its type and bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from reprlib import repr as shorten

from ..errors import InputError
from .listing import MAX_WORK

__all__ = ["Args"]

_MAX_COUNT = 2**31 - 1


class Args:
    """Reads each parameter once. Readers raise InputError for a wrong value, and `done` if there are others."""

    def __init__(self, params: Mapping[str, object]) -> None:
        self._left = dict(params)

    def count(self, name: str, minimum: int = 1, default: int | None = None) -> int:
        """An integer in [minimum, 2^31 - 1]."""
        return _integer(name, self._take(name, default), minimum)

    def counts(self, name: str, length: int | None = None, minimum: int = 0) -> list[int]:
        """A list of such integers, of that length."""
        return _integers(name, self._take(name, None), length, minimum)

    def pairs(self, name: str) -> list[tuple[int, int]]:
        """A list of pairs of integers from 0 on."""
        value = self._take(name, None)
        if not isinstance(value, list) or len(value) > MAX_WORK:
            raise InputError(f"params: {name}={shorten(value)} is not a list of pairs")
        return [(a, b) for a, b in (_integers(name, pair, 2, 0) for pair in value)]

    def flag(self, name: str, default: bool | None = None) -> bool:
        """true or false."""
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise InputError(f"params: {name}={shorten(value)} is neither true nor false")
        return value

    def choice(self, name: str, known: Mapping[str, str], default: str | None = None) -> str:
        """One of the known words, as what it stands for."""
        value = self._take(name, default)
        if not isinstance(value, str) or value not in known:
            raise InputError(f"params: {name}={shorten(value)} is unknown; known: {', '.join(known)}")
        return known[value]

    def done(self) -> None:
        """InputError if there are parameters that nobody asked for."""
        for name in self._left:
            raise InputError(f"params: {name[:40]!r} is not a parameter")

    def _take(self, name: str, default: object) -> object:
        value = self._left.pop(name, default)
        if value is None:
            raise InputError(f"params: {name} is missing")
        return value


def _integer(name: str, value: object, minimum: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"params: {name}={shorten(value)} is not an integer")
    if not minimum <= value <= _MAX_COUNT:
        raise InputError(f"params: {name}={value} is outside [{minimum}, {_MAX_COUNT}]")
    return value


def _integers(name: str, value: object, length: int | None, minimum: int) -> list[int]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MAX_WORK:
        raise InputError(f"params: {name}={shorten(value)} is not a list of integers")
    if length is not None and len(value) != length:
        raise InputError(f"params: {name}={shorten(value)} has {len(value)} numbers, not {length}")
    return [_integer(name, one, minimum) for one in value]
