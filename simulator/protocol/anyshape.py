"""Any number of k-blocks, any number of tiles: run until the state recurs (docs/protocol.md, "Any shape").

A family makes the protocol for a list of tiles, each with its number of k-blocks. The certificate is an induction, of
which each step is checked: at a fixed K the state after m tiles is that after n, so more tiles bring nothing new; and
in each of those tiles the state at k-block K is that at k-block K + period, so a longer K brings nothing new.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ..findings import Finding
from .ordered import check_ordered
from .program import Protocol
from .recur import Moment, divergence, go_on_alike, moment

__all__ = ["AnyShape", "Certificate", "Failure", "Family", "any_shape", "any_tiles"]

Family: TypeAlias = Callable[[tuple[int, ...]], Protocol]
"""From the k-blocks of each tile of a worker (each at least 1) to the protocol."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Clean for k_blocks, k_blocks + period, k_blocks + 2 * period, ... (period 0: for k_blocks), any tile count."""

    k_blocks: int
    period: int  # in k-blocks
    tiles_from: int  # the state after so many tiles ...
    tiles_to: int  # ... is that after so many


@dataclass(frozen=True, slots=True)
class Failure:
    """The first failing problem, by k_blocks + tiles, then by k_blocks."""

    k_blocks: int
    tiles: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class AnyShape:
    """What holds for all shapes: a failure, or certificates; `complete` if they cover every k_blocks >= 1."""

    certificates: tuple[Certificate, ...]
    failure: Failure | None
    complete: bool


def any_tiles(family: Family, k_blocks: int, *, max_tiles: int = 12) -> Certificate | Failure | None:
    """Decide a fixed number of k-blocks for every tile count; None if the state does not recur by `max_tiles`."""
    states: list[Moment] = []
    for tiles in range(max_tiles + 1):
        findings = check_ordered(family((k_blocks,) * tiles))
        if findings:
            return Failure(k_blocks, tiles, tuple(findings))
        now = _after(family, k_blocks, tiles)
        if now is None:
            return None
        states.append(now)
        for before in range(tiles):
            if states[before].state == now.state and _tiles_repeat(family, k_blocks, states, before, tiles):
                return Certificate(k_blocks, 0, before, tiles)
    return None


def any_shape(family: Family, stages: int, *, max_tiles: int | None = None) -> AnyShape:
    """Decide every k_blocks >= 1 and every tile count. `stages` is the period to try, in k-blocks."""
    max_tiles = 12 + 4 * stages if max_tiles is None else max_tiles
    failure = _first_failure(family, 2 * stages + 1, 4)
    if failure is not None:
        return AnyShape((), failure, complete=True)
    certificates: list[Certificate] = []
    open_residues = set(range(stages))
    for k_blocks in range(1, 4 * stages + 1):
        if k_blocks % stages not in open_residues:
            continue
        fixed = any_tiles(family, k_blocks, max_tiles=max_tiles)
        if isinstance(fixed, Failure):
            return AnyShape(tuple(certificates), fixed, complete=True)
        if fixed is None:
            return AnyShape(tuple(certificates), None, complete=False)
        if _k_repeats(family, fixed, stages):
            open_residues.discard(k_blocks % stages)
            fixed = Certificate(k_blocks, stages, fixed.tiles_from, fixed.tiles_to)
        certificates.append(fixed)
    return AnyShape(tuple(certificates), None, complete=not open_residues)


def _first_failure(family: Family, max_k_blocks: int, max_tiles: int) -> Failure | None:
    small = ((k, tiles) for k in range(1, max_k_blocks + 1) for tiles in range(max_tiles + 1))
    for k_blocks, tiles in sorted(small, key=lambda shape: (sum(shape), shape)):
        findings = check_ordered(family((k_blocks,) * tiles))
        if findings:
            return Failure(k_blocks, tiles, tuple(findings))
    return None


def _after(family: Family, k_blocks: int, tiles: int) -> Moment | None:
    """The moment after so many tiles: up to there a run does not depend on whether there are more."""
    one, more = family((k_blocks,) * tiles), family((k_blocks,) * (tiles + 1))
    return moment(more, divergence(one, more))


def _tiles_repeat(family: Family, k_blocks: int, states: list[Moment], before: int, now: int) -> bool:
    """What follows `now` tiles is what follows `before`, for each number of tiles up to one period more, to the end."""
    period = now - before
    return all(
        go_on_alike(family((k_blocks,) * (before + more)), states[before],
                    family((k_blocks,) * (now + more)), states[now])
        for more in range(1, period + 2)
    )  # fmt: skip


def _k_repeats(family: Family, fixed: Certificate, period: int) -> bool:
    """In each tile up to the recurrence, K + period k-blocks lead where K do, and the next period leads there again."""
    k_blocks, tiles = fixed.k_blocks, fixed.tiles_to
    for tile in range(tiles):
        for after in (0, tiles - tile):
            shapes = [((k_blocks,) * tile, (k_blocks,) * after, k_blocks + extra) for extra in (0, period, 2 * period)]
            base, longer, longest = (family((*before, k, *rest)) for before, rest, k in shapes)
            cuts = [
                divergence(family((*before, k, *rest)), family((*before, k + 1, *rest))) for before, rest, k in shapes
            ]
            first, second = moment(base, cuts[0]), moment(longer, cuts[1])
            if first is None or second is None or not go_on_alike(base, first, longer, second):
                return False
            if not go_on_alike(longer, first, longest, second):
                return False
    return True
