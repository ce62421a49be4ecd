"""Operands of tensor-core instructions in shared memory: the canonical layouts (PTX 9.7.16.3, 9.7.15.5; rules 59-61).

A layout is told in chunks of 16 bytes: neither the start, nor the offsets, nor a swizzle cuts one. With a span of S
bytes (16 without a swizzle), W = S / 16, and rows and columns counted in the instruction's own operand:

K-major   chunk (row r, c-th chunk of K):
          (r mod 8) · S + (r div 8) · stride + c · 16            with a swizzle
          (r mod 8) · 16 + (r div 8) · stride + c · leading      without
MN-major  chunk (column k, c-th chunk of MN), R = 8 columns to a pattern, 4 with 32-byte atoms:
          (c mod W) · 16 + (c div W) · leading + (k mod R) · S + (k div R) · stride     with a swizzle
          (k mod 8) · 16 + (k div 8) · leading + c · stride                             without

plus the start address; the swizzle is applied to the sum. A start inside the pattern (a K step of 32 bytes) thus needs
no rule of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .descriptor import Major, MmaType, SmemDescriptor
from .illegal import Illegal
from .swizzle import SmemSwizzle, swizzle

__all__ = ["CHUNK", "fetch", "operand_chunks", "values_of"]

CHUNK = 16
Addresses: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]
Values: TypeAlias = NDArray[np.float64]


def values_of(words: NDArray[np.uint16], kind: MmaType) -> Values:
    """The exact values of 16-bit floats, in the same shape."""
    if kind is MmaType.BF16:
        return (words.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return words.view(np.float16).astype(np.float64)


@lru_cache(maxsize=512)
def _linear(descriptor: SmemDescriptor, major: Major, rows: int, k: int) -> Addresses:
    """Chunk addresses of a 16-bit operand: shape (rows, k / 8) if K-major, (k, rows / 8) if MN-major."""
    span, leading, stride = descriptor.swizzle.span, descriptor.leading, descriptor.stride
    plain = descriptor.swizzle is SmemSwizzle.NONE
    if major is Major.K:
        row, chunk = np.ogrid[0:rows, 0 : k // 8]
        offsets = row % 8 * span + row // 8 * stride + chunk * (leading if plain else CHUNK)
    else:
        column, chunk = np.ogrid[0:k, 0 : rows // 8]
        if plain:
            offsets = column % 8 * CHUNK + column // 8 * leading + chunk * stride
        else:
            width = span // CHUNK
            height = 4 if descriptor.swizzle is SmemSwizzle.B128_ATOM32 else 8
            offsets = chunk % width * CHUNK + chunk // width * leading + column % height * span
            offsets = offsets + column // height * stride
    chunks = swizzle(descriptor.swizzle, descriptor.address + offsets.astype(np.int64), descriptor.base_offset)
    chunks.setflags(write=False)
    return chunks


def operand_chunks(descriptor: SmemDescriptor, major: Major, rows: int, k: int) -> Addresses | Illegal:
    """Shared-memory address of every 16 bytes of an operand of `rows` rows (M or N) and `k` 16-bit columns.

    Shape (rows, k / 8) if K-major, (k, rows / 8) if MN-major, read-only; an address may occur twice. `rows` and `k` are
    multiples of 8. Illegal: 32-byte atoms with a K-major operand (rule 61).
    """
    if descriptor.swizzle is SmemSwizzle.B128_ATOM32 and major is Major.K:
        return Illegal("shared-memory descriptor", "swizzle mode", "1 (32-byte atoms)", "MN-major operands only")
    return _linear(descriptor, major, rows, k)


def fetch(
    memory: Bytes, origin: int, descriptor: SmemDescriptor, major: Major, shape: tuple[int, int], kind: MmaType
) -> Values | Illegal:
    """The operand of `shape` (rows, k) as exact values. `memory` is shared memory from address `origin` on.

    `origin` and the size of `memory` are multiples of 16. Illegal where the layout reaches outside of it.
    """
    rows, k = shape
    chunks = operand_chunks(descriptor, major, rows, k)
    if isinstance(chunks, Illegal):
        return chunks
    low, high = int(chunks.min()), int(chunks.max()) + CHUNK
    if low < origin or high > origin + memory.size:
        bound = f"shared memory is [{origin:#x}, {origin + memory.size:#x})"
        return Illegal("tensor-core operand", "addresses", f"[{low:#x}, {high:#x})", bound)
    words: NDArray[Any] = memory.reshape(-1, CHUNK)[(chunks - origin) >> 4].view("<u2")
    values = values_of(words.reshape(len(chunks), -1), kind)
    return values if major is Major.K else values.T
