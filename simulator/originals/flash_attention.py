"""FlashAttention 3: the static persistent scheduler, and the dynamic one that takes the longest blocks first."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from .args import Args
from .listing import Coordinates, Listing, Original, strided

__all__ = ["ORIGINALS"]


def _static(params: Mapping[str, object]) -> Listing:
    args = Args(params)
    blocks, heads, batches, splits = _sizes(args)
    sms = args.count("num_sm")
    args.done()

    def decode(linear: int, _: int) -> Coordinates:
        rest, block = divmod(linear, blocks)
        rest, split = divmod(rest, splits)
        batch, head = divmod(rest, heads)
        return block, head, batch, split

    return Listing(strided(sms, blocks * heads * batches * splits, sms, decode), _real(blocks, heads, batches, splits))


def _dynamic(params: Mapping[str, object]) -> Listing:
    """Heads in sections that fit into L2; in a section the last blocks come first, which causal masks make longest."""
    args = Args(params)
    blocks, heads, batches, splits = _sizes(args)
    section = args.count("swizzle")
    args.done()

    def decode(linear: int, _: int) -> Coordinates:
        number, inner = divmod(linear, section * blocks * splits)
        width = section if number < heads * batches // section else heads * batches % section
        rest, head = divmod(inner, width)
        batch, head = divmod(number * section + head, heads)
        split, block = divmod(rest, blocks)
        return blocks - 1 - block, head, batch, split

    return Listing(strided(1, blocks * heads * batches * splits, 1, decode), _real(blocks, heads, batches, splits))


def _sizes(args: Args) -> tuple[int, int, int, int]:
    return args.count("num_blocks"), args.count("num_head"), args.count("num_batch"), args.count("splits", default=1)


def _real(*sizes: int) -> frozenset[Coordinates]:
    return frozenset(product(*map(range, sizes)))


_SOURCE = "Dao-AILab/flash-attention 0251105a2 hopper/tile_scheduler.hpp"
_ENTRY = "[block, head, batch, split]"

ORIGINALS = (
    Original(
        name="fa3.static_persistent",
        source=_SOURCE,
        entry=f"{_ENTRY} per CTA",
        example={"num_blocks": 2, "num_head": 2, "num_batch": 1, "num_sm": 3},
        build=_static,
    ),
    Original(
        name="fa3.dynamic_persistent(LPT)",
        source=_SOURCE,
        entry=f"{_ENTRY} for each id",
        example={"num_blocks": 3, "num_head": 3, "num_batch": 1, "swizzle": 2},
        build=_dynamic,
    ),
)
