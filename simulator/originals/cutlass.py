"""CUTLASS: the SM90 static persistent scheduler, its grouped form, and the SM100 one of cluster launch control."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from ..errors import InputError
from ..intmath import ceil_div, round_up
from .args import Args
from .listing import Coordinates, Listing, Original, Work, require_work, strided

__all__ = [
    "ALONG_M",
    "ALONG_N",
    "HEURISTIC",
    "ORIGINALS",
    "RASTERS",
    "SOURCE",
    "PaddedGrid",
    "dense_grid",
    "launch_grid",
    "log_width",
    "read_cluster",
]

SOURCE = "NVIDIA/cutlass 7107b0553 include/cutlass/gemm/kernel"
ALONG_M, ALONG_N, HEURISTIC = "AlongM", "AlongN", "Heuristic"
RASTERS = {
    "H": HEURISTIC,
    "Heuristic": HEURISTIC,
    "M": ALONG_M,
    "AlongM": ALONG_M,
    "N": ALONG_N,
    "AlongN": ALONG_N,
}
_SMS_PER_GPC = 18


@dataclass(frozen=True, slots=True)
class PaddedGrid:
    """CTA tiles of a problem, both axes padded to whole clusters and to the swizzle (tile_scheduler_params.h).

    Ids run across panels of 2^log_swizzle clusters of the minor axis, then along the raster (major) axis.
    """

    m: int
    n: int
    cluster_m: int
    cluster_n: int
    log_swizzle: int
    raster: str

    @property
    def size(self) -> int:
        """CTA tiles, ghosts included."""
        return self.m * self.n

    def decode(self, linear: int, rank: int) -> tuple[int, int]:
        """The CTA tile (m, n) of an id; `rank`: the CTA's on the minor axis of its cluster."""
        along_n = self.raster == ALONG_N
        minor, major = (self.cluster_m, self.cluster_n) if along_n else (self.cluster_n, self.cluster_m)
        length = (self.n if along_n else self.m) // major
        cluster, offset = divmod(linear // minor, major)
        panel, step = divmod(cluster >> self.log_swizzle, length)
        across = (panel << self.log_swizzle) + (cluster & ((1 << self.log_swizzle) - 1))
        fast, slow = step * major + offset, across * minor + rank
        return (slow, fast) if along_n else (fast, slow)

    def rank(self, cta: int) -> int:
        """The rank on the minor axis of the CTA whose first id this is."""
        return cta % (self.cluster_m if self.raster == ALONG_N else self.cluster_n)


def log_width(most: int, least: int) -> int:
    """Binary logarithm of a panel's width: at most `most`, and less where the side `least` of the grid is short."""
    return next((log for log, side in ((3, 6), (2, 3), (1, 2)) if most >= 1 << log and least >= side), 0)


def padded_grid(m: int, n: int, cluster: tuple[int, int], max_swizzle: int, raster: str, least: int) -> PaddedGrid:
    """The grid of m × n CTA tiles; `least`: the shorter side, by which the width of panels is chosen."""
    log = log_width(max_swizzle, least)
    padded_m, padded_n = round_up(m, cluster[0] << log), round_up(n, cluster[1] << log)
    if raster == HEURISTIC:
        raster = ALONG_M if padded_n > padded_m else ALONG_N
    return PaddedGrid(padded_m, padded_n, *cluster, log, raster)


def dense_grid(m: int, n: int, cluster: tuple[int, int], max_swizzle: int, raster: str) -> PaddedGrid:
    """The grid of a dense problem: panels are chosen by its sides in whole clusters."""
    m, n = round_up(m, cluster[0]), round_up(n, cluster[1])
    return padded_grid(m, n, cluster, max_swizzle, raster, min(m, n))


def launch_grid(
    raster: str, cluster: tuple[int, int], sm_count: int, max_clusters: int, blocks: int | None
) -> tuple[int, int]:
    """CTAs in x and y; `blocks`: CTA tiles that the grid is cut down to, None for no such limit.

    Without `max_clusters` (0) a device is taken to have GPCs of 18 SMs, each of which holds whole clusters only.
    """

    def cut(length: int, by: int) -> int:
        return length if blocks is None else min(length, blocks // by)

    size, (cluster_m, cluster_n) = cluster[0] * cluster[1], cluster
    across, along = (cluster_m, cluster_n) if raster == ALONG_N else (cluster_n, cluster_m)
    if size == 1:
        length = cut(sm_count, 1)
    elif max_clusters and max_clusters * size <= sm_count:
        length = cut(max_clusters * along, across)
    else:
        rest = sm_count % _SMS_PER_GPC if sm_count >= _SMS_PER_GPC else 0
        gpcs = max(1, sm_count // _SMS_PER_GPC)
        held = gpcs * (_SMS_PER_GPC - _SMS_PER_GPC % size) + rest - rest % size
        length = cut(min(sm_count, held) // across, across)
    return (cluster_m, length) if raster == ALONG_N else (length, cluster_n)


def read_cluster(args: Args) -> tuple[int, int]:
    """The parameter `cluster`: two powers of two."""
    m, n = args.counts("cluster", 2, minimum=1)
    if m & (m - 1) or n & (n - 1):
        raise InputError(f"params: cluster={m}x{n} is not of powers of two")
    return m, n


def _static(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    m, n, batches = args.count("cta_tiles_m"), args.count("cta_tiles_n"), args.count("L", default=1)
    cluster, sms, most = read_cluster(args), args.count("sm_count"), args.count("max_active_clusters", 0, 0)
    grid = dense_grid(m, n, cluster, args.count("max_swizzle", 0, 1), args.choice("raster", RASTERS, "H"))
    args.done()
    blocks = grid.size * batches
    launched = launch_grid(grid.raster, cluster, sms, most, blocks)
    ctas = launched[0] * launched[1]

    def decode(linear: int, cta: int) -> Coordinates:
        batch, inner = divmod(linear, grid.size)
        return (*grid.decode(inner, grid.rank(cta)), batch)

    return Listing(
        strided(ctas, blocks, max(1, ctas), decode),
        frozenset(product(range(m), range(n), range(batches))),
        {
            "grid": list(launched),
            "log_swizzle": grid.log_swizzle,
            "raster_order": grid.raster,
            "padded": [grid.m, grid.n],
        },
        launched,
        cluster,
        pads=True,
    )


def _grouped(params: Mapping[str, object]) -> Listing:
    """Groups one after another, each padded. The host's bound on ids leaves the padding to the swizzle out (#3497)."""
    args = Args(params)
    groups, cluster, sms = args.pairs("groups_cta_mn"), read_cluster(args), args.count("sm_count")
    most, max_swizzle = args.count("max_active_clusters", 0, 0), args.count("max_swizzle", 0, 1)
    raster = args.choice("raster", {name: order for name, order in RASTERS.items() if order != HEURISTIC}, "AlongM")
    host_shapes = args.flag("host_shapes")
    args.done()
    grids = [padded_grid(m, n, cluster, max_swizzle, raster, min(m, n)) for m, n in groups]
    ids = sum(grid.size for grid in grids)
    bound = sum(round_up(max(1, m), cluster[0]) * round_up(max(1, n), cluster[1]) for m, n in groups)
    by_clusters = cluster[0] * cluster[1] > 1 and 0 < most * cluster[0] * cluster[1] <= sms  # not cut to the problem
    launched = launch_grid(raster, cluster, sms, most, bound if host_shapes and not by_clusters else None)
    ctas = launched[0] * launched[1]
    require_work(max(ids, ctas))
    owner = [(group, inner) for group, grid in enumerate(grids) for inner in range(grid.size)]

    def decode(linear: int, cta: int) -> Coordinates:
        group, inner = owner[linear]
        return (*grids[group].decode(inner, grids[group].rank(cta)), group)

    real = ((m, n, group) for group, (rows, columns) in enumerate(groups) for m in range(rows) for n in range(columns))
    workers = strided(ctas, min(ids, bound) if host_shapes else ids, max(1, ctas), decode)
    return Listing(workers, frozenset(real), {"grid": list(launched)}, launched, cluster, pads=True)


def _clc(params: Mapping[str, object]) -> Listing:
    """The tile of each cluster that is launched or cancelled, in the order of ids; which worker gets it is not said."""
    args = Args(params)
    m, n, batches = args.count("cta_tiles_m"), args.count("cta_tiles_n"), args.count("L", default=1)
    cluster_m, cluster_n = args.counts("cluster", 2, minimum=1)
    swizzle, raster = args.count("max_swizzle", 0, 0), args.choice("raster", RASTERS, "H")
    args.done()
    rows, columns = ceil_div(m, cluster_m), ceil_div(n, cluster_n)
    if raster == HEURISTIC:
        raster = ALONG_M if columns > rows or rows * cluster_n > 65535 else ALONG_N
    size_x, size_y = (rows, columns) if raster == ALONG_M else (columns, rows)
    width = max(1, swizzle)
    whole_x, whole_y = size_x // width, size_y // width

    def tile(x: int, y: int) -> tuple[int, int]:
        if x < whole_x * width and y < whole_y * width:
            x, y = x // width + whole_x * (y % width), x % width + y // width * width
        return (x, y) if raster == ALONG_M else (y, x)

    require_work(rows * columns * batches)
    ids = [(x, y, z) for z in range(batches) for y in range(size_y) for x in range(size_x)]
    work: list[Work] = []
    for x, y, z in ids:
        row, column = tile(x, y)
        work.append((row * cluster_m, column * cluster_n, z))
    return Listing(
        [work],
        frozenset(product(range(0, m, cluster_m), range(0, n, cluster_n), range(batches))),
        {
            "grid": [size_x * cluster_m, size_y * cluster_n, batches],
            "clc_ids": [[x * cluster_m, y * cluster_n, z] for x, y, z in ids],
            "raster_order": raster,
        },
    )


ORIGINALS = (
    Original(
        name="cutlass.sm90.static_persistent",
        source=f"{SOURCE}/sm90_tile_scheduler.hpp",
        entry="[m, n, l] per CTA, ordered by first id",
        example={"cta_tiles_m": 5, "cta_tiles_n": 5, "sm_count": 132, "cluster": [2, 1], "max_swizzle": 8},
        build=_static,
    ),
    Original(
        name="cutlass.sm90.group",
        source=f"{SOURCE}/sm90_tile_scheduler_group.hpp",
        entry="[m, n, group] per CTA",
        example={
            "groups_cta_mn": [[2, 2], [3, 3]],
            "cluster": [1, 1],
            "sm_count": 4,
            "max_swizzle": 4,
            "host_shapes": True,
        },
        build=_grouped,
    ),
    Original(
        name="cutlass.sm100.clc",
        source=f"{SOURCE}/sm100_tile_scheduler.hpp",
        entry="[m, n, l] of the first CTA for each ClcID in x, y, z order",
        example={"cta_tiles_m": 4, "cta_tiles_n": 5, "cluster": [2, 1], "max_swizzle": 2, "raster": "N"},
        build=_clc,
    ),
)
