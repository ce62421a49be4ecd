"""Tensor copies: boxes of a tensor map between global and shared memory (rules 34 to 37; addresses: tensormap.py).

A tensor map in memory is 128 opaque bytes, which a kernel may copy about; tensormap_bits.py says what they hold here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from ..errors import InputError
from .access import address_of, nothing, resolve, shared_place
from .alu import Builder
from .barriers import find_barrier
from .bulk import check_barrier_place, destinations, read_then_write, signal_step, submit_in_group
from .engines import Agent, Bytes
from .illegal import Illegal
from .isa import Modifiers, Unsupported
from .kinds import Fault, MachineKind, legal
from .launch import TensorMapParam
from .memory import Region, State
from .program import Address, Instruction, Operand, Vector
from .slots import Array, Ending, Slots, Step
from .swizzle import SmemSwizzle
from .tensormap import CHUNK, BoxRows, Element, Fill, TensorMap, box_rows, check, read_box, smem_chunks, write_box
from .tensormap_bits import SIZE, pack, unpack
from .warp import Cta, Fragment, LiveBarrier, Warp

__all__ = ["TMA", "make_map"]

_ALIGNMENT = 64  # bytes, of a tensor map in memory

_SWIZZLES = {"none": SmemSwizzle.NONE, "32B": SmemSwizzle.B32, "64B": SmemSwizzle.B64, "128B": SmemSwizzle.B128}
_SWIZZLES["128B_ATOM_32B"] = SmemSwizzle.B128_ATOM32
_FILLS = {"zero": Fill.ZERO, "nan": Fill.NAN}


def make_map(param: TensorMapParam, base: int, sm: int) -> bytes:
    """The 128 bytes of the tensor map that a launch describes over an array at `base`. Raises InputError."""
    for name, value, known in (
        ("dtype", param.dtype.upper(), Element.__members__),
        ("swizzle", param.swizzle, _SWIZZLES),
        ("fill", param.fill, _FILLS),
    ):
        if value not in known:
            raise InputError(f"tensor_map: {name}={value!r:.40} is not one of {', '.join(known)}")
    tensor = TensorMap(
        element=Element[param.dtype.upper()],
        address=base + param.offset,
        dims=param.dims,
        strides=param.strides,
        box=param.box,
        steps=param.element_strides,
        swizzle=_SWIZZLES[param.swizzle],
        fill=_FILLS[param.fill],
    )
    wrong = check(tensor, sm)
    if wrong is not None:
        raise InputError(wrong.message)
    try:
        return pack(tensor)
    except ValueError as error:
        raise InputError(str(error)[:200]) from None


@lru_cache(maxsize=256)
def _decoded(body: bytes, sm: int) -> TensorMap | Illegal:
    tensor = unpack(body)
    return tensor if isinstance(tensor, Illegal) else check(tensor, sm) or tensor


def _map_at(warp: Warp, address: int) -> TensorMap:
    """The tensor map that a generic address means. Raises Fault."""
    if address % _ALIGNMENT:
        text = f"a tensor map at {address:#x}, which is not a multiple of {_ALIGNMENT}"
        raise Fault(MachineKind.TENSOR_MAP, text, address=address)
    region, offsets, _ = resolve("")(warp, np.array([address]))[0]
    span = region.span(int(offsets[0]), SIZE, "tensor map (read)")
    region.check_range(span, "tensor map (read)", State.WRITTEN, State.BARRIER | State.INCOMING)
    return legal(_decoded(region.data[span].tobytes(), warp.machine.sm), MachineKind.TENSOR_MAP)


def _coordinates(operand: Operand, s: Slots, rank: int) -> tuple[Address, list[int]]:
    """The address of the map, and the slots of the coordinates."""
    if not isinstance(operand, Address) or len(operand.extra) != 1 or not isinstance(operand.extra[0], Vector):
        raise Unsupported("a tensor operand that is not [map, {coordinates}]")
    items = operand.extra[0].items
    if len(items) != rank:
        raise Unsupported(f"{len(items)} coordinates for {rank} dimensions")
    return Address(operand.base, operand.offset), [s.read(item, "s32") for item in items]


class _Box:
    """One box of one copy: its rows in global memory and its chunks in shared memory."""

    def __init__(self, warp: Warp, tensor: TensorMap, coordinates: tuple[int, ...], offset: int) -> None:
        if tensor.rank != len(coordinates):
            text = f"a copy of {len(coordinates)} dimensions through a tensor map of {tensor.rank}"
            raise Fault(MachineKind.TENSOR_MAP, text, dims=len(coordinates), rank=tensor.rank)
        self.tensor = tensor
        self.rows: BoxRows = box_rows(tensor, coordinates)
        self.chunks = legal(smem_chunks(tensor, offset), MachineKind.TENSOR_MAP) >> 4
        self.size = tensor.box_bytes
        self.region = warp.machine.heap.find(tensor.address)
        touched = self.rows.touched
        self.touched = np.zeros(0, np.int64)
        if len(touched):
            first, last = int(touched.min()) - self.region.base, int(touched.max()) - self.region.base
            self.region.span(first, last + self.rows.size - first, "tensor copy")
            self.touched = ((touched - self.region.base)[:, None] + np.arange(self.rows.size)).reshape(-1)

    def shared_bytes(self, cta: Cta, what: str) -> Bytes:
        """The bytes of the box in a CTA's shared memory; dense rows fill one range, whatever their order in it."""
        first, last = int(self.chunks.min()) * CHUNK, (int(self.chunks.max()) + 1) * CHUNK
        span = cta.shared.span(first, last - first, what)
        dense = self.tensor.pitch == self.tensor.row_bytes
        return cta.shared, span if dense else (self.chunks[:, None] * CHUNK + np.arange(CHUNK)).reshape(-1)

    def fetched(self) -> Array:
        """The box from global memory, with its fill, in the box's order."""
        return read_box(self.tensor, self.rows, self.region.data, self.region.base)


def _deliver(box: _Box, regions: list[Region]) -> Callable[[], None]:
    def step() -> None:
        data = box.fetched()
        for region in regions:
            region.data.reshape(-1, CHUNK)[box.chunks] = data
            region.state.reshape(-1, CHUNK)[box.chunks] = State.WRITTEN

    return step


def _signalled(
    warp: Warp, ctas: list[Cta], place: tuple[Cta, int], *, multicast: bool, pair: bool
) -> list[LiveBarrier]:
    """The barriers that a load completes on: rules 35 and 36."""
    home, offset = place
    if not multicast:
        check_barrier_place(ctas[0], home, pair=pair)
        return [find_barrier(home, offset)]
    if not pair:
        return [find_barrier(one, offset) for one in ctas]
    every = warp.cta.cluster.ctas
    return [find_barrier(every[one.rank & ~1 | home.rank & 1], offset) for one in ctas]


def _load(i: Instruction, m: Modifiers, s: Slots) -> Step:
    operands = list(i.operands)
    if len(operands) != 3 + bool(m["multicast"]) + bool(m["hint"]):
        raise Unsupported(f"{i.opcode} with {len(operands)} operands")
    target, barrier = address_of(operands[0], s), address_of(operands[2], s)
    where, coordinates = _coordinates(operands[1], s, int(m["dims"][0]))
    tensor_address = address_of(where, s)
    mask = s.read(operands[3], "b16") if m["multicast"] else None
    pair = m["group"] == "cta_group::2"

    def issue(warp: Warp, lane: int) -> None:
        regs = warp.regs
        tensor = _map_at(warp, int(tensor_address(regs)[lane]))
        cta, offset = shared_place(warp, int(target(regs)[lane]), "shared::cluster")
        corner = tuple(int(regs[slot].view(np.int32)[lane]) for slot in coordinates)
        box = _Box(warp, tensor, corner, offset)
        ctas = destinations(warp, cta, None if mask is None else int(regs[mask][lane]))
        place = shared_place(warp, int(barrier(regs)[lane]), "shared::cluster")
        objects = _signalled(warp, ctas, place, multicast=mask is not None, pair=pair)
        box.region.check_range(box.touched, "tensor load (read)", State.WRITTEN, State.INCOMING)
        writes = tuple(box.shared_bytes(one, "tensor load (write)") for one in ctas)
        steps = deque([_deliver(box, [one.shared for one in ctas]), signal_step(objects, box.size)])
        warp.machine.engines.submit(Agent("tensor load", warp.cta, i, steps, (), writes, tuple(objects)))

    return _each_lane(issue)


def _store(i: Instruction, m: Modifiers, s: Slots) -> Step:
    operands = list(i.operands)
    if len(operands) != 2 + bool(m["hint"]) or m["multicast"] or m["group"]:
        raise Unsupported(f"{i.opcode} with {len(operands)} operands")
    where, coordinates = _coordinates(operands[0], s, int(m["dims"][0]))
    tensor_address, source = address_of(where, s), address_of(operands[1], s)

    def issue(warp: Warp, lane: int) -> None:
        regs = warp.regs
        tensor = _map_at(warp, int(tensor_address(regs)[lane]))
        cta, offset = shared_place(warp, int(source(regs)[lane]), "shared::cta")
        corner = tuple(int(regs[slot].view(np.int32)[lane]) for slot in coordinates)
        box = _Box(warp, tensor, corner, offset)

        def read() -> Array:
            data: Array = cta.shared.data.reshape(-1, CHUNK)[box.chunks]
            return data

        def write(data: Array) -> None:
            write_box(box.rows, data, box.region.data, box.region.base)
            box.region.state[box.touched] = State.WRITTEN
            if box.region.observer is not None and len(box.touched):
                box.region.observer(warp.cta.index, box.touched, 1)

        reads = (box.shared_bytes(cta, "tensor store (read)"),)
        writes: tuple[Bytes, ...] = ((box.region, box.touched),) if len(box.touched) else ()
        steps = read_then_write(read, write)
        submit_in_group(warp, lane, Agent("tensor store", warp.cta, i, steps, reads, writes))

    return _each_lane(issue)


def _each_lane(issue: Callable[[Warp, int], None]) -> Ending:
    def run(warp: Warp, fragment: Fragment) -> int:
        for lane in np.flatnonzero(fragment.mask).tolist():
            issue(warp, lane)
        return fragment.pc + 1

    return Ending(run)


def _tensor(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """cp.async.bulk.tensor: a load where an mbarrier is signalled, a store in a bulk group."""
    load = m["destination"] != "global"
    if load != (m["origin"] == "global") or load != (m["complete"] != "bulk_group"):
        raise Unsupported(i.opcode)
    return _load(i, m, s) if load else _store(i, m, s)


TMA: dict[str, Builder] = {"cp.async.bulk.tensor": _tensor, "cp.async.bulk.prefetch.tensor": nothing}
