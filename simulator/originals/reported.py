"""Mappings of public bug reports, as they were and as they were mended."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import accumulate, product

from ..intmath import ceil_div
from .args import Args
from .listing import Coordinates, Listing, Original, Pairs, Piece, Work, require_work, strided

__all__ = ["ORIGINALS"]


def _swizzle_fallback(params: Mapping[str, object], *, fixed: bool) -> Listing:
    """A block whose swizzled column lies past the edge took the tile of its own number, which has an owner already."""
    args = Args(params)
    m, n = args.count("m_tiles"), args.count("n_tiles")
    width = min(args.count("sw"), n)
    args.done()

    def decode(block: int, _: int) -> Coordinates:
        panel, inner = divmod(block, width * m)
        if fixed and (panel + 1) * width > n:
            row, column = divmod(block - n // width * width * m, n % width)
            return row, n // width * width + column
        row, column = inner // width, panel * width + inner % width
        return (row, column) if column < n else divmod(block, n)

    return Listing(strided(1, m * n, 1, decode), frozenset(product(range(m), range(n))))


def _grouped_rows(params: Mapping[str, object], *, fixed: bool) -> Listing:
    """Rows of groups one after another. Tiles were cut over all rows, and belonged to the group of their first one."""
    args = Args(params)
    sizes, block = args.counts("sizes"), args.count("block_m")
    args.done()
    require_work(sum(ceil_div(size, block) for size in sizes))
    work: list[Work] = []
    first, end = 0, list(accumulate(sizes))
    for group, size in enumerate(sizes):
        if fixed:
            work += [Piece((group,), row, min(block, size - row)) for row in range(0, size, block)]
            continue
        begin = end[group] - size
        while first < end[group]:
            work.append(Piece((group,), first - begin, min(block, end[group] - first)))
            first += block
    lengths: dict[Coordinates, int] = {(group,): size for group, size in enumerate(sizes) if size}
    return Listing([work], frozenset(lengths), k_blocks=lengths)


def _varlen(params: Mapping[str, object]) -> Listing:
    """As many items as lengths can need at most; the surplus is decoded to a batch that does not exist."""
    args = Args(params)
    lengths, tile = args.counts("seqlens"), args.count("tile")
    heads, checks = args.count("num_head", default=1), args.flag("checks_valid", True)
    args.done()
    launched = (sum(lengths) + len(lengths) * (tile - 1)) // tile
    require_work(launched * heads)
    blocks = [(block, batch) for batch, length in enumerate(lengths) for block in range(ceil_div(length, tile))]
    work: list[Work] = [(block, batch, head) for block, batch in blocks for head in range(heads)]
    surplus = [(block, len(lengths), head) for block in range(launched - len(blocks)) for head in range(heads)]
    real = frozenset((block, batch, head) for block, batch in blocks for head in range(heads))
    return Listing([[*work, *([None] * len(surplus) if checks else surplus)]], real)


def _grouped_pairs(params: Mapping[str, object], *, fixed: bool) -> Listing:
    """Triton's grouped order for clusters of two, dealt out to CTAs or, as it should be, to pairs along M."""
    args = Args(params)
    m, n, group = args.count("num_pid_m"), args.count("num_pid_n"), args.count("GROUP_SIZE_M")
    ctas = args.count("NUM_SMS", minimum=2) // 2 * 2
    args.done()
    rows, unit = (ceil_div(m, 2), 2) if fixed else (m, 1)
    stride = ctas // unit

    def decode(linear: int, cta: int) -> Coordinates:
        band, inner = divmod(linear, group * n)
        height = min(group, rows - band * group)
        column, row = divmod(inner, height)
        return (band * group + row) * unit + cta % unit, column

    require_work(max(ctas, rows * n))
    workers: list[list[Work]] = [
        [decode(linear, cta) for linear in range(cta // unit, rows * n, stride)] for cta in range(ctas)
    ]
    real = frozenset(product(range(m), range(n)))
    return Listing(workers, real, pads=fixed, pairs=Pairs(shared=-1, neighbours=True))


ORIGINALS = (
    Original(
        name="hip_ep.matmul_nbits(before #207)",
        source="ROCm/hip-ep#207",
        entry="[row, column] for each block",
        example={"m_tiles": 2, "n_tiles": 45, "sw": 8},
        build=partial(_swizzle_fallback, fixed=False),
    ),
    Original(
        name="hip_ep.matmul_nbits",
        source="ROCm/hip-ep#207",
        entry="[row, column] for each block",
        example={"m_tiles": 2, "n_tiles": 45, "sw": 8},
        build=partial(_swizzle_fallback, fixed=True),
    ),
    Original(
        name="tileops.grouped_gemm(before #1952)",
        source="tile-ai/TileOPs#1952",
        entry="[group] and rows, for each tile",
        example={"sizes": [96, 160], "block_m": 128},
        build=partial(_grouped_rows, fixed=False),
    ),
    Original(
        name="tileops.grouped_gemm",
        source="tile-ai/TileOPs#1952",
        entry="[group] and rows, for each tile",
        example={"sizes": [96, 160], "block_m": 128},
        build=partial(_grouped_rows, fixed=True),
    ),
    Original(
        name="fa.varlen_forward",
        source="Dao-AILab/flash-attention#2862; checks_valid=false is the kernel family that ignored the flag",
        entry="[block, batch, head] for each item",
        example={"seqlens": [128, 128], "tile": 128, "checks_valid": False},
        build=_varlen,
    ),
    Original(
        name="tlx.grouped_pairs(before #1071)",
        source="facebookexperimental/triton#1071",
        entry="[m, n] per CTA, pairs of CTAs one after another",
        example={"num_pid_m": 4, "num_pid_n": 4, "GROUP_SIZE_M": 1, "NUM_SMS": 148},
        build=partial(_grouped_pairs, fixed=False),
    ),
    Original(
        name="tlx.grouped_pairs",
        source="facebookexperimental/triton#1071: the pair goes through the grouped order, the rank picks the row",
        entry="[m, n] per CTA, pairs of CTAs one after another",
        example={"num_pid_m": 4, "num_pid_n": 4, "GROUP_SIZE_M": 1, "NUM_SMS": 148},
        build=partial(_grouped_pairs, fixed=True),
    ),
)
