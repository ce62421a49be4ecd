"""Shared-memory swizzles: XOR patterns on byte addresses (docs/tensor-core.md, rules 57-61; PTX 5.5.7).

In CuTe's notation Swizzle<B, M, S>: the B address bits from M on are XORed with the B bits that lie S above them. The
XOR leaves its own source bits alone, so every swizzle is its own inverse. TMA and the tensor cores apply it to the
absolute shared-memory address, so that both agree wherever a box or an operand lies.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

__all__ = ["SmemSwizzle", "swizzle", "swizzle_address"]


class SmemSwizzle(Enum):
    """A swizzle by its bytes: value = (span, atom) in bytes. Rows of a span are permuted in pieces of an atom."""

    NONE = (16, 16)
    B32 = (32, 16)
    B64 = (64, 16)
    B128 = (128, 16)
    B128_ATOM32 = (128, 32)

    @property
    def span(self) -> int:
        """Bytes of a row: the innermost box dimension of a tensor map may not be longer (NONE has no such bound)."""
        return self.value[0]

    @property
    def atom(self) -> int:
        """Bytes that stay together and in order."""
        return self.value[1]

    @property
    def mask(self) -> int:
        """The address bits that change: 0x10, 0x30, 0x70 for 32, 64, 128 bytes, 0x60 with 32-byte atoms."""
        return self.span - self.atom

    @property
    def shift(self) -> int:
        """Distance from a changed bit up to its source: the row bits begin at bit 7 (128 bytes)."""
        return 8 - self.atom.bit_length()

    @property
    def period(self) -> int:
        """Bytes after which the pattern repeats: 256, 512, 1024, and 512 with 32-byte atoms; a row if there is none."""
        return (self.mask << self.shift) + 128 if self.mask else self.span


def swizzle_address(mode: SmemSwizzle, address: int, base_offset: int = 0) -> int:
    """The byte address at which the byte of linear address `address` lies.

    `base_offset` (0..7) is the descriptor field of rule 60: the 128-byte row, modulo 8, at which the pattern begins;
    row numbers count from there (on an H200 too, whatever the start).
    """
    return address ^ (((address - (base_offset << 7)) >> mode.shift) & mode.mask)


def swizzle(mode: SmemSwizzle, addresses: NDArray[np.int64], base_offset: int = 0) -> NDArray[np.int64]:
    """`swizzle_address` of each of `addresses`, in the same shape."""
    return addresses ^ (((addresses - (base_offset << 7)) >> mode.shift) & mode.mask)
