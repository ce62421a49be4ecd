"""What the roles of a worker are given to do, and the clock by which they count it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ...errors import InputError
from ...findings import Finding
from ..kinds import ProtocolKind

__all__ = ["MAX_BUFFERS", "MAX_WARPS", "Loop", "Tiles", "Turns", "Work", "require", "role_mismatch", "rounds"]

Tiles: TypeAlias = tuple[int | None, ...]
"""The work tiles of one role of one worker, wave by wave; None is a hole, a wave that is skipped."""


class Loop(Enum):
    """What the iteration counter of a role counts."""

    WAVE = "wave"  # waves, holes included: the seed's old loop
    TILE = "tile"  # tiles that were taken: `while sched.valid()`


@dataclass(frozen=True, slots=True)
class Work:
    """The tile lists of the three kinds of roles. They are equal in a right kernel."""

    load: Tiles
    mma: Tiles
    epilogue: Tiles

    @classmethod
    def same(cls, tiles: Sequence[int | None]) -> Work:
        """All roles take the same tiles."""
        return cls(tuple(tiles), tuple(tiles), tuple(tiles))

    def lists(self) -> tuple[Tiles, Tiles, Tiles]:
        """Those of the loads, the MMA and the epilogue."""
        return self.load, self.mma, self.epilogue


class Turns:
    """What a role's accesses to a ring mean: the n-th use of a slot means the slot's n-th phase.

    It counts uses, not the kernel's clock: with holes the two differ, and only the parity follows the clock.
    """

    def __init__(self, slots: int) -> None:
        self._used = [0] * slots

    def next(self, slot: int) -> int:
        """The phase that the role's next use of `slot` means."""
        self._used[slot] += 1
        return self._used[slot] - 1


def rounds(tiles: Tiles, loop: Loop) -> Iterator[int]:
    """The iteration counter at each tile that is not a hole."""
    if loop is Loop.WAVE:
        yield from (wave for wave, tile in enumerate(tiles) if tile is not None)
    else:
        yield from range(sum(tile is not None for tile in tiles))


MAX_WARPS = 32
"""Warps of a CTA: 1024 threads."""

MAX_BUFFERS = 512
"""Stages, accumulator stages, buffers, slots: more than any shared or tensor memory holds."""


def require(low: int, high: int = 2**20 - 1, **values: int) -> None:
    """Raise InputError for the first value that is below `low` or above `high`."""
    for name, value in values.items():
        if not low <= value <= high:
            raise InputError(f"{name}={value} is outside [{low}, {high}]")


def role_mismatch(work: Work) -> list[Finding]:
    """A finding for the first position in which roles take different tiles: then one waits for what none sends."""
    lists = {"load": work.load, "mma": work.mma, "epilogue": work.epilogue}
    taken = {role: [tile for tile in tiles if tile is not None] for role, tiles in lists.items()}
    for place in range(max(len(tiles) for tiles in taken.values())):
        at = {role: tiles[place] if place < len(tiles) else None for role, tiles in taken.items()}
        if len(set(at.values())) > 1:
            shown = ", ".join(f"{role} {'none' if tile is None else tile}" for role, tile in at.items())
            return [
                Finding(
                    kind=ProtocolKind.ROLE_MISMATCH,
                    message=f"the roles disagree on tile number {place} of this worker: {shown}",
                    facts={"about": "work", "place": place, "tiles": at},
                )
            ]
    return []
