"""Compile a kernel once into closures, in blocks of straight steps that end where a fragment may wait or jump."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .control import bits_to_mask, branch
from .isa import OPERATIONS, Unsupported, match
from .kinds import Fault, MachineKind
from .program import Guard, Instruction, Kernel, Label, Targets
from .semantics import BRANCH, SEMANTICS
from .slots import BLOCK, LANES, SPLIT, Array, Ending, Regs, Slots, Step, Straight
from .warp import Fragment, Warp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Block", "Code", "compile_kernel"]


@dataclass(frozen=True, slots=True)
class Block:
    """Straight steps from an instruction on, for whole warps and for masks; then the ending at `end`, if any."""

    full: tuple[Callable[[Regs], None], ...]
    masked: tuple[Callable[[Regs, Array], None], ...]
    end: int
    ending: Callable[[Warp, Fragment], int] | None


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled kernel. `blocks` has one for every instruction that can be gone to.

    `unsupported` are the instructions that control flow can reach and the machine does not know, each with why;
    `waits_for_loads` says whether any of them is a tcgen05.wait::ld.
    """

    blocks: dict[int, Block]
    slots: Slots
    unsupported: tuple[tuple[Instruction, str], ...]
    waits_for_loads: bool


def compile_kernel(kernel: Kernel, sm: int, slots: Slots) -> Code:
    """Closures for a kernel. Raises InputError for an instruction that architecture `sm` does not have."""
    instructions = [*kernel.code, Instruction(("exit",), (), None, kernel.code[-1].line if kernel.code else 0)]
    steps: list[Step] = []
    unknown: dict[int, str] = {}
    for pc, instruction in enumerate(instructions):
        try:
            steps.append(_step(instruction, pc, slots, sm))
        except Unsupported as error:
            unknown[pc] = str(error)
            steps.append(_refusal(instruction, str(error)))
    reachable = _reachable(instructions)
    found = tuple((instructions[pc], why) for pc, why in unknown.items() if pc in reachable)
    waits = any(i.pieces[:2] == ("tcgen05", "wait::ld") for i in instructions)
    return Code(_blocks(instructions, steps), slots, found, waits)


def _step(i: Instruction, pc: int, slots: Slots, sm: int) -> Step:
    name, modifiers = match(i)
    if OPERATIONS[name].sm > sm:
        raise InputError(f"line {i.line}: {name} needs sm_{OPERATIONS[name].sm}, the target is sm_{sm}")
    if name == BRANCH:
        return branch(i, slots, pc)
    step = SEMANTICS[name](i, modifiers, slots)
    if isinstance(step, Ending) and step.members is not None:
        step = _together(step, step.members)
    return step if i.guard is None else _guarded(step, i.guard, pc, slots)


def _guarded(step: Step, guard: Guard, pc: int, slots: Slots) -> Step:
    p, negated = slots.read(guard.register, "pred"), guard.negated
    if isinstance(step, Ending):
        run = step.run

        def ending(warp: Warp, fragment: Fragment) -> int:
            holds = ~warp.regs[p] if negated else warp.regs[p]
            if fragment.count != LANES:
                holds = holds & fragment.mask
            count = np.count_nonzero(holds)
            if count == fragment.count:
                return run(warp, fragment)
            if count == 0:
                return pc + 1
            warp.split(fragment, holds, pc, pc + 1)
            return SPLIT

        return replace(step, run=ending)
    whole, partly = step.full, step.masked

    def full(regs: Regs) -> None:
        holds = ~regs[p] if negated else regs[p]
        count = np.count_nonzero(holds)
        if count == LANES:
            whole(regs)
        elif count:
            partly(regs, holds)

    def masked(regs: Regs, mask: Array) -> None:
        holds = (mask & ~regs[p]) if negated else (mask & regs[p])
        if np.count_nonzero(holds):
            partly(regs, holds)

    return Straight(full, masked)


def _together(step: Ending, members: int) -> Ending:
    """The step, once the lanes of its membermask (slot `members`; -1: all that live) have come together."""
    run = step.run

    def gathered(warp: Warp, fragment: Fragment) -> int:
        if fragment.count != warp.live_count and fragment.token is None:
            needed = warp.live
            if members >= 0:
                needed = needed & bits_to_mask(int(warp.regs[members][fragment.mask][0]))
            missing = needed & ~fragment.mask
            if missing.any():
                fragment.blocked = warp.machine.waits_for_lanes(warp, missing)
                return BLOCK
        return run(warp, fragment)

    return replace(step, run=gathered)


def _refusal(i: Instruction, why: str) -> Ending:
    def run(warp: Warp, fragment: Fragment) -> int:
        raise Fault(MachineKind.UNSUPPORTED, f"{i.opcode}: {why} is not supported")

    return Ending(run)


def _reachable(instructions: Sequence[Instruction]) -> set[int]:
    seen: set[int] = set()
    todo = [0]
    while todo:
        pc = todo.pop()
        if pc in seen or pc >= len(instructions):
            continue
        seen.add(pc)
        i = instructions[pc]
        todo += _targets(i)
        leaves = i.pieces[0] in ("ret", "exit", "trap", "bra", "brx")
        if not leaves or i.guard is not None:
            todo.append(pc + 1)
    return seen


def _targets(i: Instruction) -> Iterable[int]:
    for operand in i.operands:
        if isinstance(operand, Label):
            yield operand.target
        elif isinstance(operand, Targets):
            yield from operand.targets


def _blocks(instructions: Sequence[Instruction], steps: Sequence[Step]) -> dict[int, Block]:
    endings = {pc for pc, step in enumerate(steps) if isinstance(step, Ending)}
    targets = {target for i in instructions for target in _targets(i)}
    leaders = {0} | targets | endings | {pc + 1 for pc in endings}
    blocks: dict[int, Block] = {}
    for leader in leaders:
        if leader >= len(steps):
            continue
        straight: list[Straight] = []
        pc = leader
        while isinstance(step := steps[pc], Straight) and (pc == leader or pc not in targets):
            straight.append(step)
            pc += 1
        ending = step.run if isinstance(step, Ending) and (pc == leader or pc not in targets) else None
        full = tuple(one.full for one in straight)
        blocks[leader] = Block(full, tuple(one.masked for one in straight), pc, ending)
    return blocks
