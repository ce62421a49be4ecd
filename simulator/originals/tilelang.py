"""TileLang: `T.Persistent` before and after its fix, `T.use_swizzle`, Stream-K with CTA pairs, grouped mxfp8."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from math import prod

from ..errors import InputError
from ..intmath import ceil_div
from .args import Args
from .listing import Coordinates, Fixup, Listing, Original, Piece, Work, require_work, strided

__all__ = ["ORIGINALS"]


def _persistent(params: Mapping[str, object], *, fixed: bool) -> Listing:
    """`T.Persistent`: mixed-radix ids whose last coordinate is cut into groups (PR 2455 pads the last group)."""
    args = Args(params)
    domain = args.counts("domain", minimum=1)
    wave, group = args.count("wave_size"), args.count("group_size", default=8)
    args.done()
    if not domain:
        raise InputError("params: domain is empty")
    *outer, last = domain
    group = min(group, last)
    groups = ceil_div(last, group) if fixed else last // group
    ids = max(groups * prod(outer) * group if fixed else prod(domain), wave)
    require_work(max(ids, prod(domain)))

    def decode(linear: int) -> Coordinates:
        rest, inner = divmod(linear, group)
        coordinates: list[int] = []
        for extent in reversed(outer):
            rest, one = divmod(rest, extent)
            coordinates.insert(0, one)
        return (*coordinates, rest * group + inner)

    workers = [[decode(linear) for linear in range(index, ids, wave)] for index in range(wave)]
    if fixed:
        workers = [[tile for tile in work if tile[-1] < last] for work in workers]
    return Listing(workers, frozenset(product(*map(range, domain))))


def _use_swizzle(params: Mapping[str, object]) -> Listing:
    """Blocks in launch order, renumbered in serpentine panels of rows or columns."""
    args = Args(params)
    x, y, width = args.count("gridDim_x"), args.count("gridDim_y"), args.count("panel_width")
    row = args.choice("order", {"row": "row", "column": "column"}, "row") == "row"
    args.done()
    along, across = (x, y) if row else (y, x)

    def decode(linear: int, _: int) -> Coordinates:
        panel, offset = divmod(linear, along * width)
        step, inner = divmod(offset, min(width, across - panel * width))
        fast, slow = along - 1 - step if panel % 2 else step, panel * width + inner
        return (fast, slow) if row else (slow, fast)

    return Listing(strided(1, x * y, 1, decode), frozenset(product(range(x), range(y))))


def _stream_k(params: Mapping[str, object]) -> Listing:
    """What whole waves leave over is shared by all clusters in ranges of k-blocks, before the whole tiles."""
    args = Args(params)
    rows, columns = args.count("m_clusters"), args.count("n_blocks")
    k_blocks, clusters = args.count("k_blocks"), args.count("num_clusters")
    args.done()
    total = rows * columns
    shared = total % clusters
    if not shared:
        raise InputError(f"params: num_clusters={clusters} divides {total} tiles: nothing is left for Stream-K")
    require_work(max(total, clusters) * 2)
    even = clusters % shared == 0 and clusters // shared <= k_blocks

    def edge(cluster: int) -> int:
        """Where the range of a cluster begins, counted in k-blocks over all shared tiles."""
        if even:
            per_tile = clusters // shared
            tile, part = divmod(cluster, per_tile)
            full, more = divmod(k_blocks, per_tile)
            return tile * k_blocks + part * full + min(part, more)
        full, more = divmod(shared * k_blocks, clusters)
        return cluster * full + min(cluster, more)

    def work(cluster: int) -> list[Work]:
        pieces: list[Work] = []
        begin, end = edge(cluster), edge(cluster + 1)
        while end > begin:
            tile = (end - 1) // k_blocks
            start = max(begin, tile * k_blocks)
            pieces.append(Piece(divmod(tile, columns), start - tile * k_blocks, end - start))
            end = start
        whole = range(shared + cluster, total, clusters)
        return [*pieces, *(Piece(divmod(tile, columns), 0, k_blocks) for tile in whole)]

    real = frozenset(product(range(rows), range(columns)))
    return Listing([work(one) for one in range(clusters)], real, k_blocks=k_blocks, fixup=Fixup.LAST)


def _grouped_mxfp8(params: Mapping[str, object]) -> Listing:
    """Every expert has the cluster rows of the largest; panels of cluster rows within an expert."""
    args = Args(params)
    experts = args.counts("expert_m_blocks")
    columns, most, sms = args.count("n_blocks"), args.count("max_M_blocks"), args.count("sm_num", minimum=2)
    group = args.count("group_size", default=8)
    args.done()
    rows, clusters = ceil_div(most, 2), sms // 2

    def decode(linear: int, cta: int) -> Coordinates:
        expert, inner = divmod(linear, columns * rows)
        panel, offset = divmod(inner, group * columns)
        width = min(rows - panel * group, group)
        column, row = divmod(offset, width)
        return expert, 2 * (panel * group + row) + cta, column

    ids = len(experts) * columns * rows
    require_work(max(2 * clusters, 2 * ids, sum(experts) * columns))
    workers: list[list[Work]] = [
        [decode(linear, cta % 2) for linear in range(cta // 2, ids, clusters)] for cta in range(2 * clusters)
    ]
    real = ((e, m, n) for e, height in enumerate(experts) for m in range(height) for n in range(columns))
    return Listing(workers, frozenset(real), pads=True)


_HEAD = "tile-ai/tilelang a35008a42"

ORIGINALS = (
    Original(
        name="tilelang.T.Persistent",
        source=f"{_HEAD} src/ir.cc PersistentFor",
        entry="[coordinates] per index",
        example={"domain": [4, 9], "wave_size": 3},
        build=partial(_persistent, fixed=True),
    ),
    Original(
        name="tilelang.T.Persistent(before #2455)",
        source="tile-ai/tilelang ab083cb3c^ src/ir.cc PersistentFor",
        entry="[coordinates] per index",
        example={"domain": [4, 9], "wave_size": 3},
        build=partial(_persistent, fixed=False),
    ),
    Original(
        name="tilelang.use_swizzle",
        source=f"{_HEAD} src/tl_templates/cuda/threadblock_swizzle.h",
        entry="[bx, by] in launch order",
        example={"gridDim_x": 4, "gridDim_y": 3, "panel_width": 2, "order": "row"},
        build=_use_swizzle,
    ),
    Original(
        name="tilelang.streamk_2cta",
        source=f"{_HEAD} examples/gemm_tcgen05/gemm_tcgen5mma_ws_persistent_streamk.py",
        entry="[m_cluster, n] and k-blocks per cluster",
        example={"m_clusters": 2, "n_blocks": 3, "k_blocks": 4, "num_clusters": 4},
        build=_stream_k,
    ),
    Original(
        name="tilelang.grouped_mxfp8",
        source=f"{_HEAD} examples/blockscaled_gemm_sm100/grouped_gemm_mxfp8_blockscaled_1d1d.py",
        entry="[expert, pid_m, pid_n] per CTA",
        example={"expert_m_blocks": [3, 1], "n_blocks": 2, "max_M_blocks": 3, "sm_num": 4},
        build=_grouped_mxfp8,
    ),
)
