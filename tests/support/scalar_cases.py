"""The 32-bit operations that an H200 was asked for, and the operands: special values in all pairs, then random ones."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SPECIAL = (
    "0 1 2 5 1f 20 21 ff 7fffff 800000 80000000 80000001 807fffff 3f800000 bf800000 3f000000 40200000 4b000001 "
    "4effffff 4f000000 cf000000 5f000000 7f7fffff 7f800000 ff800000 7f800001 7fc00123 ffc00000 "
    "3c003c00 7c017bff ffffffff 7fffffff"
)
COUNT = 2048
"""Operands of each operation."""


def operands() -> tuple[npt.NDArray[np.uint32], ...]:
    """a, b and c, of COUNT words each."""
    special = np.array([int(word, 16) for word in _SPECIAL.split()], np.uint32)
    drawn = np.random.default_rng(0).integers(0, 2**32, 1024, np.uint32)
    a = np.concatenate([np.repeat(special, 32), drawn])
    return a, np.concatenate([np.tile(special, 32), drawn[::-1]]), np.roll(a, 7)


def arity(operation: str) -> int:
    """How many operands an operation has."""
    name = operation.split(".")[0]
    if name in ("fma", "bfe", "shf", "prmt", "mad"):
        return 3
    if name in ("abs", "neg", "sqrt", "rcp", "ex2", "clz", "bfind", "brev"):
        return 1
    return 1 if name == "cvt" and "x2" not in operation else 2
