"""wgmma.mma_async.m64nNk16 with bf16 or f16 inputs (PTX 9.7.15.5): fragments of registers, and the product.

A warpgroup has 128 threads; thread t is lane t mod 32 of warp t div 32. Registers are arrays of 32-bit words of shape
(registers, 128). Numbers: as in umma.py, whose `accumulation_error` is the tolerance here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .descriptor import Major, MmaType, SmemDescriptor
from .illegal import Illegal
from .operand import Bytes, Values, fetch, values_of
from .umma import accumulate

__all__ = ["K", "M", "Wgmma", "a_places", "d_places", "wgmma"]

M = 64
K = 16
THREADS = 128
_WHAT = "wgmma.mma_async"
Words: TypeAlias = NDArray[np.uint32]
Indices: TypeAlias = NDArray[np.int64]


@lru_cache(maxsize=1)
def a_places() -> tuple[Indices, Indices]:
    """(row, column) of A's 8 elements of every thread, shape (8, 128): two to a register, the first in the low half.

    row = 16 · warp + lane div 4, + 8 for elements 2, 3, 6, 7; column = 2 · (lane mod 4) + i mod 2, + 8 from element 4.
    """
    i, lane, warp = _threads(8)
    return 16 * warp + lane // 4 + i // 2 % 2 * 8, lane % 4 * 2 + i % 2 + i // 4 * 8


@lru_cache(maxsize=32)
def d_places(n: int) -> tuple[Indices, Indices]:
    """(row, column) of D's N / 2 elements of every thread, shape (n / 2, 128); f16 has two to a register.

    row = 16 · warp + lane div 4, + 8 for elements 2, 3 of four; column = 8 · (i div 4) + 2 · (lane mod 4) + i mod 2.
    """
    i, lane, warp = _threads(n // 2)
    return 16 * warp + lane // 4 + i // 2 % 2 * 8, i // 4 * 8 + lane % 4 * 2 + i % 2


def _threads(elements: int) -> tuple[Indices, Indices, Indices]:
    thread = np.arange(THREADS)
    return np.arange(elements).reshape(-1, 1), thread % 32, thread // 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Wgmma:
    """The constants of an instruction. `kind`: f16 or bf16, of A and B; `d`: f32 or f16.

    `input_d`: scale-d, whether D is added; negations: imm-scale = -1; majors: imm-trans.
    """

    n: int
    kind: MmaType
    d: MmaType
    a_major: Major = Major.K
    b_major: Major = Major.K
    negate_a: bool = False
    negate_b: bool = False
    input_d: bool = True


def wgmma(
    operation: Wgmma, a: SmemDescriptor | Words, b: SmemDescriptor, d: Words, memory: Bytes, origin: int = 0
) -> Words | Illegal:
    """D's registers after the instruction: shape (n / 2, 128) for f32, (n / 4, 128) for f16, as `d` has before it.

    `a`: a descriptor, or A's registers, shape (4, 128). `memory`: shared memory from address `origin` on. Illegal: N, a
    type of D that bf16 has not, a transposed A in registers, operands outside of shared memory.
    """
    in_registers = not isinstance(a, SmemDescriptor)
    if (wrong := _check(operation, in_registers)) is not None:
        return wrong
    if isinstance(a, SmemDescriptor):
        left = fetch(memory, origin, a, operation.a_major, (M, K), operation.kind)
    else:
        left = _a_from_registers(a, operation.kind)
    if isinstance(left, Illegal):
        return left
    right = fetch(memory, origin, b, operation.b_major, (operation.n, K), operation.kind)
    if isinstance(right, Illegal):
        return right
    rows, columns = d_places(operation.n)
    before = None
    if operation.input_d:
        before = np.empty((M, operation.n))
        before[rows, columns] = _elements(d, operation.d)
    sign = -1.0 if operation.negate_a != operation.negate_b else 1.0
    after = accumulate(left * sign, right, before, operation.d)[rows, columns]
    if operation.d is MmaType.F32:
        return after.view(np.uint32)
    halves = after.view(np.uint16).astype(np.uint32)
    return halves[0::2] | halves[1::2] << np.uint32(16)


def _check(operation: Wgmma, in_registers: bool) -> Illegal | None:
    if operation.n % 8 or not 8 <= operation.n <= 256:
        return Illegal(_WHAT, "N", operation.n, "8 to 256 in steps of 8")
    if operation.d is MmaType.F16 and operation.kind is not MmaType.F16:
        return Illegal(_WHAT, "dtype", "f16", f"{operation.kind.value} accumulates in f32")
    if in_registers and operation.a_major is Major.MN:
        return Illegal(_WHAT, "imm-trans-a", 1, "A in registers is K-major")
    return None


def _halves(words: Words) -> NDArray[np.uint16]:
    """(n, 128) words as (2 n, 128) halves, low ones first."""
    pairs = np.stack((words & np.uint32(0xFFFF), words >> np.uint32(16)), axis=1)
    return pairs.reshape(-1, words.shape[1]).astype(np.uint16)


def _a_from_registers(a: Words, kind: MmaType) -> Values:
    values = np.empty((M, K))
    values[a_places()] = values_of(_halves(a), kind)
    return values


def _elements(d: Words, kind: MmaType) -> Values:
    if kind is MmaType.F32:
        return d.view(np.float32).astype(np.float64)
    return values_of(_halves(d), kind)
