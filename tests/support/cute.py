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


def offset(shape: Tree, stride: Tree, coordinates: Sequence[Any], names: Mapping[str, int] | None = None) -> Any:
    """Where the coordinates, one per mode, lie: integers, or arrays of them."""
    return sum(_mode(s, d, c, names or {}) for s, d, c in zip(shape, stride, coordinates, strict=True))


def _mode(shape: Tree, stride: Tree, coordinate: Any, names: Mapping[str, int]) -> Any:
    """A coordinate is split over the parts of a nested mode, the first fastest."""
    if isinstance(shape, int):
        return coordinate * (names[stride] if isinstance(stride, str) else stride)
    total = 0
    for part, step in zip(shape, stride, strict=True):
        total = total + _mode(part, step, coordinate % size(part), names)
        coordinate = coordinate // size(part)
    return total


def swizzled(bits: int, base: int, shift: int, address: Any) -> Any:
    """Swizzle<bits, base, shift> of a byte address, or of an array of them."""
    source = address & (((1 << bits) - 1) << (base + shift))
    return address ^ (source >> shift)
