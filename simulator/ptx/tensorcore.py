"""tcgen05 as operations: allocation of tensor memory, mma and commit as work of the tensor core, ld and st of a warp.

What an mma computes, layouts and descriptors are in umma.py, tmem.py and descriptor.py. The mma and commits of a thread
are one queue, which ends in order (rules 39, 40). A tcgen05.ld takes its values at once; until the warp's wait::ld its
cells are being read, if the kernel has any wait::ld at all: CuTe's kernels have none, and order by registers alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np

from ..protocol.mbarrier import Mbarrier
from .access import address_of, nothing, resolve, shared_place
from .alu import Builder
from .barriers import change, find_barrier
from .bulk import destinations
from .descriptor import Kind, Major, SmemDescriptor, decode_instruction, decode_tcgen05
from .engines import Agent, Bytes
from .isa import Modifiers, Unsupported
from .kinds import Fault, MachineKind, legal
from .memory import Region
from .operand import CHUNK, operand_chunks
from .program import Address, Immediate, Instruction, Operand, Vector
from .slots import BLOCK, Array, Ending, Slots, Step
from .tmem import COLUMNS, LANES, Allocation, Cells, Shape, allocate, cells, deallocate, relinquish, store
from .tmem import load as load_cells
from .umma import Umma, blocks_of, umma
from .warp import Cta, Fragment, LiveBarrier, Reason, Waiting, Warp

__all__ = ["TENSOR_CORE", "TensorMemory", "operand_bytes"]

_KINDS = {"kind::f16": Kind.F16}


@dataclass(slots=True, eq=False)
class TensorMemory:
    """The tensor memory of a CTA: cells (128, 512), which of them were written, and how many writes are on their way.

    `reading` counts loads that nobody has waited for, `unread` marks results of an mma that no thread has read.
    `allocated` says of every column whether the CTA has it.
    """

    words: Array = field(default_factory=lambda: np.zeros((LANES, COLUMNS), np.uint32))
    written: Array = field(default_factory=lambda: np.zeros((LANES, COLUMNS), np.bool_))
    incoming: Array = field(default_factory=lambda: np.zeros((LANES, COLUMNS), np.int16))
    reading: Array = field(default_factory=lambda: np.zeros((LANES, COLUMNS), np.int16))
    unread: Array = field(default_factory=lambda: np.zeros((LANES, COLUMNS), np.bool_))
    allocated: Array = field(default_factory=lambda: np.zeros(COLUMNS, np.bool_))
    allocation: Allocation = field(default_factory=Allocation)


def _memory(cta: Cta) -> TensorMemory:
    if cta.tmem is None:
        cta.tmem = TensorMemory()
    return cta.tmem


def _check_allocated(cta: Cta, columns: Array | slice, what: str) -> TensorMemory:
    memory = _memory(cta)
    if not memory.allocated[columns].all():
        first = int(np.arange(COLUMNS)[columns].min())
        text = f"{what} from column {first} on reaches columns that {cta} has not allocated"
        raise Fault(MachineKind.TENSOR_MEMORY, text, column=first, cta=cta.index)
    return memory


def _one_value(warp: Warp, fragment: Fragment, slot: int, what: str) -> int:
    values = warp.regs[slot][fragment.mask]
    if (values != values[0]).any():
        raise Fault(MachineKind.LANES, f"lanes differ in the {what}")
    return int(values[0])


def _group(m: Modifiers) -> int:
    return int(m["group"][-1])


# -- allocation -------------------------------------------------------------------------------------------------------


def _alloc(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """tcgen05.alloc: blocks while the CTAs of the SM hold too many columns; the address goes to shared memory."""
    target, count = address_of(i.operands[0], s), s.read(i.operands[1], "u32")
    find = resolve(m["shared_word"])

    def run(warp: Warp, fragment: Fragment) -> int:
        cta = warp.cta
        memory = _memory(cta)
        columns = _one_value(warp, fragment, count, "number of columns")
        granted = legal(allocate(memory.allocation, columns, warp.index), MachineKind.TENSOR_MEMORY)
        if granted is None or warp.machine.columns_on_sm(cta) + columns > COLUMNS:
            warp.machine.column_waiters.append((warp, fragment))
            facts = {"columns": columns, "held": warp.machine.columns_on_sm(cta)}
            fragment.blocked = Waiting(Reason.COLUMNS, f"waits for {columns} columns of tensor memory", facts)
            return BLOCK
        memory.allocation = granted.state
        memory.allocated[granted.address : granted.address + columns] = True
        region, offsets, _ = find(warp, target(warp.regs)[fragment.mask][:1])[0]
        region.store(offsets, 4, 1, np.array([granted.address], np.uint32), cta.index)
        warp.machine.effects += 1
        return fragment.pc + 1

    return Ending(run, members=-1)


def _dealloc(i: Instruction, m: Modifiers, s: Slots) -> Step:
    address, count = s.read(i.operands[0], "u32"), s.read(i.operands[1], "u32")

    def run(warp: Warp, fragment: Fragment) -> int:
        memory = _memory(warp.cta)
        start = _one_value(warp, fragment, address, "address")
        columns = _one_value(warp, fragment, count, "number of columns")
        memory.allocation = legal(deallocate(memory.allocation, start, columns), MachineKind.TENSOR_MEMORY)
        span = slice(start, start + columns)
        if memory.incoming[:, span].any():
            text = "tcgen05.dealloc of columns that a tcgen05.mma in flight writes"
            raise Fault(MachineKind.IN_FLIGHT, text, column=start)
        memory.allocated[span] = False
        memory.written[:, span] = False
        memory.unread[:, span] = False
        warp.machine.effects += 1
        warp.machine.wake(warp.machine.column_waiters)
        return fragment.pc + 1

    return Ending(run, members=-1)


def _relinquish(i: Instruction, m: Modifiers, s: Slots) -> Step:
    def run(warp: Warp, fragment: Fragment) -> int:
        memory = _memory(warp.cta)
        memory.allocation = relinquish(memory.allocation)
        return fragment.pc + 1

    return Ending(run, members=-1)


# -- mma and commit ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _bytes_of(descriptor: SmemDescriptor, major: Major, rows: int, k: int) -> Array:
    chunks = legal(operand_chunks(descriptor, major, rows, k), MachineKind.DESCRIPTOR)
    result: Array = (np.unique(chunks)[:, None] + np.arange(CHUNK)).reshape(-1)
    return result


def operand_bytes(region: Region, descriptor: SmemDescriptor, major: Major, rows: int, k: int) -> Bytes:
    """The bytes of shared memory that an operand of 16-bit elements lies in. Raises Fault if they are outside."""
    offsets = _bytes_of(descriptor, major, rows, k)
    first, last = int(offsets[0]), int(offsets[-1])
    region.span(first, last + 1 - first, "tensor-core operand")
    return region, offsets


def _ctas(warp: Warp, group: int) -> list[Cta]:
    """The CTAs that an instruction works in: that of the thread, or its pair, the even one first (rule 44)."""
    if group == 1:
        return [warp.cta]
    every, even = warp.cta.cluster.ctas, warp.cta.rank & ~1
    if even + 1 >= len(every):
        raise Fault(
            MachineKind.TENSOR_MEMORY, f"cta_group::2 in a cluster of {len(every)} CTAs: {warp.cta} has no pair"
        )
    pair = every[even : even + 2]
    for one in pair:
        if not one.shared.alive:
            raise Fault(MachineKind.PEER_EXIT, f"cta_group::2 with {one}, which has ended", cta=one.index)
    return pair


def _queue(warp: Warp, lane: int) -> tuple[int, int, int]:
    return warp.cta.index, warp.index, lane


class _Mma:
    """One tcgen05.mma on its way: checks its cells when it is issued, computes when its turn comes."""

    def __init__(self, ctas: list[Cta], operation: Umma) -> None:
        self._ctas = ctas
        self._operation = operation
        instruction = operation.instruction
        column = operation.d & 0xFFFF
        self._cells = [
            [
                (block.lanes + (operation.d >> 16), slice(column, column + block.columns.stop - block.columns.start))
                for block in blocks
            ]
            for blocks in blocks_of(instruction.m, instruction.n, operation.cta_group)
        ]
        a_columns = (
            slice(operation.a & 0xFFFF, (operation.a & 0xFFFF) + instruction.k // 2)
            if isinstance(operation.a, int)
            else None
        )
        for cta, places in zip(ctas, self._cells, strict=True):
            for lanes, columns in places:
                self._check(cta, lanes, columns)
                if a_columns is not None:
                    memory = _check_allocated(cta, a_columns, "A of tcgen05.mma")
                    if not memory.written[lanes, a_columns].all():
                        raise Fault(MachineKind.UNWRITTEN, "A of tcgen05.mma in tensor memory was never written")
        self._count(1)

    def reads(self) -> tuple[Bytes, ...]:
        """The shared memory of its operands."""
        operation = self._operation
        instruction, parts = operation.instruction, len(self._ctas)
        found = []
        for cta in self._ctas:
            rows = instruction.n // parts
            found.append(operand_bytes(cta.shared, operation.b, instruction.b_major, rows, instruction.k))
            if isinstance(operation.a, SmemDescriptor):
                rows = instruction.m // parts
                found.append(operand_bytes(cta.shared, operation.a, instruction.a_major, rows, instruction.k))
        return tuple(found)

    def step(self) -> None:
        """Compute and write."""
        memories = [_memory(cta) for cta in self._ctas]
        smem = [cta.shared.data for cta in self._ctas]
        updates = umma(self._operation, smem, [memory.words for memory in memories])
        for memory, parts in zip(memories, legal(updates, MachineKind.DESCRIPTOR), strict=True):
            for part in parts:
                part.apply(memory.words)
                columns = slice(part.column, part.column + part.words.shape[1])
                memory.written[part.lanes, columns] = True
                memory.unread[part.lanes, columns] = True
        self._count(-1)

    def _check(self, cta: Cta, lanes: Array, columns: slice) -> None:
        memory = _check_allocated(cta, columns, "tcgen05.mma")
        if memory.reading[lanes, columns].any():
            text = f"tcgen05.mma writes cells of {cta} that a tcgen05.ld without wait::ld reads"
            raise Fault(MachineKind.IN_FLIGHT, text, column=columns.start, cta=cta.index)
        fresh = memory.unread[lanes, columns] | (memory.incoming[lanes, columns] > 0)
        if not self._operation.input_d and fresh.all():
            text = f"tcgen05.mma begins a new accumulator in cells of {cta} while no thread has read the last one"
            raise Fault(MachineKind.OVERWRITTEN, text, column=columns.start, cta=cta.index)
        known = memory.written[lanes, columns] | (memory.incoming[lanes, columns] > 0)
        if self._operation.input_d and not known.all():
            text = f"tcgen05.mma accumulates into cells of {cta} that were never written"
            raise Fault(MachineKind.UNWRITTEN, text, column=columns.start, cta=cta.index)

    def _count(self, change_by: int) -> None:
        for cta, places in zip(self._ctas, self._cells, strict=True):
            for lanes, columns in places:
                _memory(cta).incoming[lanes, columns] += np.int16(change_by)


def _mma(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """tcgen05.mma [d], a, b, idesc, {disabled,} input_d {, scale}."""
    if m["kind"] not in _KINDS:
        raise Unsupported(f".{m['kind']}")
    kind, group = _KINDS[m["kind"]], _group(m)
    operands = list(i.operands)
    d, a = _taddr(operands[0], s), operands[1]
    a_slot = _taddr(a, s) if isinstance(a, Address) else s.read(a, "b64")
    b, idesc = s.read(operands[2], "b64"), s.read(operands[3], "u32")
    rest = operands[4:]
    disabled: list[int] = []
    if isinstance(rest[0], Vector):
        disabled = [s.read(item, "u32") for item in rest[0].items]
        rest = rest[1:]
    input_d, negated = s.predicate(rest[0])
    scale = _literal(rest[1]) if len(rest) == 2 else 0

    def issue(warp: Warp, lane: int) -> None:
        regs = warp.regs
        ctas = _ctas(warp, group)
        in_tmem = isinstance(a, Address)
        instruction = legal(
            decode_instruction(int(regs[idesc][lane]), kind, group, a_in_tmem=in_tmem), MachineKind.DESCRIPTOR
        )
        value = int(regs[a_slot][lane])
        operation = Umma(
            instruction=instruction,
            cta_group=group,
            a=value if in_tmem else legal(decode_tcgen05(value), MachineKind.DESCRIPTOR),
            b=legal(decode_tcgen05(int(regs[b][lane])), MachineKind.DESCRIPTOR),
            d=int(regs[d][lane]),
            input_d=bool(regs[input_d][lane]) != negated,
            disabled=tuple(int(regs[slot][lane]) for slot in disabled),
            scale=scale,
        )
        work = _Mma(ctas, operation)
        steps: deque[Callable[[], None]] = deque([work.step])
        agent = Agent("tcgen05.mma", warp.cta, i, steps, work.reads(), queue=_queue(warp, lane))
        warp.machine.engines.submit(agent)

    return _each_lane(issue)


def _taddr(operand: Operand, s: Slots) -> int:
    if not isinstance(operand, Address) or operand.offset or operand.extra:
        raise Unsupported("a tensor-memory address that is not [register]")
    return s.read(operand.base, "u32")


def _literal(operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise Unsupported("an operand that is not an immediate")
    return operand.value


def _commit(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """tcgen05.commit: one arrival on each barrier when the thread's mma so far have ended (rule 40)."""
    target, space = address_of(i.operands[0], s), m["barrier_space"]
    if len(i.operands) != 1 + bool(m["multicast"]):
        raise Unsupported(f"{i.opcode} with {len(i.operands)} operands")
    mask = s.read(i.operands[1], "b16") if m["multicast"] else None

    def issue(warp: Warp, lane: int) -> None:
        cta, offset = shared_place(warp, int(target(warp.regs)[lane]), space or "")
        ctas = destinations(warp, cta, None if mask is None else int(warp.regs[mask][lane]))
        barriers = [find_barrier(one, offset) for one in ctas]
        steps: deque[Callable[[], None]] = deque([partial(_arrive, barriers)])
        agent = Agent("tcgen05.commit", warp.cta, i, steps, signals=tuple(barriers), queue=_queue(warp, lane))
        warp.machine.engines.submit(agent)

    return _each_lane(issue)


def _arrive(barriers: Sequence[LiveBarrier]) -> None:
    for barrier in barriers:
        find_barrier(barrier.cta, barrier.offset)
        change(barrier, Mbarrier.arrive)


def _each_lane(issue: Callable[[Warp, int], None]) -> Ending:
    def run(warp: Warp, fragment: Fragment) -> int:
        for lane in np.flatnonzero(fragment.mask).tolist():
            issue(warp, lane)
        return fragment.pc + 1

    return Ending(run)


# -- ld and st --------------------------------------------------------------------------------------------------------


def _transfer(
    i: Instruction, m: Modifiers, s: Slots, registers: Operand, rest: Sequence[Operand]
) -> tuple[Callable[[Warp, Fragment], Cells], list[Operand]]:
    """What ld and st share: the cells of a warp, and the operands of its registers."""
    shape, num, packed = Shape[f"S{m['shape'].upper()}"], int(m["num"][1:]), bool(m["pack"])
    address = _taddr(rest[0], s)
    if (len(rest) == 2) != (shape is Shape.S16X32BX2):
        raise Unsupported(f"{i.opcode} with {len(i.operands)} operands")
    split = _literal(rest[1]) if len(rest) == 2 else 0
    items: list[Operand] = list(registers.items) if isinstance(registers, Vector) else [registers]
    if len(items) != shape.registers * num:
        raise Unsupported(f"{len(items)} registers, not {shape.registers * num}")

    def where(warp: Warp, fragment: Fragment) -> Cells:
        start = _one_value(warp, fragment, address, "tensor-memory address")
        found = legal(cells(shape, num, start, warp.index, packed=packed, split=split), MachineKind.TENSOR_MEMORY)
        memory = _check_allocated(warp.cta, found.columns.reshape(-1), i.opcode)
        if memory.incoming[found.lanes, found.columns].any():
            text = "reads or writes cells that a tcgen05.mma in flight writes"
            raise Fault(MachineKind.IN_FLIGHT, f"{i.pieces[0]}.{i.pieces[1]} {text}", cta=warp.cta.index)
        return found

    return where, items


def _ld(i: Instruction, m: Modifiers, s: Slots) -> Step:
    where, items = _transfer(i, m, s, i.operands[0], i.operands[1:])
    slots = [s.write(item, 32) for item in items]

    def run(warp: Warp, fragment: Fragment) -> int:
        found = where(warp, fragment)
        memory = _memory(warp.cta)
        if not memory.written[found.lanes, found.columns].all():
            raise Fault(MachineKind.UNWRITTEN, "tcgen05.ld of cells that were never written", cta=warp.cta.index)
        if warp.machine.waits_for_loads:
            memory.reading[found.lanes, found.columns] += np.int16(1)
            warp.tmem_loads.append(found)
        memory.unread[found.lanes, found.columns] = False
        values = load_cells(memory.words, found)
        for slot, value in zip(slots, values, strict=True):
            warp.regs[slot] = np.where(fragment.mask, value, warp.regs[slot])
        return fragment.pc + 1

    return Ending(run, members=-1)


def _st(i: Instruction, m: Modifiers, s: Slots) -> Step:
    where, items = _transfer(i, m, s, i.operands[-1], i.operands[:-1])
    slots = [s.read(item, "b32") for item in items]

    def run(warp: Warp, fragment: Fragment) -> int:
        found = where(warp, fragment)
        memory = _memory(warp.cta)
        store(memory.words, found, np.stack([warp.regs[slot] for slot in slots]))
        memory.written[found.lanes, found.columns] = True
        warp.machine.effects += 1
        return fragment.pc + 1

    return Ending(run, members=-1)


def _wait_ld(i: Instruction, m: Modifiers, s: Slots) -> Step:
    def run(warp: Warp, fragment: Fragment) -> int:
        for found in warp.tmem_loads:
            _memory(warp.cta).reading[found.lanes, found.columns] -= np.int16(1)
        warp.tmem_loads.clear()
        return fragment.pc + 1

    return Ending(run, members=-1)


TENSOR_CORE: dict[str, Builder] = {
    "tcgen05.alloc": _alloc,
    "tcgen05.dealloc": _dealloc,
    "tcgen05.relinquish_alloc_permit": _relinquish,
    "tcgen05.mma": _mma,
    "tcgen05.commit": _commit,
    "tcgen05.ld": _ld,
    "tcgen05.st": _st,
    "tcgen05.wait::ld": _wait_ld,
    "tcgen05.wait::st": nothing,
    "tcgen05.fence::before_thread_sync": nothing,
    "tcgen05.fence::after_thread_sync": nothing,
}
