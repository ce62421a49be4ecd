"""Simple statements about parameters, of which rules are made: divisibility, parity, comparison, and products."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np

from tilesched.simulator.raster import IntArray

__all__ = ["Columns", "Holds", "Predicate", "products", "simple"]

Columns: TypeAlias = Mapping[str, IntArray]
"""The value of each parameter, case after case."""

Holds: TypeAlias = Callable[[Mapping[str, Any]], Any]
"""Whether a statement holds: of one case's integers a bool, of columns an array."""

_MODULI = (2, 3, 4, 8)
_MAX_BOUNDS = 16  # constants that a parameter is compared with: the smallest that occur


@dataclass(frozen=True, slots=True)
class Predicate:
    """A statement about parameters, as it is printed, and whether it holds."""

    text: str
    holds: Holds


def _divides(value: Any, divisor: Any) -> Any:
    return value % np.maximum(divisor, 1) == 0


_RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "{} % {} != 0": lambda a, b: ~_divides(a, b),
    "{} % {} == 0": _divides,
    "{} > {}": operator.gt,
    "{} == {}": operator.eq,
    "{} != {}": operator.ne,
    "{} >= {}": operator.ge,
    "{} <= {}": operator.le,
}
_DIVIDES = ("{} % {} != 0", "{} % {} == 0")
_BOUNDS = ("{} >= {}", "{} <= {}", "{} == {}")


def _predicate(relation: str, name: str, other: str | int) -> Predicate:
    compare = _RELATIONS[relation]

    def holds(params: Mapping[str, Any]) -> Any:
        return compare(params[name], params[other] if isinstance(other, str) else other)

    return Predicate(relation.format(name, other), holds)


def simple(columns: Columns, derived: Collection[str] = ()) -> Iterator[Predicate]:
    """Divisibility and comparison of two parameters, then of one and a constant: simplest first.

    Those in `derived` are compared with constants only.
    """
    names = sorted(columns)
    given = [name for name in names if name not in derived]
    for one in given:
        for other in given:
            if one == other:
                continue
            if (columns[other] > 0).all():
                yield from (_predicate(relation, one, other) for relation in _DIVIDES)
            # a < b is b > a: with both orders of the two names, these say all
            symmetric = ("{} == {}", "{} != {}") if one < other else ()
            yield from (_predicate(relation, one, other) for relation in ("{} > {}", *symmetric, "{} >= {}"))
    for name in names:
        for bound in np.unique(columns[name])[:_MAX_BOUNDS].tolist():
            yield from (_predicate(relation, name, bound) for relation in _BOUNDS)
        for modulus in _MODULI:
            yield from (_predicate(relation, name, modulus) for relation in _DIVIDES)


def products(names: Sequence[str]) -> Iterator[Predicate]:
    """a * b > c and (a - 1) * b > c, for all parameters: as much as a grid, or a grid less its first row, exceeds c."""
    for a, b, c in permutations(sorted(names), 3):
        yield Predicate(f"({a} - 1) * {b} > {c}", lambda params, a=a, b=b, c=c: (params[a] - 1) * params[b] > params[c])  # type: ignore[misc]
        if a < b:
            yield Predicate(f"{a} * {b} > {c}", lambda params, a=a, b=b, c=c: params[a] * params[b] > params[c])  # type: ignore[misc]
