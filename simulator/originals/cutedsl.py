"""CuTe DSL: the static persistent scheduler, the one of cluster launch control, and the static grouped one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from ..intmath import ceil_div, round_up
from .args import Args
from .listing import Coordinates, Listing, Original, require_work, strided

__all__ = ["ORIGINALS"]


class _Layout:
    """Cluster tiles in panels of `swizzle` along one axis, which is padded to whole panels; the other one runs on."""

    def __init__(self, args: Args) -> None:
        m, n, self.batches = args.counts("ntile_mnl", 3, minimum=1)
        cluster_m, cluster_n = args.counts("cluster", 2, minimum=1)
        self.swizzle, self.along_m = args.count("swizzle_size", default=1), args.flag("raster_along_m", True)
        self.rows, self.columns = ceil_div(m, cluster_m), ceil_div(n, cluster_n)
        across, self.along = (self.columns, self.rows) if self.along_m else (self.rows, self.columns)
        self.across = round_up(across, self.swizzle)

    @property
    def padded(self) -> int:
        """Ids of the layout."""
        return self.along * self.across * self.batches

    def real(self) -> frozenset[Coordinates]:
        """The cluster tiles of the problem."""
        return frozenset(product(range(self.rows), range(self.columns), range(self.batches)))

    def decode(self, linear: int, _: int = 0) -> Coordinates:
        """The cluster tile (m, n, l) of an id."""
        rest, inner = divmod(linear, self.swizzle)
        rest, along = divmod(rest, self.along)
        batch, panel = divmod(rest, self.across // self.swizzle)
        across = inner + self.swizzle * panel
        return (along, across, batch) if self.along_m else (across, along, batch)


def _static(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    layout, most = _Layout(args), args.count("max_active_clusters")
    args.done()
    workers = min(layout.padded, most)
    return Listing(strided(workers, layout.padded, workers, layout.decode), layout.real(), pads=True)


def _clc(params: Mapping[str, object]) -> Listing:
    """As many ids are launched as there are cluster tiles, but the layout that decodes them is padded."""
    args = Args(params)
    layout = _Layout(args)
    args.done()
    return Listing(
        strided(1, layout.rows * layout.columns * layout.batches, 1, layout.decode), layout.real(), pads=True
    )


def _static_group(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    groups, most = args.pairs("groups_cluster_tiles"), args.count("max_active_clusters")
    args.done()
    total = sum(rows * columns for rows, columns in groups)
    require_work(total)
    tiles = [(g, m, n) for g, (rows, columns) in enumerate(groups) for n in range(columns) for m in range(rows)]
    workers = min(total, most)
    return Listing(strided(workers, total, max(1, workers), lambda linear, _: tiles[linear]), frozenset(tiles))


_SOURCE = "NVIDIA/cutlass 7107b0553 python/CuTeDSL/cutlass/utils"

ORIGINALS = (
    Original(
        name="cutedsl.static_persistent",
        source=f"{_SOURCE}/static_persistent_tile_scheduler.py",
        entry="[m, n, l] in clusters, per persistent cluster",
        example={"ntile_mnl": [2, 3, 1], "cluster": [1, 1], "swizzle_size": 2, "max_active_clusters": 3},
        build=_static,
    ),
    Original(
        name="cutedsl.clc_dynamic",
        source=f"{_SOURCE}/dynamic_persistent_tile_scheduler.py",
        entry="[m, n, l] in clusters, for each launched id",
        example={"ntile_mnl": [2, 3, 1], "cluster": [1, 1], "swizzle_size": 2},
        build=_clc,
    ),
    Original(
        name="cutedsl.static_group",
        source=f"{_SOURCE}/grouped_gemm_persistent_tile_scheduler.py",
        entry="[group, m, n] in clusters, per persistent cluster",
        example={"groups_cluster_tiles": [[2, 2], [0, 0], [1, 3]], "max_active_clusters": 3},
        build=_static_group,
    ),
)
