"""Just enough of CuTe's layout algebra to evaluate a layout that is written as CUTLASS writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Tree = Any  # an int, a name, or a list of trees


def size(shape: Tree) -> int:
    """Number of coordinates of a shape."""
    if isinstance(shape, int):
        return shape
    total = 1
    for mode in shape:
        total *= size(mode)
    return total


def offset(shape: Tree, stride: Tree, coordinate: Any, names: Mapping[str, Any] | None = None) -> Any:
    """Where a coordinate lies: an integer is split over a nested mode with its first part fastest."""
    if isinstance(shape, int):
        return coordinate * (names or {}).get(stride, stride) if isinstance(stride, str) else coordinate * stride
    if not isinstance(coordinate, Sequence):
        parts = []
        for mode in shape:
            parts.append(coordinate % size(mode))
            coordinate //= size(mode)
        coordinate = parts
    return sum(offset(s, d, c, names) for s, d, c in zip(shape, stride, coordinate, strict=True))


def swizzled(bits: int, base: int, shift: int, address: int) -> int:
    """Swizzle<bits, base, shift> of a byte address."""
    source = address & (((1 << bits) - 1) << (base + shift))
    return address ^ (source >> shift)
