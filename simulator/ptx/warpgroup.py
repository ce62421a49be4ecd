"""wgmma of a warpgroup, and the 8 × 8 matrices of stmatrix and ldmatrix (wgmma.py has layouts and products).

Every warp of a warpgroup computes its own 16 rows. A wgmma.mma_async is work of the tensor core: it reads shared memory
and writes the warp's registers when its turn comes; what the program reads of them before is not noticed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np

from .access import address_of, nothing, resolve
from .alu import Builder
from .bulk import wait_for_groups
from .descriptor import Major, MmaType, SmemDescriptor, decode_wgmma
from .engines import Agent, Bytes
from .isa import Modifiers, Unsupported
from .kinds import MachineKind, legal
from .program import Immediate, Instruction, Operand, Vector
from .slots import LANES, Array, Ending, Slots, Step
from .tensorcore import operand_bytes
from .warp import Fragment, Warp
from .wgmma import THREADS, K, M, Wgmma, wgmma

__all__ = ["WARPGROUP"]

_TYPES = {"f16": MmaType.F16, "bf16": MmaType.BF16, "f32": MmaType.F32}


def _constant(operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise Unsupported("an operand that is not an immediate")
    return operand.value


def _vector(operand: Operand, count: int) -> tuple[Operand, ...]:
    if not isinstance(operand, Vector) or len(operand.items) != count:
        raise Unsupported(f"a vector of other than {count} registers")
    return operand.items


def _mma_async(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """wgmma.mma_async.m64nNk16 d, a, b, scale-d, imm-scale-a, imm-scale-b {, imm-trans-a} , imm-trans-b."""
    shape = re.fullmatch(r"m64n(\d+)k16", m["mshape"])
    if shape is None or m["a"] != m["b"] or m["a"] not in ("f16", "bf16") or m["d"] not in ("f16", "f32"):
        raise Unsupported(i.opcode)
    n, kind, result = int(shape[1]), _TYPES[m["a"]], _TYPES[m["d"]]
    items = _vector(i.operands[0], n // 2 if result is MmaType.F32 else n // 4)
    d = [s.write(item, 32) for item in items]
    in_registers = isinstance(i.operands[1], Vector)
    constants = [_constant(operand) for operand in i.operands[4:]]
    if len(constants) != (3 if in_registers else 4) or {abs(one) for one in constants[:2]} != {1}:
        raise Unsupported(f"{i.opcode} with these constants")
    a = [s.read(item, "b32") for item in _vector(i.operands[1], 4)] if in_registers else [s.read(i.operands[1], "b64")]
    b = s.read(i.operands[2], "b64")
    scale, negated = s.predicate(i.operands[3])

    def run(warp: Warp, fragment: Fragment) -> int:
        regs, lane = warp.regs, int(np.flatnonzero(fragment.mask)[0])
        operation = Wgmma(
            n=n,
            kind=kind,
            d=result,
            a_major=Major.K if in_registers else Major(constants[2]),
            b_major=Major(constants[-1]),
            negate_a=constants[0] < 0,
            negate_b=constants[1] < 0,
            input_d=bool(regs[scale][lane]) != negated,
        )
        right = legal(decode_wgmma(int(regs[b][lane])), MachineKind.DESCRIPTOR)
        left: SmemDescriptor | Array
        if in_registers:
            left = _of_warpgroup(warp, [regs[slot] for slot in a])
        else:
            left = legal(decode_wgmma(int(regs[a[0]][lane])), MachineKind.DESCRIPTOR)
        shared = warp.cta.shared
        reads: list[Bytes] = [operand_bytes(shared, right, operation.b_major, n, K)]
        if isinstance(left, SmemDescriptor):
            reads.append(operand_bytes(shared, left, operation.a_major, M, K))
        steps: deque[Callable[[], None]] = deque([partial(_compute, warp, operation, left, right, d)])
        agent = Agent("wgmma", warp.cta, i, steps, tuple(reads), queue=("wgmma", warp.cta.index, warp.index))
        warp.wgmma.open.append(agent)
        warp.machine.engines.submit(agent)
        return fragment.pc + 1

    return Ending(run, members=-1)


def _of_warpgroup(warp: Warp, rows: list[Array]) -> Array:
    """Registers of a warpgroup in which only this warp's are known; the others belong to other rows."""
    words = np.zeros((len(rows), THREADS), np.uint32)
    first = warp.index % 4 * LANES
    words[:, first : first + LANES] = rows
    return words


def _compute(warp: Warp, operation: Wgmma, a: SmemDescriptor | Array, b: SmemDescriptor, d: list[int]) -> None:
    before = _of_warpgroup(warp, [warp.regs[slot] for slot in d])
    after = legal(wgmma(operation, a, b, before, warp.cta.shared.data), MachineKind.DESCRIPTOR)
    first = warp.index % 4 * LANES
    for slot, row in zip(d, after, strict=True):
        warp.regs[slot] = row[first : first + LANES].copy()


def _commit(i: Instruction, m: Modifiers, s: Slots) -> Step:
    def run(warp: Warp, fragment: Fragment) -> int:
        warp.wgmma.commit()
        return fragment.pc + 1

    return Ending(run, members=-1)


def _wait(i: Instruction, m: Modifiers, s: Slots) -> Step:
    keep = _constant(i.operands[0])

    def run(warp: Warp, fragment: Fragment) -> int:
        return wait_for_groups(warp, fragment, warp.wgmma, keep, reading=False)

    return Ending(run, members=-1)


# -- 8 × 8 matrices of 16-bit elements --------------------------------------------------------------------------------

_LANE = np.arange(LANES)


def _places(m: Modifiers, matrix: int) -> tuple[Array, Array]:
    """Of both halves of every lane's register: which lane holds the row's address, and the bytes into the row."""
    half = np.arange(2)[None, :]
    quad, pair = _LANE[:, None] // 4, _LANE[:, None] % 4 * 2
    row, column = (pair + half, quad + 0 * half) if m["trans"] else (quad + 0 * half, pair + half)
    return 8 * matrix + row, 2 * column


def _matrices(
    i: Instruction, m: Modifiers, s: Slots, address: Operand, registers: Operand
) -> tuple[Callable[[Warp], list[Array]], list[Operand]]:
    count = int(m["num"][1:])
    if count not in (1, 2, 4) or m["type"] != "b16":
        raise Unsupported(i.opcode)
    items: list[Operand] = list(registers.items) if isinstance(registers, Vector) else [registers]
    if len(items) != count:
        raise Unsupported(f"{len(items)} registers for {count} matrices")
    addresses, places = address_of(address, s), [_places(m, matrix) for matrix in range(count)]

    def where(warp: Warp) -> list[Array]:
        rows = addresses(warp.regs)
        return [(rows[lane] + offset).reshape(-1) for lane, offset in places]

    return where, items


def _stmatrix(i: Instruction, m: Modifiers, s: Slots) -> Step:
    where, items = _matrices(i, m, s, i.operands[0], i.operands[1])
    slots, find = [s.read(item, "b32") for item in items], resolve(m["barrier_space"])

    def run(warp: Warp, fragment: Fragment) -> int:
        warp.machine.effects += 1
        for slot, addresses in zip(slots, where(warp), strict=True):
            halves = np.ascontiguousarray(warp.regs[slot]).view(np.uint16)
            for region, offsets, chosen in find(warp, addresses):
                region.store(offsets, 2, 1, halves if chosen is None else halves[chosen], warp.cta.index)
        return fragment.pc + 1

    return Ending(run, members=-1)


def _ldmatrix(i: Instruction, m: Modifiers, s: Slots) -> Step:
    where, items = _matrices(i, m, s, i.operands[1], i.operands[0])
    slots, find = [s.write(item, 32) for item in items], resolve(m["barrier_space"])

    def run(warp: Warp, fragment: Fragment) -> int:
        for slot, addresses in zip(slots, where(warp), strict=True):
            halves = np.zeros(2 * LANES, np.uint16)
            for region, offsets, chosen in find(warp, addresses):
                halves[slice(None) if chosen is None else chosen] = region.fetch(offsets, 2, 1)
            warp.regs[slot] = halves.view(np.uint32)
        return fragment.pc + 1

    return Ending(run, members=-1)


WARPGROUP: dict[str, Builder] = {
    "wgmma.fence": nothing,
    "wgmma.mma_async": _mma_async,
    "wgmma.commit_group": _commit,
    "wgmma.wait_group": _wait,
    "stmatrix": _stmatrix,
    "ldmatrix": _ldmatrix,
}
