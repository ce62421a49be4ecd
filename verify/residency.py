"""Workers that wait for each other's pieces, with fewer places on the device than workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tilesched.simulator.originals import Coordinates, Fixup, Listing, Piece

__all__ = ["Stuck", "run_resident"]


@dataclass(frozen=True, slots=True)
class Stuck:
    """A resident worker that waits for ever at a piece of `tile`, for the workers that hold lower k-blocks of it."""

    worker: int
    tile: Coordinates
    awaited: tuple[int, ...]


def run_resident(listing: Listing, places: int) -> list[Stuck]:
    """Run the workers in launch order, at most `places` at once: the ones that are stuck in the end, if any.

    A worker computes its pieces in order, keeps its place while it waits, and leaves when it is done; then the next
    one starts. No worker takes back what it did, so that every order of steps ends in the same state: one decides.
    Needs a listing in which each k-block is computed once.
    """
    return _Run(listing).to_the_end(places)


class _Run:
    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.holders: dict[Coordinates, list[tuple[int, int]]] = {}  # (k_begin, worker) of a tile's pieces
        for worker, piece in _pieces(listing):
            self.holders.setdefault(piece.tile, []).append((piece.k_begin, worker))
        self.done: dict[Coordinates, set[int]] = {}  # first k-blocks of finished pieces
        self.position = [0] * len(listing.workers)
        self.waiting: dict[Coordinates, list[int]] = {}

    def to_the_end(self, places: int) -> list[Stuck]:
        """Step every worker as far as it gets, and start another for each that ends."""
        count = len(self.listing.workers)
        ready, started = deque(range(min(places, count))), min(places, count)
        while ready:
            worker = ready.popleft()
            if not self._advance(worker, ready):
                continue
            if started < count:
                ready.append(started)
                started += 1
        return [
            Stuck(worker, tile, self._awaited(worker)) for tile, workers in self.waiting.items() for worker in workers
        ]

    def _advance(self, worker: int, ready: deque[int]) -> bool:
        """Whether the worker ends; otherwise it waits."""
        work = self.listing.workers[worker]
        while self.position[worker] < len(work):
            piece = work[self.position[worker]]
            if isinstance(piece, Piece):
                if self._awaited(worker):
                    self.waiting.setdefault(piece.tile, []).append(worker)
                    return False
                self.done.setdefault(piece.tile, set()).add(piece.k_begin)
                ready.extend(self.waiting.pop(piece.tile, ()))
            self.position[worker] += 1
        return True

    def _awaited(self, worker: int) -> tuple[int, ...]:
        """The workers for whose pieces this worker's present piece waits."""
        piece = self.listing.workers[worker][self.position[worker]]
        if not isinstance(piece, Piece) or not self._waits(piece):
            return ()
        done = self.done.get(piece.tile, set())
        return tuple(who for begin, who in self.holders[piece.tile] if begin < piece.k_begin and begin not in done)

    def _waits(self, piece: Piece) -> bool:
        if self.listing.fixup is Fixup.LAST:
            return piece.k_begin + piece.k_count == self.listing.length(piece.tile)
        return self.listing.fixup is Fixup.TURNSTILE


def _pieces(listing: Listing) -> Iterator[tuple[int, Piece]]:
    for worker, work in enumerate(listing.workers):
        for one in work:
            if isinstance(one, Piece):
                yield worker, one
