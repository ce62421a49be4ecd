"""What the listing of an original covers, and how it differs from a golden vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from reprlib import repr as shorten

from tilesched.simulator.originals import Coordinates, Listing, Original, Piece, Work

__all__ = ["ListingCoverage", "check_listing", "cover", "ranges_of"]


@dataclass(frozen=True, slots=True)
class ListingCoverage:
    """Tiles, each once, in order. A tile is lost, or repeated, if any of its k-blocks is; a ghost is no tile of the
    problem, or has work past its last k-block."""

    lost: tuple[Coordinates, ...]
    repeated: tuple[Coordinates, ...]
    ghosts: tuple[Coordinates, ...]


def cover(listing: Listing) -> ListingCoverage:
    """Count each tile's work, or where work is in pieces, that of each of its k-blocks."""
    pieces: dict[Coordinates, list[tuple[int, int]]] = {}
    for tile, begin, end in _ranges(listing):
        pieces.setdefault(tile, []).append((begin, end))
    real = listing.real
    depths = {tile: [depth for *_, depth in _profile(pieces[tile], listing.length(tile))] for tile in pieces}
    outside = {tile for tile, ranges in pieces.items() if any(end > listing.length(tile) for _, end in ranges)}
    lost = real - pieces.keys() | {tile for tile in real & pieces.keys() if min(depths[tile]) < 1}
    repeated = {tile for tile in real & pieces.keys() if max(depths[tile]) > 1}
    return ListingCoverage(*(tuple(sorted(tiles)) for tiles in (lost, repeated, outside | pieces.keys() - real)))


def ranges_of(listing: Listing, tile: Coordinates, times: int) -> list[tuple[int, int]]:
    """The k-blocks [begin, end) of a tile that are computed never (`times` 0) or so often or more."""
    ranges = [(begin, end) for one, begin, end in _ranges(listing) if one == tile]
    profile = _profile(ranges, listing.length(tile))
    return [(begin, end) for begin, end, depth in profile if (depth >= times if times else depth == 0)]


def _ranges(listing: Listing) -> Iterator[tuple[Coordinates, int, int]]:
    """A tile and k-blocks [begin, end) for all work; a tile without k-blocks has one."""
    for work in listing.workers:
        for one in work:
            if isinstance(one, Piece):
                yield one.tile, one.k_begin, one.k_begin + one.k_count
            elif one is not None:
                yield one, 0, listing.length(one)


def _profile(ranges: Sequence[tuple[int, int]], whole: int) -> list[tuple[int, int, int]]:
    """How often the k-blocks [0, whole) are in the ranges: (begin, end, times), in order."""
    steps = Counter({0: 0, whole: 0})
    for begin, end in ranges:
        steps[begin] += 1
        steps[end] -= 1
    depth, profile = 0, []
    for edge, following in pairwise(sorted(steps)):
        depth += steps[edge]
        if edge < whole:
            profile.append((edge, following, depth))
    return profile


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
