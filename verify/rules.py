"""Find the rule that separates failing from safe parameters: the shortest combination of simple predicates that fits.

A rule is stated only if it fits every case that it was made from, and every case of a second, larger sample.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

__all__ = ["MAX_PREDICATES", "Predicate", "Rule", "RuleReport", "explain_failures", "find_rule"]

Params: TypeAlias = Mapping[str, int]

MAX_PREDICATES = 3
"""Predicates of a rule, at most: longer ones explain nothing to a reader."""

_MODULI = (2, 3, 4, 8)
_MAX_BOUNDS = 16  # constants that a parameter is compared with: the smallest that occur


@dataclass(frozen=True, slots=True)
class Predicate:
    """A simple statement about parameters, as it is printed, and whether it holds."""

    text: str
    holds: Callable[[Params], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """Fails iff `text`."""

    text: str
    holds: Callable[[Params], bool]
    size: int  # predicates


@dataclass(frozen=True, slots=True)
class RuleReport:
    """What was found. `counterexample` is the smallest case of the second sample that the candidate gets wrong."""

    rule: Rule | None
    candidate: Rule | None
    fitted: int  # cases that the candidate was made from
    tested: int  # cases of the second sample
    counterexample: Params | None = None


def explain_failures(fails: Callable[[Params], bool], first: Sequence[Params], second: Sequence[Params]) -> RuleReport:
    """Fit a rule to `first`, and test it on `second`."""
    candidate = find_rule([(params, fails(params)) for params in first])
    if candidate is None:
        return RuleReport(None, None, len(first), len(second))
    wrong = [params for params in second if candidate.holds(params) != fails(params)]
    if wrong:
        smallest = min(wrong, key=lambda params: (sum(params.values()), sorted(params.items())))
        return RuleReport(None, candidate, len(first), len(second), smallest)
    return RuleReport(candidate, candidate, len(first), len(second))


def find_rule(cases: Sequence[tuple[Params, bool]]) -> Rule | None:
    """The shortest rule that fits all cases, or None. The order of `_predicates` decides between rules of a length."""
    if not cases or not any(failed for _, failed in cases):
        return None
    if all(failed for _, failed in cases):
        return Rule("always", lambda params: True, 0)
    wanted = _mask(failed for _, failed in cases)
    every = (1 << len(cases)) - 1
    masks: dict[int, Predicate] = {}  # of predicates that say the same of all cases, the first
    for predicate in _predicates([params for params, _ in cases]):
        mask = _mask(predicate.holds(params) for params, _ in cases)
        if mask not in (0, every):
            masks.setdefault(mask, predicate)
    for fit in (_single, _pairs, _triples):
        for rule in fit(masks, wanted):
            return rule
    return None


def _mask(bits: Iterator[bool]) -> int:
    return sum(1 << place for place, bit in enumerate(bits) if bit)


_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "{} % {} != 0": lambda a, b: a % b != 0,
    "{} % {} == 0": lambda a, b: a % b == 0,
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

    def holds(params: Params) -> bool:
        return compare(params[name], params[other] if isinstance(other, str) else other)

    return Predicate(relation.format(name, other), holds)


def _predicates(cases: Sequence[Params]) -> Iterator[Predicate]:
    """Divisibility and comparison of two parameters, then of one and a constant: simplest first."""
    names = sorted({name for params in cases for name in params})
    for one in names:
        for other in names:
            if one == other:
                continue
            if all(params[other] > 0 for params in cases):
                yield from (_predicate(relation, one, other) for relation in _DIVIDES)
            # a < b is b > a: with both orders of the two names, these say all
            symmetric = ("{} == {}", "{} != {}") if one < other else ()
            yield from (_predicate(relation, one, other) for relation in ("{} > {}", *symmetric, "{} >= {}"))
    for name in names:
        for bound in sorted({params[name] for params in cases})[:_MAX_BOUNDS]:
            yield from (_predicate(relation, name, bound) for relation in _BOUNDS)
        for modulus in _MODULI:
            yield from (_predicate(relation, name, modulus) for relation in _DIVIDES)


def _single(masks: dict[int, Predicate], wanted: int) -> Iterator[Rule]:
    if wanted in masks:
        yield Rule(masks[wanted].text, masks[wanted].holds, 1)


def _pairs(masks: dict[int, Predicate], wanted: int) -> Iterator[Rule]:
    above, below = _around(masks, wanted)
    for a, b in combinations(above, 2):
        if a & b == wanted:
            yield _all([masks[a], masks[b]])
    for a, b in combinations(below, 2):
        if a | b == wanted:
            yield _any([masks[a], masks[b]])


def _triples(masks: dict[int, Predicate], wanted: int) -> Iterator[Rule]:
    above, below = _around(masks, wanted)
    for a, b, c in combinations(above, 3):
        if a & b & c == wanted:
            yield _all([masks[a], masks[b], masks[c]])
    for a, b, c in combinations(below, 3):
        if a | b | c == wanted:
            yield _any([masks[a], masks[b], masks[c]])
    for a, b in combinations(masks, 2):
        for c in above:
            if (a | b) & c == wanted:
                yield _all([_any([masks[a], masks[b]]), masks[c]])
        for c in below:
            if (a & b) | c == wanted:
                yield _any([_all([masks[a], masks[b]]), masks[c]])


def _around(masks: dict[int, Predicate], wanted: int) -> tuple[list[int], list[int]]:
    """Predicates that hold wherever it fails (for `and`), and those that hold only where it fails (for `or`)."""
    return [mask for mask in masks if mask & wanted == wanted], [mask for mask in masks if mask | wanted == wanted]


def _all(parts: Sequence[Predicate | Rule]) -> Rule:
    return Rule(" and ".join(map(_bracketed, parts)), lambda p: all(part.holds(p) for part in parts), _size(parts))


def _any(parts: Sequence[Predicate | Rule]) -> Rule:
    return Rule(" or ".join(map(_bracketed, parts)), lambda p: any(part.holds(p) for part in parts), _size(parts))


def _bracketed(part: Predicate | Rule) -> str:
    return f"({part.text})" if isinstance(part, Rule) else part.text


def _size(parts: Sequence[Predicate | Rule]) -> int:
    return sum(part.size if isinstance(part, Rule) else 1 for part in parts)
