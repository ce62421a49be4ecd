"""What the two CTAs of each cluster must have in common where they load an operand, or run an MMA, together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from tilesched.simulator.originals import Coordinates, Listing, Pairs, Piece, Work

__all__ = ["PairKind", "PairWork", "disagreements", "tile_of"]


class PairKind(StrEnum):
    """What the CTAs of a pair disagree on; of several, the first is said."""

    VALIDITY = "pair-validity"  # one has work, the other none
    GROUP = "pair-group"  # their tiles are in different groups
    MULTICAST = "pair-multicast"  # one loads for both, the other for itself
    OPERAND = "pair-operand"  # they need different tiles of the operand that they share
    K_BLOCKS = "pair-k-blocks"  # they go through different numbers of k-blocks


@dataclass(frozen=True, slots=True)
class PairWork:
    """The work at one place in the lists of two workers; None where a worker has nothing."""

    workers: tuple[int, int]
    work: tuple[Work, Work]
    multicast: tuple[bool, bool]
    k_blocks: tuple[int, int]

    def __str__(self) -> str:
        text = "+".join("no work" if one is None else f"({','.join(map(str, tile_of(one)))})" for one in self.work)
        details = [f"workers {self.workers[0]}, {self.workers[1]}"]
        if None not in self.work:
            if self.multicast[0] != self.multicast[1]:
                details.append(f"multicast {'/'.join('on' if on else 'off' for on in self.multicast)}")
            if self.k_blocks[0] != self.k_blocks[1]:
                details.append(f"k-blocks {self.k_blocks[0]}/{self.k_blocks[1]}")
        return f"{text} [{'; '.join(details)}]"


def tile_of(work: tuple[int, ...] | Piece) -> Coordinates:
    """The tile that work is for."""
    return work.tile if isinstance(work, Piece) else work


def disagreements(listing: Listing, rule: Pairs) -> Iterator[tuple[PairKind | None, PairWork]]:
    """Each place of each pair's lists where any of the two has work, and what the pair disagrees on there."""
    lists = listing.workers
    for number in range(0, len(lists), 2):
        right = lists[number + 1] if number + 1 < len(lists) else ()
        for work in zip_longest(lists[number], right):
            if work == (None, None):
                continue
            tiles = [None if one is None else tile_of(one) for one in work]
            pair = PairWork(
                workers=(number, number + 1),
                work=work,
                multicast=(tiles[0] not in rule.alone, tiles[1] not in rule.alone),
                k_blocks=(_length(listing, work[0]), _length(listing, work[1])),
            )
            yield _kind(rule, pair, *tiles), pair


def _length(listing: Listing, work: Work) -> int:
    if work is None:
        return 0
    return work.k_count if isinstance(work, Piece) else listing.length(work)


def _kind(rule: Pairs, pair: PairWork, one: Coordinates | None, other: Coordinates | None) -> PairKind | None:
    if one is None or other is None:
        return None if rule.lone else PairKind.VALIDITY
    if one[:-2] != other[:-2]:
        return PairKind.GROUP
    if pair.multicast[0] != pair.multicast[1]:
        return PairKind.MULTICAST
    if not pair.multicast[0]:
        return None
    axis = -1 if rule.shared == -2 else -2
    apart = rule.neighbours and (one[axis] % 2 != 0 or other[axis] != one[axis] + 1)
    if apart or one[rule.shared] != other[rule.shared]:
        return PairKind.OPERAND
    return PairKind.K_BLOCKS if pair.k_blocks[0] != pair.k_blocks[1] else None
