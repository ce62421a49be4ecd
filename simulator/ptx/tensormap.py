"""Tensor maps: what a TMA copy reads and writes (CUDA driver API, cuTensorMapEncodeTiled; PTX 5.5, 9.7.9.27).

Dimension 0 is innermost and dense. A box is a run of `row_bytes` dense bytes in dimension 0, once for every place of
the outer dimensions, dimension 1 fastest; in shared memory its rows follow each other without gaps, then the swizzle is
applied to absolute addresses. Rows are multiples of 16 bytes and no swizzle cuts 16 bytes, so shared memory is told in
chunks of 16 bytes and global memory in rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .illegal import Illegal, Unsupported
from .swizzle import SmemSwizzle, swizzle

__all__ = [
    "CHUNK",
    "BoxRows",
    "Element",
    "Fill",
    "TensorMap",
    "box_rows",
    "check",
    "read_box",
    "smem_chunks",
    "write_box",
]

CHUNK = 16
SMEM_ALIGNMENT = 128
_WHAT = "tensor map"
Addresses: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]


class Element(Enum):
    """Element types: (bytes, code of CUtensorMapDataType, code of tensormap.replace's elemtype, pattern of a NaN).

    No document says which NaN the fill writes; here it has all bits but the sign set.
    """

    U8 = (1, 0, 0, 0)
    U16 = (2, 1, 1, 0)
    U32 = (4, 2, 2, 0)
    S32 = (4, 3, 3, 0)
    U64 = (8, 4, 4, 0)
    S64 = (8, 5, 5, 0)
    F16 = (2, 6, 6, 0x7FFF)
    F32 = (4, 7, 7, 0x7FFF_FFFF)
    F64 = (8, 8, 9, 0x7FFF_FFFF_FFFF_FFFF)
    BF16 = (2, 9, 10, 0x7FFF)
    F32_FTZ = (4, 10, 8, 0x7FFF_FFFF)
    TF32 = (4, 11, 11, 0x7FFF_FFFF)
    TF32_FTZ = (4, 12, 12, 0x7FFF_FFFF)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.value[0]

    @property
    def driver_code(self) -> int:
        """Value of CUtensorMapDataType."""
        return self.value[1]

    @property
    def ptx_code(self) -> int:
        """Value that tensormap.replace writes into the field elemtype."""
        return self.value[2]

    @property
    def nan(self) -> int:
        """Bits of the NaN that fills, 0 for integers, which have none."""
        return self.value[3]


class Fill(IntEnum):
    """What stands for elements outside the tensor: the codes of the driver and of tensormap.replace agree."""

    ZERO = 0
    NAN = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMap:
    """A tiled tensor map without interleave.

    `address` is that of element (0, …, 0). `dims` and `box` are in elements, `strides` in bytes, of dimensions 1 up,
    `steps` (the driver's elementStrides) in elements: every steps[i]-th element of dimension i is copied. The step of
    dimension 0 is ignored, as the driver says. Not checked when it is built: see `check`.
    """

    element: Element
    address: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: SmemSwizzle = SmemSwizzle.NONE
    fill: Fill = Fill.ZERO

    @property
    def rank(self) -> int:
        """Number of dimensions, 1 to 5."""
        return len(self.dims)

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that one copy moves in each dimension: ceil(box / step), the whole box in dimension 0."""
        return self.box[0], *(-(-size // step) for size, step in zip(self.box[1:], self.steps[1:], strict=True))

    @property
    def row_bytes(self) -> int:
        """Dense bytes in dimension 0."""
        return self.box[0] * self.element.size

    @property
    def box_bytes(self) -> int:
        """Bytes in shared memory, which is also what the mbarrier counts, filled elements included (rule 34)."""
        return math.prod(self.counts) * self.element.size


def check(tensor: TensorMap) -> Illegal | None:
    """The first rule of cuTensorMapEncodeTiled that `tensor` breaks, or None."""
    return _check_global(tensor) or _check_box(tensor)


def _check_global(tensor: TensorMap) -> Illegal | None:
    rank = tensor.rank
    if not 1 <= rank <= 5:
        return Illegal(_WHAT, "rank", rank, "1 to 5")
    if not 0 <= tensor.address < 2**64 or tensor.address % 16:
        return Illegal(_WHAT, "global_address", hex(tensor.address), "a 64-bit address, a multiple of 16")
    for name, values, length in (
        ("global_stride", tensor.strides, rank - 1),
        ("box_dim", tensor.box, rank),
        ("element_stride", tensor.steps, rank),
    ):
        if len(values) != length:
            return Illegal(_WHAT, name, len(values), f"{length} values for rank {rank}")
    for i, size in enumerate(tensor.dims):
        if not 1 <= size <= 2**32:
            return Illegal(_WHAT, f"global_dim[{i}]", size, "1 to 2^32")
    for i, stride in enumerate(tensor.strides):
        if not 0 <= stride < 2**40 or stride % 16:
            return Illegal(_WHAT, f"global_stride[{i}]", stride, "a multiple of 16 below 2^40")
    return None


def _check_box(tensor: TensorMap) -> Illegal | None:
    for i, (size, step) in enumerate(zip(tensor.box, tensor.steps, strict=True)):
        if not 1 <= size <= 256:
            return Illegal(_WHAT, f"box_dim[{i}]", size, "1 to 256")
        if not 1 <= step <= 8:
            return Illegal(_WHAT, f"element_stride[{i}]", step, "1 to 8")
    if tensor.row_bytes % CHUNK:
        return Illegal(_WHAT, "box_dim[0]", tensor.box[0], f"{tensor.row_bytes} bytes, not a multiple of 16")
    if tensor.fill is Fill.NAN and not tensor.element.nan:
        return Illegal(_WHAT, "fill_mode", "NaN", f"only for floating-point elements, not {tensor.element.name}")
    if tensor.swizzle is SmemSwizzle.NONE or tensor.row_bytes == tensor.swizzle.span:
        return None
    if tensor.row_bytes > tensor.swizzle.span:
        rule = f"{tensor.row_bytes} bytes, more than the {tensor.swizzle.span} of the swizzle"
        return Illegal(_WHAT, "box_dim[0]", tensor.box[0], rule)
    rule = f"{tensor.row_bytes} bytes: how rows shorter than the swizzle lie in shared memory is not documented"
    return Unsupported(_WHAT, "box_dim[0]", tensor.box[0], rule)


@dataclass(frozen=True, slots=True, eq=False)
class BoxRows:
    """The global side of one box: rows of dense bytes, in the order of shared memory.

    `starts[r]` is the byte address of the part of row r that is inside the tensor, which is the same `size` bytes
    `skip` bytes into each row; where `inside[r]` is false, or `size` is 0, the row has none.
    """

    starts: Addresses
    inside: NDArray[np.bool_]
    skip: int
    size: int

    @property
    def touched(self) -> Addresses:
        """Start addresses of the runs of `size` bytes that a copy really reads or writes."""
        return self.starts[self.inside] if self.size else self.starts[:0]


@lru_cache(maxsize=256)
def _outer(tensor: TensorMap) -> tuple[Addresses, NDArray[np.int64]]:
    """For every row: its byte offset from the box's corner, and its places in dimensions 1 up (rank - 1, rows)."""
    outer = tensor.counts[1:]
    places = np.indices(outer[::-1], dtype=np.int64).reshape(len(outer), math.prod(outer))[::-1]
    places = places * np.array(tensor.steps[1:], np.int64).reshape(-1, 1)
    return np.array(tensor.strides, np.int64) @ places, places


def box_rows(tensor: TensorMap, coordinates: tuple[int, ...]) -> BoxRows:
    """The rows of the box whose corner is at `coordinates` (elements, one per dimension, may lie outside).

    An element is inside if every coordinate is: 0 <= c < dims. Requires `check(tensor) is None`.
    """
    offsets, places = _outer(tensor)
    corner = np.array(coordinates[1:], np.int64).reshape(-1, 1)
    limits = np.array(tensor.dims[1:], np.int64).reshape(-1, 1)
    inside = np.logical_and.reduce((places + corner >= 0) & (places + corner < limits), axis=0)
    first = max(0, -coordinates[0])
    last = min(tensor.box[0], tensor.dims[0] - coordinates[0])
    size = tensor.element.size
    origin = tensor.address + (coordinates[0] + first) * size
    origin += sum(c * stride for c, stride in zip(coordinates[1:], tensor.strides, strict=True))
    origin = (origin + 2**63) % 2**64 - 2**63  # as 64-bit hardware wraps; such an address is in no region
    return BoxRows(origin + offsets, inside, first * size, max(0, last - first) * size)


def smem_chunks(tensor: TensorMap, address: int) -> Addresses | Illegal:
    """Shared-memory address of every 16 bytes of the box, in the box's order: shape (box_bytes / 16).

    `address` is the copy's shared-memory operand. Illegal unless it is a multiple of 128 (PTX 9.7.9.27).
    """
    if address % SMEM_ALIGNMENT:
        return Illegal("tensor copy", "shared-memory address", hex(address), "a multiple of 128")
    return swizzle(tensor.swizzle, address + np.arange(0, tensor.box_bytes, CHUNK, dtype=np.int64))


def read_box(tensor: TensorMap, rows: BoxRows, memory: Bytes, origin: int) -> Bytes:
    """The box's bytes in the box's order, with the fill where it is outside: shape (box_bytes / 16, 16).

    `memory` holds the bytes from global address `origin` on, and at least those of `rows.touched`.
    """
    dtype = np.dtype(f"<u{tensor.element.size}")
    pattern = tensor.element.nan if tensor.fill is Fill.NAN else 0
    data = np.full((len(rows.starts), tensor.box[0]), pattern, dtype).view(np.uint8)
    part = data[:, rows.skip : rows.skip + rows.size]
    part[rows.inside] = memory[_spread(rows, origin)]
    return data.reshape(-1, CHUNK)


def write_box(rows: BoxRows, data: Bytes, memory: Bytes, origin: int) -> None:
    """Store `data` (bytes in the box's order, any shape) into `memory`; elements outside the tensor are not written."""
    part = data.reshape(len(rows.starts), -1)[:, rows.skip : rows.skip + rows.size]
    memory[_spread(rows, origin)] = part[rows.inside]


def _spread(rows: BoxRows, origin: int) -> Addresses:
    """Indices into memory of every touched byte, shape (rows inside, size)."""
    return (rows.starts[rows.inside] - origin)[:, None] + np.arange(rows.size)
