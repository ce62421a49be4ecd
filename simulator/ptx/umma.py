"""tcgen05.mma of kind f16, as a function of the bytes in shared memory and tensor memory (PTX 9.7.16.10; rules 55-64).

Numbers. PTX fixes neither the order nor the rounding of the accumulation, so no value here claims to be the GPU's bit
for bit. Products of 16-bit floats are exact in float64; an instruction's 16 products and its accumulator are summed in
float64 and rounded once to the accumulator's type. A comparison with hardware, or of two ways to split K, has to grant
each side what `accumulation_error` says.

CTAs. With cta_group::2 every argument about memory has two entries, first that of the CTA whose rank is even: the first
M / 2 rows of A and D are its own, the others its peer's, and each holds N / 2 of B's rows. The descriptors and
tensor-memory addresses are those of the one instruction, and hold in both CTAs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .descriptor import InstructionDescriptor, Kind, Major, MmaType, SmemDescriptor
from .illegal import Illegal, Unsupported
from .operand import Bytes, Values, fetch, values_of
from .tmem import COLUMNS, LANES, split_address

__all__ = ["Block", "Umma", "Update", "accumulate", "accumulation_error", "blocks_of", "umma"]

Words: TypeAlias = NDArray[np.uint32]
_WHAT = "tcgen05.mma"
_BLAS_COLUMNS = 128  # larger products wake BLAS's threads, which takes longer than the product


def accumulation_error(magnitudes: Values, steps: int, kind: MmaType = MmaType.F32) -> Values:
    """How far an accumulator may be from the exact sum after `steps` instructions.

    `magnitudes`: the exact sum of the absolute values of all products and of the first accumulator, per element. Each
    of an instruction's 17 terms may be cut at a unit in the last place of the largest, and the result be rounded: 18
    units an instruction.
    """
    unit = {MmaType.F32: 2.0**-23, MmaType.F16: 2.0**-10}[kind]
    return magnitudes * (18 * steps * unit)


def accumulate(a: Values, b: Values, d: Values | None, kind: MmaType) -> NDArray[np.float32] | NDArray[np.float16]:
    """D[m, n] = Σ a[m, k] · b[n, k] (+ d[m, n]), rounded once to `kind` (f32 or f16); infinities and NaNs as IEEE."""
    total = np.empty((len(a), len(b)))
    with np.errstate(invalid="ignore", over="ignore"):
        for first in range(0, len(b), _BLAS_COLUMNS):
            columns = slice(first, first + _BLAS_COLUMNS)
            np.matmul(a, b[columns].T, out=total[:, columns])
        if d is not None:
            total += d
        return total.astype(np.float32) if kind is MmaType.F32 else total.astype(np.float16)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A part of D in one CTA: element (rows[i], columns[j]) is in lane `lanes[i]`, j columns right of D's address."""

    rows: slice
    columns: slice
    lanes: NDArray[np.int64]


@lru_cache(maxsize=64)
def blocks_of(m: int, n: int, cta_group: int) -> tuple[tuple[Block, ...], ...]:
    """For every CTA the blocks of D in its tensor memory (rule 64). If A is there, its rows are in the same lanes.

    cta_group::1: M = 128 row r in lane r; M = 64 row r in lane r mod 16 + 32 · (r div 16).
    cta_group::2: M = 256 like 128 in each CTA; M = 128 a CTA's rows in lanes 0-63 for the first N / 2 columns, and in
    lanes 64-127 for the others.
    """
    per_cta = m // cta_group
    rows = np.arange(per_cta)
    if m == 64:
        return ((Block(slice(0, 64), slice(0, n), rows % 16 + rows // 16 * 32),),)
    sides = LANES // per_cta
    width = n // sides
    return tuple(
        tuple(
            Block(
                slice(cta * per_cta, (cta + 1) * per_cta),
                slice(side * width, (side + 1) * width),
                rows + side * per_cta,
            )
            for side in range(sides)
        )
        for cta in range(cta_group)
    )


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """Cells of one CTA's tensor memory to write, `words` of shape (lanes, columns) from `column` on."""

    lanes: NDArray[np.int64]
    column: int
    words: Words

    def apply(self, tmem: Words) -> None:
        """Write them into `tmem`, shape (128, 512)."""
        tmem[self.lanes, self.column : self.column + self.words.shape[1]] = self.words


@dataclass(frozen=True, slots=True, kw_only=True)
class Umma:
    """One tcgen05.mma. `a`: a descriptor, or an address in tensor memory; `d`: an address there.

    `input_d`: enable-input-d. `disabled`: the 4 words (cta_group::1) or 8 of disable-output-lane, bit 0 of the first
    for lane 0, the last four for the odd CTA; empty where the operand is absent. `scale`: scale-input-d, D counts as
    D · 2^-scale.
    """

    instruction: InstructionDescriptor
    cta_group: int
    a: SmemDescriptor | int
    b: SmemDescriptor
    d: int
    input_d: bool
    disabled: tuple[int, ...] = ()
    scale: int = 0


def umma(
    operation: Umma, smem: Sequence[Bytes], tmem: Sequence[Words], origin: int = 0
) -> tuple[tuple[Update, ...], ...] | Illegal:
    """What the instruction writes, for every CTA of the group; nothing is written here.

    `smem[i]`: CTA i's shared memory from address `origin` (a multiple of 16) on. `tmem[i]`: its tensor memory, shape
    (128, 512). Illegal: operands that reach outside of either, a mask or scale that does not exist.
    """
    wrong = _check(operation)
    if wrong is not None:
        return wrong
    instruction = operation.instruction
    b = _from_smem(operation.b, instruction.n, instruction.b_major, instruction.b, instruction.k, smem, origin)
    if isinstance(b, Illegal):
        return b
    a: Values | Illegal | None = None
    if isinstance(operation.a, SmemDescriptor):
        a = _from_smem(operation.a, instruction.m, instruction.a_major, instruction.a, instruction.k, smem, origin)
    if isinstance(a, Illegal):
        return a
    blocks = blocks_of(instruction.m, instruction.n, operation.cta_group)
    return tuple(
        tuple(_update(operation, block, a, b, tmem[cta], _enabled(operation, cta)) for block in blocks[cta])
        for cta in range(operation.cta_group)
    )


def _check(operation: Umma) -> Illegal | None:
    instruction = operation.instruction
    if instruction.kind is not Kind.F16:
        return Unsupported(_WHAT, ".kind", instruction.kind.name.lower(), "only kind::f16 is computed")
    if len(operation.disabled) not in (0, 4 * operation.cta_group):
        rule = f"{4 * operation.cta_group} words for cta_group::{operation.cta_group}"
        return Illegal(_WHAT, "disable-output-lane", len(operation.disabled), rule)
    if not 0 <= operation.scale <= 15:
        return Illegal(_WHAT, "scale-input-d", operation.scale, "0 to 15")
    width = blocks_of(instruction.m, instruction.n, operation.cta_group)[0][0].columns.stop
    places = [("d-tmem", operation.d, width)]
    if isinstance(operation.a, int):
        places.append(("a-tmem", operation.a, instruction.k // 2))
    for name, address, columns in places:
        lane, column = split_address(address)
        if lane not in ((0, 16) if instruction.m == 64 else (0,)):
            return Illegal(_WHAT, f"{name} lane", lane, "0, or 16 where M is 64")
        if column + columns > COLUMNS:
            return Illegal(_WHAT, f"{name} columns", f"[{column}, {column + columns})", f"there are {COLUMNS}")
    return None


def _from_smem(
    descriptor: SmemDescriptor,
    rows: int,
    major: Major,
    kind: MmaType,
    k: int,
    smem: Sequence[Bytes],
    origin: int,
) -> Values | Illegal:
    """All rows of an operand of which every CTA holds an equal part at the same addresses."""
    parts: list[Values] = []
    for memory in smem:
        part = fetch(memory, origin, descriptor, major, (rows // len(smem), k), kind)
        if isinstance(part, Illegal):
            return part
        parts.append(part)
    return np.concatenate(parts)


def _enabled(operation: Umma, cta: int) -> NDArray[np.bool_] | None:
    """Which lanes of a CTA may be written, None for all."""
    if not operation.disabled:
        return None
    words = np.array(operation.disabled[4 * cta : 4 * cta + 4], "<u4")
    return ~np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)


def _update(
    operation: Umma, block: Block, a: Values | None, b: Values, tmem: Words, enabled: NDArray[np.bool_] | None
) -> Update:
    instruction = operation.instruction
    lane, column = split_address(operation.d)
    lanes = block.lanes + lane
    rows = _from_tmem(operation, block, tmem) if a is None else a[block.rows]
    columns = b[block.columns]
    d = None
    if operation.input_d:
        cells = tmem[lanes, column : column + len(columns)]
        d = _cell_values(cells, instruction.d) * 2.0**-operation.scale
    sign = -1.0 if instruction.negate_a != instruction.negate_b else 1.0
    words = _cell_words(accumulate(rows * sign, columns, d, instruction.d))
    if enabled is not None:
        keep = enabled[lanes]
        lanes, words = lanes[keep], words[keep]
    return Update(lanes, column, words)


def _from_tmem(operation: Umma, block: Block, tmem: Words) -> Values:
    """A block's rows of A: 16 elements in 8 columns, the even one in the low half (K-major)."""
    assert isinstance(operation.a, int)
    lane, column = split_address(operation.a)
    width = operation.instruction.k // 2
    words = np.ascontiguousarray(tmem[block.lanes + lane, column : column + width])
    return values_of(words.view("<u2"), operation.instruction.a)


def _cell_values(words: Words, kind: MmaType) -> Values:
    if kind is MmaType.F32:
        return words.view(np.float32).astype(np.float64)
    return values_of((words & np.uint32(0xFFFF)).astype(np.uint16), kind)


def _cell_words(values: NDArray[np.float32] | NDArray[np.float16]) -> Words:
    """32-bit cells: an f16 is in the low half (rule 64), and the high half, of which nothing is said, is zero."""
    if values.dtype == np.float32:
        return values.view(np.uint32)
    return values.view(np.uint16).astype(np.uint32)
