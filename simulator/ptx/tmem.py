"""Tensor memory: 128 lanes × 512 columns of 32 bits a CTA, its allocation, tcgen05.ld and st (rules 45-48, 62-63).

Tensor memory is an array of shape (128, 512) of uint32. An address has the lane in bits 31-16, the column in 15-0.

A warp reaches the 32 lanes from 32 · (warp id mod 4) on. An address names one of them, or has a lane below 32, which
counts from the warp's first: DeepGEMM passes lane 0 in all four warps. Where the registers of thread t lie, relative to
the address, for the first repetition; each further one is the shape's width to the right (PTX 9.7.16.2.3.1):

.32x32b    lane t, column 0                                            1 register, 1 column wide
.16x64b    lane t div 4 + 8 · (t mod 2), column t div 2 mod 2          1 register, 2 wide
.16x128b   lane t div 4 + 8 · i, column t mod 4                        2 registers i, 4 wide
.16x256b   lane t div 4 + 8 · (i div 2), column 2 · (t mod 4) + i mod 2    4 registers i, 8 wide
.16x32bx2  lane t mod 16, column (t div 16) · immHalfSplitoff          1 register, 1 wide

With .pack::16b and .unpack::16b a register holds the low halves of two neighbouring columns, the left one in its own
low half; every column counts double, except those of immHalfSplitoff, which stay columns of tensor memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .illegal import Illegal, Unsupported

__all__ = [
    "COLUMNS",
    "LANES",
    "Allocation",
    "Cells",
    "Granted",
    "Shape",
    "allocate",
    "cells",
    "deallocate",
    "load",
    "relinquish",
    "split_address",
    "store",
]

LANES = 128
COLUMNS = 512
UNIT = 32
_WARP = 32
Words: TypeAlias = NDArray[np.uint32]
Indices: TypeAlias = NDArray[np.int64]


def split_address(address: int) -> tuple[int, int]:
    """(lane, column) of a tensor-memory address (PTX 9.7.16.1.1)."""
    return address >> 16 & 0xFFFF, address & 0xFFFF


# Allocation


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one CTA has of its columns. `held` maps the first column of each allocation to its columns, in order."""

    held: tuple[tuple[int, int], ...] = ()
    smallest: int = COLUMNS
    relinquished: bool = False
    warp: int | None = None


@dataclass(frozen=True, slots=True)
class Granted:
    """An allocation: the state after it and the address that is written to shared memory."""

    state: Allocation
    address: int


def allocate(state: Allocation, columns: int, warp: int) -> Granted | Illegal | None:
    """tcgen05.alloc by warp `warp`; None while there is no room, which blocks the warp (rule 46).

    Grants the leftmost free columns: where they are is not documented, and a kernel may not rely on it. Illegal: a size
    that is not a power of two in 32..512 or is greater than an earlier one (rule 46), an alloc after relinquish
    (rule 48), another warp than the first that allocated (rule 47).
    """
    what = "tcgen05.alloc"
    if columns not in (32, 64, 128, 256, 512):
        return Illegal(what, "nCols", columns, "a power of two from 32 to 512")
    if state.relinquished:
        return Illegal(what, "permit", "relinquished", "no allocation after relinquish_alloc_permit")
    if columns > state.smallest:
        return Illegal(what, "nCols", columns, f"sizes must not increase, and {state.smallest} came before")
    if state.warp not in (None, warp):
        return Illegal(what, "warp", warp, f"all allocations by one warp, and warp {state.warp} has allocated")
    start = 0
    for first, size in state.held:
        if first - start >= columns:
            break
        start = first + size
    if start + columns > COLUMNS:
        return None
    held = tuple(sorted((*state.held, (start, columns))))
    return Granted(replace(state, held=held, smallest=columns, warp=warp), start)


def deallocate(state: Allocation, address: int, columns: int) -> Allocation | Illegal:
    """tcgen05.dealloc. Illegal unless it gives back exactly one allocation: its address and its size."""
    sizes = dict(state.held)
    lane, column = split_address(address)
    if lane or column not in sizes:
        return Illegal("tcgen05.dealloc", "taddr", hex(address), "the address of a live allocation")
    if columns != sizes[column]:
        return Illegal("tcgen05.dealloc", "nCols", columns, f"the allocation has {sizes[column]}")
    return replace(state, held=tuple(one for one in state.held if one[0] != column))


def relinquish(state: Allocation) -> Allocation:
    """tcgen05.relinquish_alloc_permit: the CTA, whichever warp said it, allocates no more. May be said twice."""
    return replace(state, relinquished=True)


# ld and st


class Shape(Enum):
    """Shapes of ld and st: (registers, columns) of one repetition, the greatest .num, lanes that are reached."""

    S32X32B = (1, 1, 128, 32)
    S16X64B = (1, 2, 128, 16)
    S16X128B = (2, 4, 64, 16)
    S16X256B = (4, 8, 32, 16)
    S16X32BX2 = (1, 1, 128, 16)

    @property
    def registers(self) -> int:
        """Registers of a thread, for one repetition."""
        return self.value[0]

    @property
    def width(self) -> int:
        """Columns to the next repetition."""
        return self.value[1]

    @property
    def most(self) -> int:
        """The greatest .num (PTX table 49)."""
        return self.value[2]

    @property
    def lanes(self) -> int:
        """Lanes that a warp reaches at once."""
        return self.value[3]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of one ld or st: arrays of shape (registers, 32 threads), and a last axis of 2 when packed."""

    lanes: Indices
    columns: Indices

    @property
    def packed(self) -> bool:
        """Whether a register holds two half cells."""
        return self.columns.ndim == 3


@lru_cache(maxsize=64)
def _pattern(shape: Shape, num: int) -> tuple[Indices, Indices, Indices]:
    """(lanes, columns, 1 for the second half of .16x32bx2) relative to the address, shape (registers, 32)."""
    thread = np.arange(_WARP)
    register = np.arange(shape.registers * num).reshape(-1, 1)
    repeat, i = register // shape.registers, register % shape.registers
    none = np.zeros_like(thread)
    match shape:
        case Shape.S32X32B:
            lane, column, half = thread, none, none
        case Shape.S16X64B:
            lane, column, half = thread // 4 + 8 * (thread % 2), thread // 2 % 2, none
        case Shape.S16X128B:
            lane, column, half = thread // 4 + 8 * i, thread % 4, none
        case Shape.S16X256B:
            lane, column, half = thread // 4 + 8 * (i // 2), 2 * (thread % 4) + i % 2, none
        case Shape.S16X32BX2:
            lane, column, half = thread % 16, none, thread // 16
    lane, column, half = np.broadcast_arrays(lane, column + repeat * shape.width, half)
    return lane, column, half


def cells(shape: Shape, num: int, address: int, warp: int, *, packed: bool = False, split: int = 0) -> Cells | Illegal:
    """Which cells a warp's ld or st of `shape`.x`num` at `address` reaches. `split` is immHalfSplitoff, in columns.

    `warp` is the warp id in the CTA. Illegal: a .num that the shape has not, lanes outside of the warp's 32, columns
    outside of 512. Unsupported: a first lane other than the warp's first or, for 16 lanes, its 17th.
    """
    what = f"tcgen05 {shape.name[1:].lower()}.x{num}"
    if num not in (1, 2, 4, 8, 16, 32, 64, 128) or num > shape.most:
        return Illegal(what, ".num", num, f"a power of two from 1 to {shape.most}")
    lane, column = split_address(address)
    base = warp % 4 * _WARP
    lane += base if lane < _WARP else 0
    if not base <= lane <= base + _WARP - shape.lanes:
        reach = f"[{lane}, {lane + shape.lanes})"
        return Illegal(what, "lanes", reach, f"warp {warp} reaches [{base}, {base + _WARP}): warp id mod 4 decides")
    if lane % 16:
        return Unsupported(what, "lane", lane, "a first lane inside a group of 16 is not documented")
    lanes, columns, half = _pattern(shape, num)
    columns = columns * 2 if packed else columns
    columns = columns + (column + half * split)
    last = int(columns.max()) + packed
    if last >= COLUMNS or int(columns.min()) < 0:
        return Illegal(what, "columns", f"[{int(columns.min())}, {last}]", f"tensor memory has {COLUMNS} columns")
    lanes = lanes + lane
    if packed:
        columns = columns[..., None] + np.arange(2)
        lanes = np.broadcast_to(lanes[..., None], columns.shape)
    return Cells(lanes, columns)


def load(tmem: Words, where: Cells) -> Words:
    """Registers of the warp, shape (registers, 32 threads)."""
    values = tmem[where.lanes, where.columns]
    if not where.packed:
        return values
    return values[..., 0] & np.uint32(0xFFFF) | values[..., 1] << np.uint32(16)


def store(tmem: Words, where: Cells, registers: Words) -> None:
    """Write registers of shape (registers, 32) into `tmem`. Unpacked halves leave zeros above them (not documented)."""
    if where.packed:
        registers = np.stack((registers & np.uint32(0xFFFF), registers >> np.uint32(16)), axis=-1)
    tmem[where.lanes, where.columns] = registers
