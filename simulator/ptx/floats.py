"""Floating-point formats as bits, and correctly rounded arithmetic on them, lane by lane.

A result is first formed in double precision *rounded to odd*: with two bits to spare, a second rounding from there is
the correct one in every direction (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .slots import Array

__all__ = ["FORMATS", "Format", "fused", "odd_product", "odd_sum", "round_integral"]

_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


@dataclass(frozen=True, slots=True)
class Format:
    """A format: the unsigned type of its bits, NumPy's own type (None for bf16), and PTX's canonical NaN."""

    bits: Any
    native: Any
    fraction: int  # explicit fraction bits
    exponent: int  # exponent bits
    nan: int | None

    @property
    def width(self) -> int:
        """Bits of a value."""
        return 1 + self.exponent + self.fraction

    def double(self, bits: Array) -> Array:
        """The values, exactly."""
        if self.native is None:
            return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        values: Array = bits.view(self.native).astype(np.float64)
        return values

    def flush(self, bits: Array) -> Array:
        """Subnormal values become zeros of their sign (.ftz)."""
        magnitude = bits & self.bits((1 << (self.width - 1)) - 1)
        return np.where(magnitude < self.bits(1 << self.fraction), bits & self.bits(1 << (self.width - 1)), bits)

    def canonical(self, bits: Array) -> Array:
        """The one NaN for every NaN."""
        if self.nan is None:
            return bits
        magnitude = bits & self.bits((1 << (self.width - 1)) - 1)
        infinity = ((1 << self.exponent) - 1) << self.fraction
        return np.where(magnitude > self.bits(infinity), self.bits(self.nan), bits)

    def rounded(self, odd: Array, rounding: str) -> Array:
        """Bits of doubles, which are exact or rounded to odd, after rounding rn, rz, rm or rp."""
        if self.native is np.float64:
            return odd.view(np.uint64)
        if rounding == "rn":
            return self.canonical(self._nearest(odd))
        down = self._toward_zero(odd)
        inexact = (self.double(down) != odd) & ~np.isnan(odd)
        away = inexact & (odd < 0 if rounding == "rm" else odd > 0) & (rounding != "rz")
        return self.canonical(down + away.astype(self.bits))

    def narrowed(self, single: Array, rounding: str) -> Array:
        """Bits of f32 values (as bits) after rounding to this smaller format."""
        if rounding != "rn":
            return self.rounded(FORMATS["f32"].double(single), rounding)
        if self.native is not None:
            return self.canonical(single.view(np.float32).astype(self.native).view(self.bits))
        return self._upper_half(single)

    def _upper_half(self, single: Array) -> Array:
        """bf16 from the bits of f32, to nearest; a carry goes into the exponent as it should."""
        nearest = (single + np.uint32(0x7FFF) + ((single >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        nan = (single & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        return np.where(nan, np.uint16(self.nan or 0), nearest.astype(np.uint16))

    def _toward_zero(self, odd: Array) -> Array:
        if self.native is None:
            single = FORMATS["f32"]._toward_zero(odd)
            nan = np.isnan(odd)
            return np.where(nan, np.uint16(self.nan or 0), (single >> np.uint32(16)).astype(np.uint16))
        near = odd.astype(self.native)
        bits = near.view(self.bits)
        too_far = np.abs(near.astype(np.float64)) > np.abs(odd)
        nearer: Array = bits - too_far.astype(self.bits)
        return nearer

    def _nearest(self, odd: Array) -> Array:
        if self.native is not None:
            return odd.astype(self.native).view(self.bits)
        single = FORMATS["f32"]._toward_zero(odd)
        lost = FORMATS["f32"].double(single) != odd
        return self._upper_half(single | lost.astype(np.uint32))  # to odd again, in 24 bits


FORMATS = {
    "f16": Format(np.uint16, np.float16, 10, 5, 0x7FFF),
    "bf16": Format(np.uint16, None, 7, 8, 0x7FFF),
    "f32": Format(np.uint32, np.float32, 23, 8, 0x7FFFFFFF),
    "f64": Format(np.uint64, np.float64, 52, 11, None),
}
"""Formats by PTX's name."""


def _to_odd(near: Array, error: Array) -> Array:
    """A rounded double and what it lacks, as the double rounded to odd."""
    bits = near.view(np.int64)
    even = (bits & 1) == 0
    inexact = (error != 0) & np.isfinite(near) & np.isfinite(error)
    outward = (error > 0) == (near > 0)
    step = np.where(outward, 1, -1) * (inexact & even)
    zero = (near == 0) & inexact  # cannot happen for sums: kept out of the step on bits
    return (bits + np.where(zero, 0, step)).view(np.float64)


def odd_sum(a: Array, b: Array) -> Array:
    """a + b, rounded to odd (Knuth's TwoSum gives the error exactly)."""
    near = a + b
    back = near - a
    error = (a - (near - back)) + (b - back)
    return _to_odd(near, np.where(np.isfinite(near), error, 0.0))


def odd_product(a: Array, b: Array) -> Array:
    """a · b for values of at most 24 bits: exact in a double."""
    return np.asarray(a * b)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a · b + c rounded to odd, for values of at most 24 bits."""
    return odd_sum(odd_product(a, b), c)


def round_integral(values: Array, rounding: str) -> Array:
    """Doubles rounded to integers by rni, rzi, rmi or rpi."""
    return _ROUNDINGS[rounding](values)
