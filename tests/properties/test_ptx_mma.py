"""tcgen05.mma and wgmma against integer matrix products, with operands laid out by the canonical layouts of CUTLASS.

The layouts are those of make_umma_desc and make_gmma_desc, evaluated element by element; between the elements lies
noise. Matrices of small integers make every sum exact, so that results are compared bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cute import offset, swizzled
from tilesched.simulator.ptx.descriptor import InstructionDescriptor, Kind, Major, MmaType, SmemDescriptor
from tilesched.simulator.ptx.swizzle import SmemSwizzle
from tilesched.simulator.ptx.umma import Umma, accumulation_error, umma
from tilesched.simulator.ptx.wgmma import Wgmma, wgmma

SMEM = 1 << 18
ORIGIN = 0x400
K = 16
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]

SWIZZLES = {  # Swizzle<B, M, S>, and W, the 16-byte pieces of a row
    SmemSwizzle.NONE: ((0, 4, 3), 1),
    SmemSwizzle.B32: ((1, 4, 3), 2),
    SmemSwizzle.B64: ((2, 4, 3), 4),
    SmemSwizzle.B128: ((3, 4, 3), 8),
    SmemSwizzle.B128_ATOM32: ((2, 5, 2), 8),
}


def canonical(major: Major, mode: SmemSwizzle, leading: int, stride: int, rows: int, k: int) -> tuple[list, list]:
    """Shape and stride, in elements of 2 bytes, of ((mn), (k)); T = 8. `leading`, `stride` in bytes."""
    t, lbo, sbo = 8, leading // 2, stride // 2
    width = SWIZZLES[mode][1]
    if major is Major.K:
        second = lbo if mode is SmemSwizzle.NONE else t
        return [[8, rows // 8], [t, k // t]], [[width * t, sbo], [1, second]]
    if mode is SmemSwizzle.NONE:
        return [[t, 1, rows // t], [8, k // 8]], [[1, t, sbo], [t, lbo]]
    height = 4 if mode is SmemSwizzle.B128_ATOM32 else 8
    repeats = -(-rows // (t * width))
    return [[t, width, repeats], [height, k // height]], [[1, t, lbo], [width * t, sbo]]


@dataclass(frozen=True)
class Laid:
    """A matrix as it lies in shared memory: descriptor of its first 16 columns, and the address of every element."""

    descriptor: SmemDescriptor
    major: Major
    places: np.ndarray[tuple[int, int], np.dtype[np.int64]]

    def step(self, k_step: int, mode: SmemSwizzle) -> SmemDescriptor:
        """The descriptor of columns 16 · k_step on: a new start address, nothing else."""
        d = self.descriptor
        if self.major is Major.K:
            piece = d.leading if mode is SmemSwizzle.NONE else 16
            return replace(d, address=d.address + 2 * k_step * piece)
        groups = 4 if mode is SmemSwizzle.B128_ATOM32 else 2
        return replace(d, address=d.address + groups * k_step * (d.leading if mode is SmemSwizzle.NONE else d.stride))


@st.composite
def laid_out(draw: st.DrawFn, rows: int, mode: SmemSwizzle, major: Major, first: int, last: int) -> Laid:
    """A place for `rows` × (16 · steps) elements inside [first, last), with random padding between its parts."""
    width = SWIZZLES[mode][1]
    row_bytes = 16 * width
    period = mode.period if mode is not SmemSwizzle.NONE else 128
    pad = period * draw(st.integers(0, 1))
    if major is Major.K:
        # a row of a swizzled pattern holds 8 · W elements along K
        k = max(K, 8 * width)
        if mode is SmemSwizzle.NONE and draw(st.booleans()):
            stride, leading = 128 + pad, (128 + pad) * (rows // 8) + 16 * draw(st.integers(0, 3))
        elif mode is SmemSwizzle.NONE:
            leading, stride = 128 + pad, (128 + pad) * (k // 8) + 16 * draw(st.integers(0, 3))
        else:
            leading, stride = 16 * draw(st.integers(0, 2**14 - 1)), 8 * row_bytes + pad
    else:
        k = 2 * K
        height = 4 if mode is SmemSwizzle.B128_ATOM32 else 8
        if mode is SmemSwizzle.NONE:
            leading = 128 + 16 * draw(st.integers(0, 3))
            stride = leading * (k // 8) + 16 * draw(st.integers(0, 3))
            if draw(st.booleans()):
                stride, leading = 128 + pad, (128 + pad) * (rows // 8)
        else:
            atom = height * row_bytes
            repeats = -(-rows // (8 * width))
            if draw(st.booleans()):
                leading, stride = atom + pad, (atom + pad) * repeats + pad
            else:
                stride, leading = atom + pad, (atom + pad) * (k // height) + pad
    shape, strides = canonical(major, mode, leading, stride, rows, k)
    linear = 2 * offset(shape, strides, np.mgrid[0:rows, 0:k])
    unit = 16 if mode is SmemSwizzle.NONE else period
    room = (last - first - int(linear.max()) - 2 * period) // unit
    address = -(-first // period) * period + unit * draw(st.integers(0, room))
    places = swizzled(*SWIZZLES[mode][0], address + linear)
    descriptor = SmemDescriptor(address=address, leading=leading, stride=stride, swizzle=mode)
    return Laid(descriptor, major, places)


def bits_of(values: Matrix, kind: MmaType) -> np.ndarray[tuple[int, int], np.dtype[np.uint16]]:
    if kind is MmaType.F16:
        return values.astype(np.float16).view(np.uint16)
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def memory_with(seed: int, *parts: tuple[Laid, Matrix, MmaType]) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    """Noise, and in it the matrices. Fails where two elements share bytes: then the drawing is wrong."""
    memory = np.random.default_rng(seed).integers(0, 256, SMEM - ORIGIN, np.uint8)
    words = memory.view("<u2")
    places = np.concatenate([laid.places.ravel() for laid, _, _ in parts])
    assert len(set(places.tolist())) == places.size
    for laid, values, kind in parts:
        words[(laid.places - ORIGIN) >> 1] = bits_of(values, kind)
    return memory


def integers(rng: np.random.Generator, rows: int, columns: int) -> Matrix:
    return rng.integers(-8, 9, (rows, columns)).astype(np.float64)


modes = {Major.K: [m for m in SmemSwizzle if m is not SmemSwizzle.B128_ATOM32], Major.MN: list(SmemSwizzle)}


@st.composite
def operand(draw: st.DrawFn, rows: int, first: int, last: int) -> tuple[Laid, SmemSwizzle]:
    major = draw(st.sampled_from(Major))
    mode = draw(st.sampled_from(modes[major]))
    return draw(laid_out(rows, mode, major, first, last)), mode


HALF = 0x20000
LANE_OF = {  # rule 64: (cta_group, M) -> (row of D, column) -> (CTA, lane, column), N given
    (1, 128): lambda r, c, n: (0, r, c),
    (1, 64): lambda r, c, n: (0, r % 16 + 32 * (r // 16), c),
    (2, 256): lambda r, c, n: (r // 128, r % 128, c),
    (2, 128): lambda r, c, n: (r // 64, r % 64 + 64 * (c // (n // 2)), c % (n // 2)),
}


@st.composite
def ummas(draw: st.DrawFn) -> tuple[Umma, list[Laid | None], list[SmemSwizzle], int, int]:
    cta_group = draw(st.sampled_from((1, 2)))
    m = draw(st.sampled_from((64, 128))) * cta_group
    n = 8 * cta_group * draw(st.sampled_from((1, 2, 3, 8, 16 // cta_group)))
    a_in_tmem = draw(st.booleans())
    laid_a, mode_a = draw(operand(m // cta_group, 0x400, HALF))
    laid_b, mode_b = draw(operand(n // cta_group, HALF, SMEM))
    a_kind, b_kind = draw(st.sampled_from(((MmaType.F16,) * 2, (MmaType.BF16,) * 2, (MmaType.F16, MmaType.BF16))))
    d_kind = draw(st.sampled_from((MmaType.F32, MmaType.F16))) if b_kind is MmaType.F16 else MmaType.F32
    k_step = draw(st.integers(0, min(laid_a.places.shape[1], laid_b.places.shape[1]) // K - 1))
    lane = 16 * draw(st.integers(0, 1)) if m == 64 else 0
    column = draw(st.integers(0, 100))
    a_column = 300 + draw(st.integers(0, 100))
    words = st.integers(0, 2**32 - 1)
    operation = Umma(
        instruction=InstructionDescriptor(
            kind=Kind.F16,
            m=m,
            n=n,
            a=a_kind,
            b=b_kind,
            d=d_kind,
            a_major=Major.K if a_in_tmem else laid_a.major,
            b_major=laid_b.major,
            negate_a=draw(st.booleans()),
            negate_b=draw(st.booleans()),
        ),
        cta_group=cta_group,
        a=(16 * draw(st.integers(0, 1)) if m == 64 else 0) << 16 | a_column
        if a_in_tmem
        else laid_a.step(k_step, mode_a),
        b=laid_b.step(k_step, mode_b),
        d=lane << 16 | column,
        input_d=draw(st.booleans()),
        disabled=tuple(draw(words) for _ in range(4 * cta_group)) if draw(st.booleans()) else (),
        scale=draw(st.sampled_from((0, 0, 1, 15))),
    )
    return operation, [None if a_in_tmem else laid_a, laid_b], [mode_a, mode_b], k_step, draw(st.integers(0, 2**32))


def put_d(tmem: Sequence[np.ndarray], operation: Umma, d: Matrix) -> None:
    instruction = operation.instruction
    lane, column = operation.d >> 16, operation.d & 0xFFFF
    place = LANE_OF[operation.cta_group, instruction.m]
    words = (
        d.astype(np.float32).view(np.uint32) if instruction.d is MmaType.F32 else d.astype(np.float16).view(np.uint16)
    )
    where, row, col = np.broadcast_arrays(*place(*np.ogrid[0 : instruction.m, 0 : instruction.n], instruction.n))
    for cta, cells in enumerate(tmem):
        own = where == cta
        cells[lane + row[own], column + col[own]] = words[own]


@given(ummas())
def test_umma_is_the_matrix_product(drawn: tuple[Umma, list[Laid | None], list[SmemSwizzle], int, int]) -> None:
    operation, (laid_a, laid_b), _, k_step, seed = drawn
    instruction, group = operation.instruction, operation.cta_group
    assert laid_b is not None
    rng = np.random.default_rng(seed)
    k = laid_b.places.shape[1]
    a = integers(rng, instruction.m, laid_a.places.shape[1] if laid_a else K)
    b = integers(rng, instruction.n, k)
    d = rng.integers(-8, 9, (instruction.m, instruction.n)) * 2.0 ** (operation.scale - 3)
    tmem = [rng.integers(0, 2**32, (128, 512), np.uint32) for _ in range(group)]
    smem = []
    for cta in range(group):
        parts = [(laid_b, np.split(b, group)[cta], instruction.b)]
        if laid_a is not None:
            parts.append((laid_a, np.split(a, group)[cta], instruction.a))
        smem.append(memory_with(seed, *parts))
    if laid_a is None:
        put_a_into_tmem(tmem, operation, a)
    put_d(tmem, operation, d)

    step = slice(K * k_step, K * k_step + K)
    sign = (-1) ** (instruction.negate_a + instruction.negate_b)
    product = sign * (a[:, step] if laid_a else a) @ b[:, step].T
    expected = [one.copy() for one in tmem]
    put_d(expected, operation, product + (d * 2.0**-operation.scale if operation.input_d else 0.0))
    keep_disabled(expected, tmem, operation)

    updates = umma(operation, smem, tmem, ORIGIN)
    assert isinstance(updates, tuple), updates
    for cta in range(group):
        for update in updates[cta]:
            update.apply(tmem[cta])
        assert (tmem[cta] == expected[cta]).all()


def put_a_into_tmem(tmem: Sequence[np.ndarray], operation: Umma, a: Matrix) -> None:
    """Two elements to a column; in the 2 × 2 layout every CTA needs its rows twice, in lanes 0-63 and 64-127."""
    instruction = operation.instruction
    assert isinstance(operation.a, int)
    lane, column = operation.a >> 16, operation.a & 0xFFFF
    place = LANE_OF[operation.cta_group, instruction.m]
    words = bits_of(a, instruction.a).astype(np.uint32)
    for r in range(instruction.m):
        for c in (0, instruction.n - 1):
            cta, row, _ = place(r, c, instruction.n)
            for pair in range(K // 2):
                tmem[cta][lane + row, column + pair] = words[r, 2 * pair] | words[r, 2 * pair + 1] << 16


def keep_disabled(expected: Sequence[np.ndarray], before: Sequence[np.ndarray], operation: Umma) -> None:
    for word, mask in enumerate(operation.disabled):
        for bit in range(32):
            if mask >> bit & 1:
                cta, lane = divmod(32 * word + bit, 128)
                expected[cta][lane] = before[cta][lane]


@given(st.data())
def test_wgmma_is_the_matrix_product(data: st.DataObject) -> None:
    n = 8 * data.draw(st.sampled_from((1, 2, 3, 12, 32)))
    laid_b, mode_b = data.draw(operand(n, HALF, SMEM).filter(lambda one: one[1] is not SmemSwizzle.B128_ATOM32))
    laid_a, mode_a = data.draw(operand(64, 0x400, HALF).filter(lambda one: one[1] is not SmemSwizzle.B128_ATOM32))
    in_registers = data.draw(st.booleans())
    kind = data.draw(st.sampled_from((MmaType.F16, MmaType.BF16)))
    d_kind = data.draw(st.sampled_from((MmaType.F32, MmaType.F16))) if kind is MmaType.F16 else MmaType.F32
    k_step = data.draw(st.integers(0, min(laid_a.places.shape[1], laid_b.places.shape[1]) // K - 1))
    operation = Wgmma(
        n=n,
        kind=kind,
        d=d_kind,
        a_major=Major.K if in_registers else laid_a.major,
        b_major=laid_b.major,
        negate_a=data.draw(st.booleans()),
        negate_b=data.draw(st.booleans()),
        input_d=data.draw(st.booleans()),
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    a, b = integers(rng, 64, laid_a.places.shape[1]), integers(rng, n, laid_b.places.shape[1])
    d = rng.integers(-64, 65, (64, n)) / 8.0
    memory = memory_with(7, (laid_a, a, kind), (laid_b, b, kind))
    step = slice(K * k_step, K * k_step + K)
    registers = fragment_a(bits_of(a[:, step], kind)) if in_registers else laid_a.step(k_step, mode_a)
    found = wgmma(operation, registers, laid_b.step(k_step, mode_b), fragment_d(d, d_kind), memory, ORIGIN)
    sign = (-1) ** (operation.negate_a + operation.negate_b)
    expected = sign * a[:, step] @ b[:, step].T + (d if operation.input_d else 0.0)
    assert isinstance(found, np.ndarray), found
    assert (found == fragment_d(expected, d_kind)).all()


def fragment_a(words: np.ndarray) -> np.ndarray:
    """PTX 9.7.15.5.1, figure of the A fragment, register by register."""
    registers = np.zeros((4, 128), np.uint32)
    for thread in range(128):
        row, pair = 16 * (thread // 32) + thread % 32 // 4, 2 * (thread % 4)
        for register, (down, right) in enumerate(((0, 0), (8, 0), (0, 8), (8, 8))):
            low, high = words[row + down, pair + right], words[row + down, pair + right + 1]
            registers[register, thread] = int(low) | int(high) << 16
    return registers


def fragment_d(d: Matrix, kind: MmaType) -> np.ndarray:
    """PTX 9.7.15.5.1, figure of the D fragment: eight columns at a time, rows r and r + 8."""
    n = d.shape[1]
    elements = np.zeros((n // 2, 128))
    for thread in range(128):
        row, pair = 16 * (thread // 32) + thread % 32 // 4, 2 * (thread % 4)
        elements[:, thread] = [
            d[row + down, 8 * block + pair + right] for block in range(n // 8) for down in (0, 8) for right in (0, 1)
        ]
    if kind is MmaType.F32:
        return elements.astype(np.float32).view(np.uint32)
    halves = elements.astype(np.float16).view(np.uint16).astype(np.uint32)
    return halves[0::2] | halves[1::2] << 16


@given(st.integers(0, 2**32), st.integers(1, 6), st.sampled_from((MmaType.F16, MmaType.BF16)))
def test_real_numbers_stay_within_the_stated_error(seed: int, steps: int, kind: MmaType) -> None:
    """Several instructions into one accumulator, in float32, against one product in float64."""
    rng = np.random.default_rng(seed)
    instruction = InstructionDescriptor(kind=Kind.F16, m=128, n=32, a=kind, b=kind, d=MmaType.F32)
    a_at = SmemDescriptor(address=0x400, leading=128, stride=256, swizzle=SmemSwizzle.NONE)
    b_at = replace(a_at, address=0x8000)
    tmem = np.zeros((128, 512), np.uint32)
    total, magnitude = np.zeros((128, 32)), np.zeros((128, 32))
    for step in range(steps):
        memory = np.zeros(0x10000 - ORIGIN, np.uint8)
        operands = []
        for rows, at in ((128, a_at), (32, b_at)):
            words = bits_of(rng.normal(size=(rows, K)) * 2.0 ** rng.integers(-8, 8, (rows, K)), kind)
            operands.append(
                words.view(np.float16).astype(np.float64)
                if kind is MmaType.F16
                else (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            )
            for r in range(rows):
                for c in range(K):
                    place = at.address - ORIGIN + r % 8 * 16 + r // 8 * 256 + c // 8 * 128 + c % 8 * 2
                    memory[place : place + 2] = np.frombuffer(words[r, c].tobytes(), np.uint8)
        total += operands[0] @ operands[1].T
        magnitude += abs(operands[0]) @ abs(operands[1]).T
        operation = Umma(instruction=instruction, cta_group=1, a=a_at, b=b_at, d=0, input_d=step > 0)
        updates = umma(operation, [memory], [tmem], ORIGIN)
        assert isinstance(updates, tuple)
        updates[0][0].apply(tmem)
    found = tmem[:, :32].view(np.float32).astype(np.float64)
    assert (abs(found - total) <= accumulation_error(magnitude, steps)).all()
