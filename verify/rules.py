"""Find the rule that separates failing from safe parameters: the shortest combination of predicates that fits.

A rule is stated only if it fits every case that it was made from, and every case of a second, larger sample.

The search works on a few of the cases, and takes in those that a candidate gets wrong until one fits all: so what is
found is as short as if all had been searched, because no shorter rule fits even the few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import and_, or_
from typing import TypeAlias

import numpy as np

from tilesched.simulator.raster import IntArray
from tilesched.simulator.schedule import BoolArray

from .predicates import Columns, Holds, Predicate, products, simple

__all__ = ["MAX_PREDICATES", "Case", "Params", "Rule", "RuleReport", "explain_failures", "find_rule"]

Params: TypeAlias = Mapping[str, int]
Case: TypeAlias = tuple[Params, bool]
"""Parameters, and whether they fail."""

MAX_PREDICATES = 3
"""Predicates of a rule, at most: longer ones explain nothing to a reader."""

_FIRST_CASES = 192  # of each kind, that the search begins with
_MORE_CASES = 32  # taken in at once
_MAX_ROUNDS = 60
_MAX_COVERS = 200  # of equal length, of which the one with the simplest predicates is taken


@dataclass(frozen=True, slots=True)
class Rule:
    """Fails iff `text`."""

    text: str
    holds: Holds
    size: int  # predicates


@dataclass(frozen=True, slots=True)
class RuleReport:
    """What was found. `counterexample` is the smallest case of the last sample that the candidate gets wrong."""

    rule: Rule | None
    candidate: Rule | None
    fitted: int  # cases that the candidate was made from
    tested: int  # cases of the last sample
    counterexample: Params | None = None


def explain_failures(
    first: Sequence[Case], later: Iterable[Sequence[Case]], derived: Collection[str] = ()
) -> RuleReport:
    """Fit a rule to `first` and test it on a sample of `later`.

    Where the sample contradicts it, fit one to both, and test that on the next sample of `later`, as long as there is
    one: so what is stated has never met the sample that it was tested on. All cases have the same parameters.
    """
    known = list(first)
    candidate = find_rule(known, derived)
    report = RuleReport(None, candidate, len(known), 0)
    samples = iter(later)
    while candidate is not None and (sample := next(samples, None)) is not None:
        wrong = [params for params, failed in sample if bool(candidate.holds(params)) != failed]
        if not wrong:
            return RuleReport(candidate, candidate, len(known), len(sample))
        smallest = min(wrong, key=lambda params: (sum(params.values()), sorted(params.items())))
        report = RuleReport(None, candidate, len(known), len(sample), smallest)
        known += sample
        candidate = find_rule(known, derived)
    return report


def find_rule(cases: Sequence[Case], derived: Collection[str] = ()) -> Rule | None:
    """The shortest rule that fits all cases, or None. Between rules of one length the order of `simple` decides.

    Parameters named in `derived` follow from the others: they stand in products and beside constants only.
    """
    failed = np.array([failed for _, failed in cases], np.bool_)
    if not failed.any():
        return None
    if failed.all():
        return Rule("always", lambda params: True, 0)
    columns = _telling([params for params, _ in cases], derived)
    chosen = np.concatenate([np.flatnonzero(failed)[:_FIRST_CASES], np.flatnonzero(~failed)[:_FIRST_CASES]])
    given = {name: column for name, column in columns.items() if name not in derived}
    vocabularies = list(simple(given)), list(simple(columns, derived)), list(products(list(columns)))
    for _ in range(_MAX_ROUNDS):
        rule = _search(vocabularies, {name: column[chosen] for name, column in columns.items()}, failed[chosen])
        if rule is None:
            return None
        wrong = np.flatnonzero(rule.holds(columns) != failed)
        if not wrong.size:
            return rule
        chosen = np.concatenate([chosen, wrong[:: max(1, wrong.size // _MORE_CASES)]])
    return None


def _telling(cases: Sequence[Params], derived: Collection[str]) -> dict[str, IntArray]:
    """The parameters as columns, without those that never change and those that are always equal to another."""
    columns: dict[str, IntArray] = {}
    for name in sorted(cases[0], key=lambda name: (name in derived, name)):
        column = np.array([params[name] for params in cases], np.int64)
        if (column != column[0]).any() and not any((column == other).all() for other in columns.values()):
            columns[name] = column
    return columns


Masks: TypeAlias = dict[int, Predicate]
"""Of predicates that say the same of all cases the first, by the cases of which it holds, as bits."""


_ORDER = ((0, 1), (0, 2), (1, 1), (2, 1), (1, 2), (0, 3), (2, 2), (1, 3), (2, 3))
"""Which rules are simpler than which: by the vocabulary that they need (given parameters, derived ones too, products
too) and the number of predicates."""


def _search(vocabularies: Sequence[Sequence[Predicate]], columns: Columns, failed: BoolArray) -> Rule | None:
    """The simplest rule for a few cases."""
    wanted, every = _bits(failed), (1 << failed.size) - 1
    known: list[Masks] = []
    for vocabulary, size in _ORDER:
        while len(known) <= vocabulary:  # for the same cases, the simpler predicate
            simpler = known[-1] if known else {}
            known.append({**simpler, **_masks(vocabularies[len(known)], columns, every), **simpler})
        rule = _combination(known[vocabulary], wanted, every, size)
        if rule is None and size == 3 and vocabulary < 2:
            rule = _mixed(known[vocabulary], wanted, every)
        if rule is not None:
            return rule
    return None


def _bits(holds: BoolArray) -> int:
    return int.from_bytes(np.packbits(holds, bitorder="little").tobytes(), "little")


def _masks(predicates: Iterable[Predicate], columns: Columns, every: int) -> Masks:
    masks: Masks = {}
    for predicate in predicates:
        mask = _bits(np.asarray(predicate.holds(columns), np.bool_))
        if mask not in (0, every):
            masks.setdefault(mask, predicate)
    return masks


def _combination(masks: Masks, wanted: int, every: int, size: int) -> Rule | None:
    """`size` predicates joined by `and`, or by `or`."""
    conjunction = _cover([every & ~mask for mask in masks], every & ~wanted, wanted, size)
    if conjunction is not None:
        return _all([masks[every & ~mask] for mask in conjunction])
    disjunction = _cover(list(masks), wanted, every & ~wanted, size)
    return None if disjunction is None else _any([masks[mask] for mask in disjunction])


def _mixed(masks: Masks, wanted: int, every: int) -> Rule | None:
    """(a or b) and c, or a and b or c."""
    safe = every & ~wanted
    for c, predicate in masks.items():
        if c & wanted == wanted:
            pair = _cover(list(masks), wanted, safe & c, 2)
            if pair is not None:
                return _all([_any([masks[mask] for mask in pair]), predicate])
        if c & safe == 0:
            pair = _cover([every & ~mask for mask in masks], safe, wanted & ~c, 2)
            if pair is not None:
                return _any([_all([masks[every & ~mask] for mask in pair]), predicate])
    return None


def _cover(masks: Sequence[int], must: int, avoid: int, size: int) -> list[int] | None:
    """`size` masks that together have all of `must` and nothing of `avoid`: those that come first in `masks`."""
    usable = [mask for mask in masks if mask & avoid == 0 and mask & must]
    place = {mask: number for number, mask in enumerate(usable)}
    covers = islice(_covers(usable, must, size), _MAX_COVERS)
    found = min((sorted(place[mask] for mask in cover) for cover in covers), default=None)
    return None if found is None else [usable[number] for number in found]


def _covers(usable: Sequence[int], must: int, size: int) -> Iterator[list[int]]:
    """Branch on a case that the fewest masks have: one of those must be taken."""
    if size == 1:
        yield from ([mask] for mask in usable if mask & must == must)
        return
    for mask in _fewest(usable, must):
        left = must & ~mask
        if left:
            yield from ([mask, *rest] for rest in _covers([other for other in usable if other & left], left, size - 1))


def _fewest(usable: Sequence[int], must: int) -> list[int]:
    """The masks that have one case of `must`, namely the one of the first few that the fewest have."""
    best: list[int] | None = None
    left = must
    for _ in range(min(16, must.bit_count())):
        case = left & -left
        left ^= case
        having = [mask for mask in usable if mask & case]
        if best is None or len(having) < len(best):
            best = having
    return best or []


def _all(parts: Sequence[Predicate | Rule]) -> Rule:
    holds = [part.holds for part in parts]
    return Rule(" and ".join(map(_bracketed, parts)), lambda p: reduce(and_, (one(p) for one in holds)), _size(parts))


def _any(parts: Sequence[Predicate | Rule]) -> Rule:
    holds = [part.holds for part in parts]
    return Rule(" or ".join(map(_bracketed, parts)), lambda p: reduce(or_, (one(p) for one in holds)), _size(parts))


def _bracketed(part: Predicate | Rule) -> str:
    return f"({part.text})" if isinstance(part, Rule) else part.text


def _size(parts: Sequence[Predicate | Rule]) -> int:
    return sum(part.size if isinstance(part, Rule) else 1 for part in parts)
