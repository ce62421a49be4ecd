"""What the listing of an original covers, and how it differs from a golden vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as shorten

from tilesched.simulator.originals import Coordinates, Listing, Original, Piece, Work

__all__ = ["ListingCoverage", "check_listing", "cover"]


@dataclass(frozen=True, slots=True)
class ListingCoverage:
    """Tiles, each once, in order. A tile is lost, or repeated, if any of its k-blocks is; a ghost is no tile of the
    problem."""

    lost: tuple[Coordinates, ...]
    repeated: tuple[Coordinates, ...]
    ghosts: tuple[Coordinates, ...]


def cover(listing: Listing) -> ListingCoverage:
    """Count each tile's work, or where work is in pieces, that of each of its k-blocks."""
    pieces: dict[Coordinates, list[tuple[int, int]]] = {}
    for one in (one for work in listing.workers for one in work if one is not None):
        if isinstance(one, Piece):
            pieces.setdefault(one.tile, []).append((one.k_begin, one.k_begin + one.k_count))
        else:
            pieces.setdefault(one, []).append((0, 1))
    whole, real = listing.k_blocks or 1, listing.real
    times = {tile: _times(ranges, whole) for tile, ranges in pieces.items()}
    lost = real - pieces.keys() | {tile for tile in real & pieces.keys() if times[tile][0] < 1}
    repeated = {tile for tile in real & pieces.keys() if times[tile][1] > 1}
    return ListingCoverage(*(tuple(sorted(tiles)) for tiles in (lost, repeated, pieces.keys() - real)))


def _times(ranges: Sequence[tuple[int, int]], whole: int) -> tuple[int, int]:
    """How often the k-blocks [0, whole) are in the ranges: the least and the most."""
    steps = Counter({0: 0, whole: 0})
    for begin, end in ranges:
        steps[begin] += 1
        steps[end] -= 1
    depth, depths = 0, []
    for edge in sorted(steps):
        depth += steps[edge]
        if 0 <= edge < whole:
            depths.append(depth)
    return min(depths), max(depths)


def check_listing(original: Original, params: Mapping[str, object], vector: Mapping[str, object]) -> str:
    """The first way in which an original differs from a vector, or nothing. Raises InputError for wrong parameters."""
    listing = original.build(params)
    ours = [[_entry(one) for one in work] for work in listing.workers]
    if difference := _first_difference(ours, vector["workers"]):
        return difference
    for name, value in listing.facts.items():
        if name in vector and vector[name] != value:
            return f"{name}: the vector has {shorten(vector[name])}, the model {shorten(value)}"
    covered = cover(listing)
    for name, tiles in (("lost", covered.lost), ("ghosts", covered.ghosts)):
        given, found = vector.get(name), [list(tile) for tile in tiles]
        if name in vector and (not isinstance(given, list) or sorted(map(repr, given)) != sorted(map(repr, found))):
            return f"{name}: the vector has {shorten(given)}, the model {shorten(found)}"
    return ""


def _entry(one: Work) -> object:
    """A work tile as golden vectors write it."""
    if isinstance(one, Piece):
        return {"tile": list(one.tile), "k0": one.k_begin, "k": one.k_count}
    return None if one is None else list(one)


def _first_difference(model: Sequence[Sequence[object]], given: object) -> str:
    if not isinstance(given, list):
        return f"workers: the vector has a {type(given).__name__}, not a list"
    if len(model) != len(given):
        return f"workers: the vector has {len(given)} workers, the model {len(model)}"
    for worker, (ours, theirs) in enumerate(zip(model, given, strict=True)):
        if not isinstance(theirs, list):
            return f"workers[{worker}]: the vector has {shorten(theirs)}, not a list"
        for position, (one, other) in enumerate(zip(ours, theirs, strict=False)):
            if one != other:
                return f"workers[{worker}][{position}]: the vector has {shorten(other)}, the model {shorten(one)}"
        if len(ours) != len(theirs):
            return f"workers[{worker}]: the vector has {len(theirs)} entries, the model {len(ours)}"
    return ""
