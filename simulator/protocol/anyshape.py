"""Any number of k-blocks, any number of tiles: run until the state recurs (docs/any-shape.md).

A family makes the protocol for a list of tiles, each with its number of k-blocks. The certificate is an induction, of
which each step is checked: at a fixed K the state after m tiles is that after n, so more tiles bring nothing new; and
in each of those tiles the state at k-block K is that at k-block K + period, so a longer K brings nothing new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from ..findings import Finding
from .ordered import check_ordered
from .program import Protocol
from .recur import Moment, divergence, go_on_alike, moment

__all__ = ["Certificate", "Failure", "Family", "ShapeVerdict", "decide"]

Family: TypeAlias = Callable[[tuple[int, ...]], Protocol]
"""From the k-blocks of each tile of a worker (each at least 1) to the protocol."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Clean for k_blocks, k_blocks + period, k_blocks + 2 * period, ... (period 0: for k_blocks alone).

    The state after `tiles_to` tiles is that after `tiles_from`: clean for any tile count. Where the two are equal, the
    verdict is for that tile count.
    """

    k_blocks: int
    period: int  # in k-blocks
    tiles_from: int
    tiles_to: int


@dataclass(frozen=True, slots=True)
class Failure:
    """The first failing problem found, and all that is wrong with it."""

    k_blocks: int
    tiles: int
    findings: tuple[Finding, ...]
    searched: bool = True  # whether smaller shapes were found to be clean


@dataclass(frozen=True, slots=True)
class ShapeVerdict:
    """A failure, or certificates; `complete` if they cover every shape that was asked for."""

    certificates: tuple[Certificate, ...] = ()
    failure: Failure | None = None
    complete: bool = True


def decide(family: Family, *, k_blocks: int | None, tiles: int | None, stages: int) -> ShapeVerdict:
    """Decide a family for one number of k-blocks or for all from 1 on (None), and for one tile count or all (None).

    `stages` is the period to try, in k-blocks; it also bounds how far the search goes.
    """
    shapes = _Shapes(family)
    failure = _first_failure(shapes, k_blocks, tiles, stages)
    if failure is not None:
        return ShapeVerdict(failure=failure)
    if not _is_regular(shapes, k_blocks, tiles):
        return ShapeVerdict(complete=False)
    max_tiles = 12 + 4 * stages
    if k_blocks is not None:
        fixed = _any_tiles(shapes, k_blocks, max_tiles) if tiles is None else Certificate(k_blocks, 0, tiles, tiles)
        return _verdict([], fixed)
    certificates: list[Certificate] = []
    left = set(range(stages))
    for k in range(1, 5 * stages + 1):
        if k % stages not in left:
            continue
        fixed = _any_tiles(shapes, k, max_tiles) if tiles is None else shapes.fixed(k, tiles)
        if not isinstance(fixed, Certificate):
            return _verdict(certificates, fixed)
        if _k_repeats(shapes, fixed, stages) and _tiles_are_apart(shapes, fixed, stages):
            left.discard(k % stages)
            fixed = replace(fixed, period=stages)
        certificates.append(fixed)
    return ShapeVerdict(tuple(certificates), complete=not left)


def _verdict(before: list[Certificate], last: Certificate | Failure | None) -> ShapeVerdict:
    if isinstance(last, Failure):
        return ShapeVerdict(failure=last)
    return ShapeVerdict((*before, last) if last else tuple(before), complete=last is not None)


def _is_regular(shapes: _Shapes, k_blocks: int | None, tiles: int | None) -> bool:
    """Whether threads, barriers and slots are the same in every shape that has any: else no states can be compared."""
    small = [
        shapes((k,) * count)
        for k in ((1, 2) if k_blocks is None else (k_blocks,))
        for count in ((1, 2) if tiles is None else (tiles,))
    ]
    return len({tuple((who.role, who.cta) for who in one.threads) for one in small}) == 1


class _Shapes:
    """A family, each of whose protocols is made and checked once: a shape is asked for many times."""

    def __init__(self, family: Family) -> None:
        self._protocol = lru_cache(maxsize=None)(family)
        self._checked: dict[tuple[int, int], Certificate | Failure] = {}

    def __call__(self, k_blocks: tuple[int, ...]) -> Protocol:
        return self._protocol(k_blocks)

    def fixed(self, k_blocks: int, tiles: int) -> Certificate | Failure:
        """The verdict on one shape."""
        shape = k_blocks, tiles
        if shape not in self._checked:
            findings = check_ordered(self((k_blocks,) * tiles))
            failure = Failure(k_blocks, tiles, tuple(findings))
            self._checked[shape] = failure if findings else Certificate(k_blocks, 0, tiles, tiles)
        return self._checked[shape]


def _any_tiles(family: _Shapes, k_blocks: int, max_tiles: int) -> Certificate | Failure | None:
    """A fixed number of k-blocks and every tile count; None if the state does not recur by `max_tiles`."""
    states: list[Moment] = []
    for tiles in range(max_tiles + 1):
        fixed = family.fixed(k_blocks, tiles)
        if isinstance(fixed, Failure):
            return fixed
        now = _after(family, k_blocks, tiles)
        if now is None:
            return None
        states.append(now)
        for before in range(tiles):
            if states[before].state == now.state and _tiles_repeat(family, k_blocks, states, before, tiles):
                return Certificate(k_blocks, 0, before, tiles)
    return None


def _first_failure(family: _Shapes, k_blocks: int | None, tiles: int | None, stages: int) -> Failure | None:
    """The first of the small shapes, by k_blocks + tiles, then by k_blocks, that is not clean."""
    ks = range(1, 2 * stages + 2) if k_blocks is None else (k_blocks,)
    counts = range(5) if tiles is None else (tiles,)
    for k, count in sorted(((k, count) for k in ks for count in counts), key=lambda shape: (sum(shape), shape)):
        fixed = family.fixed(k, count)
        if isinstance(fixed, Failure):
            return fixed
    return None


def _after(family: _Shapes, k_blocks: int, tiles: int) -> Moment | None:
    """The moment after so many tiles: up to there a run does not depend on whether there are more."""
    one, more = family((k_blocks,) * tiles), family((k_blocks,) * (tiles + 1))
    return moment(more, divergence(one, more))


def _tiles_repeat(family: _Shapes, k_blocks: int, states: list[Moment], before: int, now: int) -> bool:
    """What follows `now` tiles is what follows `before`, for each number of tiles up to one period more, to the end."""
    period = now - before
    return all(
        go_on_alike(family((k_blocks,) * (before + more)), states[before],
                    family((k_blocks,) * (now + more)), states[now])
        for more in range(1, period + 2)
    )  # fmt: skip


def _k_repeats(family: _Shapes, fixed: Certificate, period: int) -> bool:
    """In each tile up to the recurrence, K + period k-blocks lead where K do, and the next period leads there again."""
    k_blocks, tiles = fixed.k_blocks, fixed.tiles_to
    for tile in range(tiles):
        # One tile count: as many tiles in all. Every tile count: the last tile, or one with the recurrence behind it.
        for after in (tiles - tile - 1,) if fixed.tiles_from == tiles else (0, tiles - tile):
            shapes = [((k_blocks,) * tile, (k_blocks,) * after, k_blocks + extra) for extra in (0, period, 2 * period)]
            base, longer, longest = (family((*before, k, *rest)) for before, rest, k in shapes)
            first = moment(base, divergence(base, longer))
            second = moment(longer, divergence(longer, longest))
            if first is None or second is None or not go_on_alike(base, first, longer, second):
                return False
            if not go_on_alike(longer, first, longest, second):
                return False
    return True


_APART_TILES = 3  # first tiles that are made longer one by one and all together


def _tiles_are_apart(family: _Shapes, fixed: Certificate, period: int) -> bool:
    """Whether a tile's operations depend on its own k-blocks: tiles that are longer together then add what each adds
    alone. A family that takes, say, the least of all tiles' k-blocks never showed what longer tiles do."""
    tiles = min(fixed.tiles_to, _APART_TILES)
    lengths = [(fixed.k_blocks,) * tiles, (fixed.k_blocks + period,) * tiles]
    alone = [(*lengths[0][:tile], lengths[1][tile], *lengths[0][tile + 1 :]) for tile in range(tiles)]
    base, together = (_operations(family(shape)) for shape in lengths)
    added = Counter[tuple[int, type]]()
    for shape in alone:
        operations = _operations(family(shape))
        added.update({key: operations[key] - base[key] for key in base.keys() | operations.keys()})
    return all(together[key] - base[key] == added[key] for key in base.keys() | together.keys() | added.keys())


def _operations(protocol: Protocol) -> Counter[tuple[int, type]]:
    """How many operations of each type each thread has."""
    return Counter((number, type(one)) for number, who in enumerate(protocol.threads) for one in who.operations)
