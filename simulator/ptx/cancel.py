"""Cluster launch control: a CTA asks for the work of a cluster that has not started (rules 51 to 54).

The answer is 16 opaque bytes; here a mark, whether it is a success, and the first CTA's index along x, y, z. Under the
random ordering a request may be declined although clusters wait, as nothing promises that it succeeds (rule 53).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable

import numpy as np

from .access import address_of, shared_place
from .alu import Builder
from .barriers import find_barrier
from .bulk import signal_step
from .engines import Agent, Bytes
from .isa import Modifiers, Unsupported
from .kinds import Fault, MachineKind
from .memory import State
from .program import Instruction, Operand, Vector
from .slots import Array, Ending, Slots, Step
from .warp import Fragment, Warp

__all__ = ["CANCEL"]

_SIZE = 16
_MARK = 0xC1C0
_FORMAT = struct.Struct("<HHIII")


def _try_cancel(i: Instruction, m: Modifiers, s: Slots) -> Step:
    target, barrier, everywhere = address_of(i.operands[0], s), address_of(i.operands[1], s), bool(m["everywhere"])
    space = m["shared_word"]

    def issue(warp: Warp, lane: int) -> None:
        machine, own = warp.machine, warp.cta
        if own.declined:
            text = f"{own} asks for a cluster after it has seen that a request failed"
            raise Fault(MachineKind.CANCEL, text, cta=own.index)
        _, offset = shared_place(warp, int(target(warp.regs)[lane]), space)
        if offset % _SIZE:
            raise Fault(MachineKind.MISALIGNED, f"a response of 16 bytes at {offset:#x}", address=offset)
        place, where = shared_place(warp, int(barrier(warp.regs)[lane]), space)
        ctas = own.cluster.ctas if everywhere else [own]
        for one in ctas:
            if not one.shared.alive:
                raise Fault(MachineKind.PEER_EXIT, f"a response goes to {one}, which has ended", cta=one.index)
        objects = [find_barrier(one, where) for one in (ctas if everywhere else [place])]
        writes: list[Bytes] = [(one.shared, one.shared.span(offset, _SIZE, "response (write)")) for one in ctas]

        def answer() -> None:
            first = machine.cancel_cluster()
            body = _FORMAT.pack(_MARK, first is not None, *(first or (0, 0, 0)))
            for region, span in writes:
                region.data[span] = np.frombuffer(body, np.uint8)
                region.state[span] = State.WRITTEN

        steps: deque[Callable[[], None]] = deque([answer, signal_step(objects, _SIZE)])
        machine.engines.submit(Agent("cancel request", own, i, steps, (), tuple(writes), tuple(objects)))

    def run(warp: Warp, fragment: Fragment) -> int:
        for lane in np.flatnonzero(fragment.mask).tolist():
            issue(warp, lane)
        return fragment.pc + 1

    return Ending(run)


def _response(words: Array, lane: int) -> tuple[bool, tuple[int, int, int]]:
    """What 16 bytes say, as a register of 128 bits holds them. Raises Fault for bytes that are no response."""
    mark, success, x, y, z = _FORMAT.unpack(np.ascontiguousarray(words[:, lane]).tobytes())
    if mark != _MARK:
        raise Fault(MachineKind.CANCEL, "query_cancel of what is no response to try_cancel")
    return bool(success), (x, y, z)


def _is_canceled(i: Instruction, m: Modifiers, s: Slots) -> Step:
    d, a = s.write(i.operands[0], 1), s.read(i.operands[1], "b128")

    def run(warp: Warp, fragment: Fragment) -> int:
        result = warp.regs[d].copy()
        for lane in np.flatnonzero(fragment.mask).tolist():
            result[lane] = _response(warp.regs[a], lane)[0]
            warp.cta.declined |= not result[lane]
        warp.regs[d] = result
        return fragment.pc + 1

    return Ending(run)


def _first_ctaid(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """get_first_ctaid.v4 gives {x, y, z, _}; get_first_ctaid::x one of them."""
    axis = i.pieces[2].partition("::")[2]
    items: tuple[Operand, ...] = i.operands[:1]
    if not axis:
        if not isinstance(i.operands[0], Vector) or len(i.operands[0].items) != 4 or m["vector"] != "v4":
            raise Unsupported(i.opcode)
        items = i.operands[0].items[:3]
    slots = [s.write(item, 32) for item in items]
    a = s.read(i.operands[1], "b128")

    def run(warp: Warp, fragment: Fragment) -> int:
        values = [warp.regs[slot].copy() for slot in slots]
        for lane in np.flatnonzero(fragment.mask).tolist():
            success, first = _response(warp.regs[a], lane)
            if not success:
                raise Fault(MachineKind.CANCEL, "get_first_ctaid of a request that failed", cta=warp.cta.index)
            for value, index in zip(values, first["xyz".index(axis) :] if axis else first, strict=False):
                value[lane] = index
        for slot, value in zip(slots, values, strict=True):
            warp.regs[slot] = value
        return fragment.pc + 1

    return Ending(run)


CANCEL: dict[str, Builder] = {
    "clusterlaunchcontrol.try_cancel": _try_cancel,
    "clusterlaunchcontrol.query_cancel.is_canceled": _is_canceled,
    **{f"clusterlaunchcontrol.query_cancel.get_first_ctaid{axis}": _first_ctaid for axis in ("", "::x", "::y", "::z")},
}
