"""Jumps, ends, and the operations of a whole warp: shuffles, votes, elections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .alu import Builder
from .isa import Modifiers, Unsupported
from .kinds import Fault, MachineKind
from .program import Instruction, Label, Pair, Targets
from .slots import BLOCK, LANES, SPLIT, Array, Ending, Regs, Slots, Step, bits_of
from .warp import Fragment, Warp

__all__ = ["CONTROL", "branch"]

_LANE = np.arange(LANES)
_BIT = (np.uint64(1) << _LANE.astype(np.uint64)).astype(np.uint32)


def branch(i: Instruction, s: Slots, pc: int) -> Ending:
    """bra with its guard: lanes whose guard holds go to the target. `pc` is the index of the instruction."""
    target = i.operands[0]
    if not isinstance(target, Label):
        raise Unsupported("a branch to what is not a label")
    to, after = target.target, pc + 1
    back = to <= pc
    if i.guard is None:

        def always(warp: Warp, fragment: Fragment) -> int:
            fragment.loops += back
            return to

        return Ending(always)
    p, negated = s.read(i.guard.register, "pred"), i.guard.negated

    def run(warp: Warp, fragment: Fragment) -> int:
        taken = ~warp.regs[p] if negated else warp.regs[p]
        if fragment.count != LANES:
            taken = taken & fragment.mask
        count = np.count_nonzero(taken)
        if count == fragment.count:
            fragment.loops += back
            return to
        if count == 0:
            return after
        warp.split(fragment, taken, to, after)
        warp.fragments[-1].loops += back
        return SPLIT

    return Ending(run)


def _brx(i: Instruction, m: Modifiers, s: Slots) -> Step:
    table = i.operands[1]
    if not isinstance(table, Targets):
        raise Unsupported("brx.idx without a list of targets")
    targets, index = table.targets, s.read(i.operands[0], "u32")

    def run(warp: Warp, fragment: Fragment) -> int:
        chosen = warp.regs[index]
        values: list[int] = np.unique(chosen[fragment.mask]).tolist()
        if values[-1] >= len(targets):
            raise Fault(MachineKind.OUT_OF_BOUNDS, f"brx.idx takes target {values[-1]} of {len(targets)}")
        for value in values[:-1]:
            lanes = fragment.mask & (chosen == value)
            warp.split(fragment, lanes, targets[value], fragment.pc)
        if len(values) == 1:
            return targets[values[0]]
        fragment.pc = targets[values[-1]]
        return SPLIT

    return Ending(run)


def _ret(i: Instruction, m: Modifiers, s: Slots) -> Step:
    def run(warp: Warp, fragment: Fragment) -> int:
        warp.end(fragment)
        return SPLIT

    return Ending(run)


def _trap(i: Instruction, m: Modifiers, s: Slots) -> Step:
    def run(warp: Warp, fragment: Fragment) -> int:
        raise Fault(MachineKind.TRAP, "the kernel executes trap")

    return Ending(run)


def _nanosleep(i: Instruction, m: Modifiers, s: Slots) -> Step:
    slot = s.read(i.operands[0], "u32")

    def run(warp: Warp, fragment: Fragment) -> int:
        warp.machine.sleep(int(warp.regs[slot][fragment.mask].max()))
        return fragment.pc + 1

    return Ending(run)


# -- a whole warp -----------------------------------------------------------------------------------------------------


def bits_to_mask(word: int) -> Array:
    """A membermask as a mask of lanes."""
    return ((word >> _LANE) & 1).astype(np.bool_)


def mask_to_bits(mask: Array) -> int:
    """A mask of lanes as a word."""
    return int(_BIT[mask].sum(dtype=np.uint64))


def _members(warp: Warp, fragment: Fragment, slot: int) -> Array:
    """The lanes that the membermask names; those that execute the operation have to be among them."""
    words = warp.regs[slot][fragment.mask]
    word = int(words[0])
    members = bits_to_mask(word)
    if (words != words[0]).any():
        raise Fault(MachineKind.LANES, f"lanes differ in their membermask: {word:#010x} is one", membermask=word)
    if (fragment.mask & ~members).any():
        lane = int(np.flatnonzero(fragment.mask & ~members)[0])
        raise Fault(MachineKind.LANES, f"lane {lane} is not in its membermask {word:#010x}", membermask=word)
    return members


def _warp_step(slot: int, compute: Callable[[Warp, Array, Regs], None]) -> Ending:
    """A warp operation that needs its members together; `compute` writes the results of the lanes of a mask."""

    def run(warp: Warp, fragment: Fragment) -> int:
        _members(warp, fragment, slot)
        compute(warp, fragment.mask, warp.regs)
        return fragment.pc + 1

    return Ending(run, members=slot)


def _write(regs: Regs, slot: int, mask: Array, value: Array) -> None:
    regs[slot] = np.where(mask, value, regs[slot])


def _shfl(i: Instruction, m: Modifiers, s: Slots) -> Step:
    target = i.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    d = s.write(first, 32)
    p = s.write(second, 1) if second is not None else None
    a, b, c, members = (s.read(operand, "b32") for operand in i.operands[1:])
    mode = m["shuffle"]

    def compute(warp: Warp, mask: Array, regs: Regs) -> None:
        value, by, control = regs[a], regs[b].astype(np.int64) & 31, regs[c].astype(np.int64)
        clamp, segment = control & 31, (control >> 8) & 31
        limit = (_LANE & segment) | (clamp & ~segment)
        least = _LANE & segment
        source = {
            "up": _LANE - by,
            "down": _LANE + by,
            "bfly": _LANE ^ by,
            "idx": least | (by & ~segment),
        }[mode]
        valid = source >= limit if mode == "up" else source <= limit
        source = np.where(valid, source, _LANE)
        _write(regs, d, mask, value[source])
        if p is not None:
            _write(regs, p, mask, valid)

    return _warp_step(members, compute)


def _vote(i: Instruction, m: Modifiers, s: Slots) -> Step:
    mode = m["vote"]
    if m["type"] != ("b32" if mode == "ballot" else "pred"):
        raise Unsupported(f".{mode}.{m['type']}")
    d = s.write(i.operands[0], bits_of(m["type"]))
    p, negated = s.predicate(i.operands[1])
    members = s.read(i.operands[2], "b32")

    def compute(warp: Warp, mask: Array, regs: Regs) -> None:
        given = (~regs[p] if negated else regs[p])[mask]
        if mode == "ballot":
            voters = mask.copy()
            voters[mask] = given
            _write(regs, d, mask, np.full(LANES, mask_to_bits(voters), np.uint32))
            return
        answer = given.all() if mode == "all" else given.any() if mode == "any" else given.all() or not given.any()
        _write(regs, d, mask, np.full(LANES, bool(answer)))

    return _warp_step(members, compute)


def _match(i: Instruction, m: Modifiers, s: Slots) -> Step:
    target = i.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Pair) else (target, None)
    d = s.write(first, 32)
    p = s.write(second, 1) if second is not None else None
    everywhere = i.pieces[1] == "all"
    if m["type"] not in ("b32", "b64") or (second is not None and not everywhere):
        raise Unsupported(i.opcode)
    a, members = s.read(i.operands[1], m["type"]), s.read(i.operands[2], "b32")

    def compute(warp: Warp, mask: Array, regs: Regs) -> None:
        value = regs[a]
        same = (value[:, None] == value[None, :]) & mask
        words = (same * _BIT.astype(np.uint64)).sum(axis=1).astype(np.uint32)
        if everywhere:
            everyone = bool((value[mask] == value[mask][0]).all())
            words = np.full(LANES, mask_to_bits(mask) if everyone else 0, np.uint32)
            if p is not None:
                _write(regs, p, mask, np.full(LANES, everyone))
        _write(regs, d, mask, words)

    return _warp_step(members, compute)


_REDUCTIONS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _redux(i: Instruction, m: Modifiers, s: Slots) -> Step:
    kind = m["type"]
    if kind not in ("u32", "s32", "b32") or (kind == "b32") != (m["reduce"] in ("and", "or", "xor")):
        raise Unsupported(i.opcode)
    d, a, members = s.write(i.operands[0], 32), s.read(i.operands[1], kind), s.read(i.operands[2], "b32")
    view, function = np.int32 if kind == "s32" else np.uint32, _REDUCTIONS[m["reduce"]]

    def compute(warp: Warp, mask: Array, regs: Regs) -> None:
        result = np.asarray(function.reduce(regs[a].view(view)[mask], dtype=view)).reshape(1).view(np.uint32)
        _write(regs, d, mask, np.broadcast_to(result, (LANES,)))

    return _warp_step(members, compute)


def _activemask(i: Instruction, m: Modifiers, s: Slots) -> Step:
    d = s.write(i.operands[0], 32)

    def run(warp: Warp, fragment: Fragment) -> int:
        word = np.full(LANES, mask_to_bits(fragment.mask), np.uint32)
        _write(warp.regs, d, fragment.mask, word)
        return fragment.pc + 1

    return Ending(run)


def _elect(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """elect.sync: the lowest lane of the membermask is the leader (PTX leaves open which)."""
    target = i.operands[0]
    if not isinstance(target, Pair):
        raise Unsupported("elect.sync without d|p")
    d, p = s.write(target.first, 32), s.write(target.second, 1)
    members = s.read(i.operands[1], "b32")

    def compute(warp: Warp, mask: Array, regs: Regs) -> None:
        leader = int(np.flatnonzero(mask)[0])
        _write(regs, d, mask, np.full(LANES, leader, np.uint32))
        _write(regs, p, mask, np.equal(_LANE, leader))

    return _warp_step(members, compute)


def _warp_sync(i: Instruction, m: Modifiers, s: Slots) -> Step:
    """bar.warp.sync: fragments may come to different ones; the last to come lets all go on."""
    slot = s.read(i.operands[0], "b32")

    def run(warp: Warp, fragment: Fragment) -> int:
        if fragment.token == "passed":
            fragment.token = None
            return fragment.pc + 1
        members = _members(warp, fragment, slot) & warp.live
        if fragment.count == warp.live_count:
            return fragment.pc + 1
        fragment.token = "warp.sync"
        here = [one for one in warp.fragments if one.token == "warp.sync" and (members & one.mask).any()]
        came = np.logical_or.reduce([one.mask for one in here])
        if (members & ~came).any():
            fragment.blocked = warp.machine.waits_for_lanes(warp, members & ~came)
            return BLOCK
        for one in here:
            one.token = "passed"
            one.blocked = None
        return BLOCK if len(here) > 1 else run(warp, fragment)

    return Ending(run)


CONTROL: dict[str, Builder] = {
    "brx.idx": _brx,
    **dict.fromkeys(("ret", "exit"), _ret),
    "trap": _trap,
    "nanosleep": _nanosleep,
    "shfl.sync": _shfl,
    "vote.sync": _vote,
    **dict.fromkeys(("match.any.sync", "match.all.sync"), _match),
    "redux.sync": _redux,
    "activemask": _activemask,
    "elect.sync": _elect,
    "bar.warp.sync": _warp_sync,
}
