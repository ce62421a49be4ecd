"""Tensor maps: what a TMA copy reads and writes (CUDA driver API, cuTensorMapEncodeTiled; PTX 5.5, 9.7.9.27).

Dimension 0 is innermost and dense. A box is a run of `row_bytes` dense bytes in dimension 0, once for every place of
the outer dimensions, dimension 1 fastest. In shared memory its rows follow each other, `pitch` bytes apart: without
gaps, or, where they are shorter than the span of a swizzle, one span apart. Then the swizzle is applied to absolute
addresses. Rows are multiples of 16 bytes and no swizzle cuts 16 bytes, so shared memory is told in chunks of 16 bytes
and global memory in rows. What no document says (the pitch, the NaN, TF32's rounding, the greatest box) was read off an
H200 (docs/tensor-core.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .illegal import Illegal
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
MAX_BOX_BYTES = 228 * 1024
_NAN = 0x7FF7  # in every 16 bits, whatever the type
_TF32_NAN = 0x7FFF_E000
_WHAT = "tensor map"
Addresses: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]


class Element(Enum):
    """Element types: (bytes, code of CUtensorMapDataType, code of tensormap.replace's elemtype, floating point)."""

    U8 = (1, 0, 0, False)
    U16 = (2, 1, 1, False)
    U32 = (4, 2, 2, False)
    S32 = (4, 3, 3, False)
    U64 = (8, 4, 4, False)
    S64 = (8, 5, 5, False)
    F16 = (2, 6, 6, True)
    F32 = (4, 7, 7, True)
    F64 = (8, 8, 9, True)
    BF16 = (2, 9, 10, True)
    F32_FTZ = (4, 10, 8, True)
    TF32 = (4, 11, 11, True)
    TF32_FTZ = (4, 12, 12, True)

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
    def floating(self) -> bool:
        """Whether a NaN may fill."""
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
    def pitch(self) -> int:
        """Bytes from one row to the next in shared memory, before the swizzle."""
        return self.row_bytes if self.swizzle is SmemSwizzle.NONE else self.swizzle.span

    @property
    def box_bytes(self) -> int:
        """Bytes that are copied, which is what the mbarrier counts, filled elements included (rule 34)."""
        return math.prod(self.counts) * self.element.size


def check(tensor: TensorMap, sm: int) -> Illegal | None:
    """The first rule of cuTensorMapEncodeTiled that `tensor` breaks on architecture `sm` (90, 100, …), or None."""
    return _check_global(tensor) or _check_box(tensor, sm)


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


def _check_box(tensor: TensorMap, sm: int) -> Illegal | None:
    for i, (size, step) in enumerate(zip(tensor.box, tensor.steps, strict=True)):
        if not 1 <= size <= 256:
            return Illegal(_WHAT, f"box_dim[{i}]", size, "1 to 256")
        if not 1 <= step <= 8:
            return Illegal(_WHAT, f"element_stride[{i}]", step, "1 to 8")
    if tensor.row_bytes % CHUNK:
        return Illegal(_WHAT, "box_dim[0]", tensor.box[0], f"{tensor.row_bytes} bytes, not a multiple of 16")
    span = tensor.swizzle.span
    if tensor.swizzle is not SmemSwizzle.NONE and tensor.row_bytes > span:
        rule = f"{tensor.row_bytes} bytes, more than the {span} of the swizzle"
        return Illegal(_WHAT, "box_dim[0]", tensor.box[0], rule)
    if tensor.box_bytes > MAX_BOX_BYTES:
        return Illegal(_WHAT, "box_dim", str(tensor.box), f"{tensor.box_bytes} bytes, more than {MAX_BOX_BYTES}")
    if tensor.swizzle is SmemSwizzle.B128_ATOM32 and sm < 100:
        return Illegal(_WHAT, "swizzle_atomicity", 32, f"sm_{sm} has 16-byte atoms only")
    if tensor.fill is Fill.NAN and not tensor.element.floating:
        return Illegal(_WHAT, "fill_mode", "NaN", f"only for floating-point elements, not {tensor.element.name}")
    return None


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


@lru_cache(maxsize=64)
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
    return swizzle(tensor.swizzle, address + _inner(tensor))


@lru_cache(maxsize=64)
def _inner(tensor: TensorMap) -> Addresses:
    """Byte offset of every 16 bytes of the box, before the swizzle."""
    row, chunk = np.ogrid[0 : math.prod(tensor.counts[1:]), 0 : tensor.row_bytes : CHUNK]
    return (row * tensor.pitch + chunk).astype(np.int64).reshape(-1)


def read_box(tensor: TensorMap, rows: BoxRows, memory: Bytes, origin: int) -> Bytes:
    """The box's bytes in the box's order, with the fill where it is outside: shape (box_bytes / 16, 16).

    Elements are copied as they are; of type TF32 they are rounded.
    `memory` holds the bytes from global address `origin` on, and at least those of `rows.touched`.
    """
    pattern = _NAN if tensor.fill is Fill.NAN else 0
    data = np.full((len(rows.starts), tensor.row_bytes // 2), pattern, "<u2").view(np.uint8)
    part = data[:, rows.skip : rows.skip + rows.size]
    if not rows.size:
        return data.reshape(-1, CHUNK)
    copied = sliding_window_view(memory, rows.size)[rows.touched - origin]
    if tensor.element in (Element.TF32, Element.TF32_FTZ):
        copied = _tf32(copied)
    part[rows.inside] = copied
    return data.reshape(-1, CHUNK)


def _tf32(data: Bytes) -> Bytes:
    """Floats rounded to TF32's 10 bits of fraction, ties to even; denormals stay; one NaN stands for all."""
    words = data.view("<u4")
    rounded = words + np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1)) & np.uint32(0xFFFF_E000)
    nan = (words & np.uint32(0x7FFF_FFFF)) > np.uint32(0x7F80_0000)
    return np.where(nan, np.uint32(_TF32_NAN), rounded).view(np.uint8)


def write_box(rows: BoxRows, data: Bytes, memory: Bytes, origin: int) -> None:
    """Store `data` (bytes in the box's order, any shape) into `memory`; elements outside the tensor are not written."""
    if rows.size:
        part = data.reshape(len(rows.starts), -1)[:, rows.skip : rows.skip + rows.size]
        sliding_window_view(memory, rows.size, writeable=True)[rows.touched - origin] = part[rows.inside]
