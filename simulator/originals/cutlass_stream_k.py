"""CUTLASS SM90 Stream-K, split-K and data-parallel: how the decomposition is chosen, and what each unit computes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from ..errors import InputError
from .args import Args
from .cutlass import ALONG_M, RASTERS, SOURCE, PaddedGrid, dense_grid, launch_grid, read_cluster
from .listing import Coordinates, Fixup, Listing, Original, Piece, Work, require_work

__all__ = ["ORIGINALS"]

_MIN_K_TILES = 8  # of a unit
_MAX_GROUPS = 8
_DECOMPOSITIONS = {name: name for name in ("Heuristic", "StreamK", "DataParallel", "SplitK")}


@dataclass(frozen=True, slots=True)
class _Plan:
    """`kind` as golden vectors name it; `splits` of every tile, or the tiles and units of Stream-K."""

    kind: str
    splits: int = 1
    sk_tiles: int = 0
    sk_units: int = 0
    groups: int = 1


@dataclass(frozen=True, slots=True)
class _Problem:
    """Padded CTA tiles over all batches, k-tiles of each, and the workers."""

    grid: PaddedGrid
    batches: int
    k_tiles: int
    workers: int

    @property
    def cluster(self) -> int:
        return self.grid.cluster_m * self.grid.cluster_n

    @property
    def tiles(self) -> int:
        return self.grid.size * self.batches


def _stream_k(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    m, n, batches = args.count("cta_tiles_m"), args.count("cta_tiles_n"), args.count("L", default=1)
    k_tiles, cluster, sms = args.count("k_tiles"), read_cluster(args), args.count("sm_count")
    most = args.count("max_active_clusters", 0, 0)
    grid = dense_grid(m, n, cluster, args.count("max_swizzle", 0, 1), args.choice("raster", RASTERS, "H"))
    splits, mode = args.count("splits", default=1), args.choice("decomposition", _DECOMPOSITIONS, "Heuristic")
    args.done()
    if splits > 1 and mode not in ("Heuristic", "SplitK"):
        raise InputError(f"params: splits={splits} is outside [1, 1] for decomposition={mode}")
    launched = launch_grid(grid.raster, cluster, sms, most, None)
    problem = _Problem(grid, batches, k_tiles, launched[0] * launched[1])
    require_work(max(problem.workers, problem.tiles * min(splits, k_tiles)) * 2)
    plan = _plan(problem, splits, mode, sms)
    facts = {name: getattr(plan, name) for name in ("kind", "sk_tiles", "sk_units", "groups")}
    return Listing(
        [list(_work(problem, plan, worker)) for worker in range(problem.workers)],
        frozenset(product(range(m), range(n), range(batches))),
        {**facts, "grid": list(launched)},
        launched,
        cluster,
        k_blocks=k_tiles,
        pads=True,
        fixup=Fixup.TURNSTILE,
    )


def _plan(problem: _Problem, splits: int, mode: str, sms: int) -> _Plan:
    if mode == "SplitK" or (mode == "Heuristic" and splits > 1):
        return _Plan("SplitK", splits=min(splits, sms, problem.k_tiles))
    cluster, workers = problem.cluster, problem.workers
    sk_tiles = _stream_k_tiles(problem, mode)
    units = min(workers // cluster * cluster, problem.k_tiles * sk_tiles // _MIN_K_TILES // cluster * cluster)
    if not sk_tiles or not units:
        return _Plan("DP")
    if mode == "Heuristic" and sk_tiles < units and units % sk_tiles == 0:
        return _Plan("SplitK(heuristic)", splits=units // sk_tiles)
    return _Plan("StreamK", sk_tiles=sk_tiles, sk_units=units, groups=_groups(problem, sk_tiles, units))


def _stream_k_tiles(problem: _Problem, mode: str) -> int:
    """What is left of a whole number of waves and one wave more, in whole clusters; 0 where it does not pay."""
    tiles, workers = problem.tiles, problem.workers
    if mode == "DataParallel" or not workers or tiles % workers == 0 or problem.k_tiles <= _MIN_K_TILES:
        return 0
    waves = tiles // workers
    if mode == "Heuristic" and 2 * (tiles - waves * workers) >= workers:
        return 0
    return (tiles - max(waves - 1, 0) * workers) // problem.cluster * problem.cluster


def _groups(problem: _Problem, sk_tiles: int, units: int) -> int:
    """Groups of units that walk tiles together: as many as divide units and tiles, or at least the units."""
    grid, cluster = problem.grid, problem.cluster
    longest = grid.m // grid.cluster_m if grid.raster == ALONG_M else grid.n // grid.cluster_n
    fitting = [
        groups
        for groups in range(min(longest, _MAX_GROUPS), 1, -1)
        if units // cluster % groups == 0
        and sk_tiles // cluster // groups * cluster * problem.k_tiles // (units // groups) >= _MIN_K_TILES
    ]
    ideal = (groups for groups in fitting if sk_tiles // cluster % groups == 0)
    return next(ideal, fitting[0] if fitting else 1)


def _work(problem: _Problem, plan: _Plan, worker: int) -> Iterator[Work]:
    """The pieces of a worker; a unit that was left without k-tiles ends it."""
    rank = problem.grid.rank(worker)
    if plan.splits > 1 or plan.kind.startswith("SplitK"):
        clusters = problem.tiles // problem.cluster
        full, more = divmod(problem.k_tiles, plan.splits)
        for linear in range(worker, problem.tiles * plan.splits, problem.workers):
            split = linear // problem.cluster // clusters
            tile = _tile(problem, linear - split * problem.tiles, rank)
            yield Piece(tile, split * full + min(split, more), full + (split < more))
        return
    for linear in range(worker, plan.sk_units + problem.tiles - plan.sk_tiles, problem.workers):
        if linear >= plan.sk_units:
            yield Piece(_tile(problem, linear - plan.sk_units + plan.sk_tiles, rank), 0, problem.k_tiles)
            continue
        pieces = list(_unit(problem, plan, linear, rank))
        yield from pieces
        if not pieces:
            return


def _unit(problem: _Problem, plan: _Plan, unit: int, rank: int) -> Iterator[Piece]:
    """A unit's range of the k-tiles of its group, moved so that no piece is shorter than 8, from the back."""
    cluster, k_tiles = problem.cluster, problem.k_tiles
    place, group = divmod(unit // cluster, plan.groups)
    share, more = divmod(plan.sk_tiles // cluster, plan.groups)
    total, units = (share + (group < more)) * cluster * k_tiles, plan.sk_units // plan.groups
    each = total // units
    longer = (total - each * units) // cluster
    begin = each * place + min(place, longer)
    end = _snap(begin + each + (place < longer), k_tiles)
    begin = _snap(begin, k_tiles)
    while end > begin:
        tile = (end - 1) // k_tiles
        start = max(begin, tile * k_tiles)
        linear = (tile * plan.groups + group) * cluster + unit % cluster
        yield Piece(_tile(problem, linear, rank), start - tile * k_tiles, end - start)
        end = start


def _snap(k: int, k_tiles: int) -> int:
    """An edge that would cut off fewer than 8 k-tiles of a tile moves to that tile's begin or end."""
    rest = k % k_tiles
    if rest < _MIN_K_TILES:
        return k - rest
    return k + k_tiles - rest if rest > k_tiles - _MIN_K_TILES else k


def _tile(problem: _Problem, linear: int, rank: int) -> Coordinates:
    batch, inner = divmod(linear, problem.grid.size)
    return (*problem.grid.decode(inner, rank), batch)


ORIGINALS = (
    Original(
        name="cutlass.sm90.stream_k",
        source=f"{SOURCE}/sm90_tile_scheduler_stream_k.hpp",
        entry="[m, n, l] and k-tiles per CTA",
        example={"cta_tiles_m": 3, "cta_tiles_n": 3, "k_tiles": 16, "cluster": [1, 1], "sm_count": 4},
        build=_stream_k,
    ),
)
