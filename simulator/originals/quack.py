"""quack: panels walked back and forth, dense and with rows of variable length."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from ..intmath import ceil_div, round_up
from .args import Args
from .listing import Listing, Original, Work, require_work, strided

__all__ = ["ORIGINALS"]

_ALONG = {"M": "AlongM", "AlongM": "AlongM", "N": "AlongN", "AlongN": "AlongN"}


def _decode(linear: int, m: int, n: int, width: int, raster: str) -> tuple[int, int]:
    """The cluster tile (m, n) of an id: panels of the axis that `raster` names, odd ones walked backwards."""
    across, along = (m, n) if raster == "AlongM" else (n, m)
    width = min(width, across)
    panel, offset = divmod(linear, width * along)
    step, inner = divmod(offset, min(width, across - panel * width))
    slow = along - 1 - step if panel % 2 else step
    fast = panel * width + inner
    return (fast, slow) if raster == "AlongM" else (slow, fast)


def _dense(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    m, n, batches = args.count("nclusters_m"), args.count("nclusters_n"), args.count("L", default=1)
    width = args.count("group_size", default=8)
    raster = args.choice("raster", {**_ALONG, "H": "", "Heuristic": ""}, "H")
    most = args.count("max_active_clusters")
    args.done()
    if not raster:
        raster = "AlongM" if round_up(n, width) > round_up(m, width) else "AlongN"
    total = m * n * batches
    workers = min(total, most)

    def decode(linear: int, _: int) -> tuple[int, int, int]:
        batch, inner = divmod(linear, m * n)
        return (*_decode(inner, m, n, width, raster), batch)

    return Listing(
        strided(workers, total, workers, decode),
        frozenset(product(range(m), range(n), range(batches))),
        {"raster_order": raster},
    )


def _varlen_m(params: Mapping[str, object]) -> Listing:
    """As many ids as the lengths can need at most; those that no sequence needs are phantoms, at the end."""
    args = Args(params)
    lengths, block = args.counts("seqlens"), args.count("block_m")
    columns, width = args.count("nclusters_n"), args.count("group_size", default=8)
    raster = args.choice("raster", _ALONG)
    args.done()
    clusters = (sum(lengths) + len(lengths) * (block - 1)) // block * columns
    require_work(clusters)
    rows = [ceil_div(length, block) for length in lengths]
    work: list[Work] = [
        (*_decode(inner, height, columns, width, raster), batch)
        for batch, height in enumerate(rows)
        for inner in range(height * columns)
    ]
    real = ((m, n, batch) for batch, height in enumerate(rows) for m in range(height) for n in range(columns))
    return Listing([[*work, *[None] * (clusters - len(work))]], frozenset(real), {"grid_clusters": clusters})


_SOURCE = "Dao-AILab/quack c8ec31700 quack/tile_scheduler.py"

ORIGINALS = (
    Original(
        name="quack.dense_static",
        source=_SOURCE,
        entry="[m, n, l] in clusters, per persistent cluster",
        example={"nclusters_m": 5, "nclusters_n": 3, "group_size": 2, "raster": "N", "max_active_clusters": 2},
        build=_dense,
    ),
    Original(
        name="quack.varlen_m",
        source=_SOURCE,
        entry="[m, n, batch] in clusters, or null, for each id",
        example={"seqlens": [5, 0, 4], "block_m": 4, "nclusters_n": 2, "raster": "AlongN"},
        build=_varlen_m,
    ),
)
