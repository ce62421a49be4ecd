"""Every single-point mutant of a protocol, from a fixed list of mutations of each kind of operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilesched.simulator.errors import InputError
from tilesched.simulator.protocol.ops import Arrive, Barrier, Expect, Fence, Launch, Operation, Slot, Touch, Wait
from tilesched.simulator.protocol.program import Protocol


def _sibling(name: str) -> str:
    """The same barrier or slot of the other stage."""
    return name.replace("[0]", "[*]").replace("[1]", "[0]").replace("[*]", "[1]")


def _stage(barrier: Barrier) -> Barrier:
    return replace(barrier, name=_sibling(barrier.name))


def _slot(slot: Slot) -> Slot:
    return replace(slot, name=_sibling(slot.name))


def _changed(operation: Operation, *, pair: bool) -> Iterator[tuple[str, Operation]]:
    """The operation with one of its expressions wrong; `pair`: there are two CTAs to confuse."""
    match operation:
        case Wait(barrier, phase, parity):
            yield "parity flipped", replace(operation, parity=parity ^ 1)
            yield "phase too late", replace(operation, phase=phase + 1, parity=parity ^ 1)
            if phase > -1:
                yield "phase too early", replace(operation, phase=phase - 1, parity=parity ^ 1)
            yield "another stage's barrier", replace(operation, barrier=_stage(barrier))
        case Arrive(barrier, count, tx):
            yield "count too high", replace(operation, count=count + 1)
            if count > 1:
                yield "count too low", replace(operation, count=count - 1)
            if tx:
                yield "bytes too many", replace(operation, tx=tx + 16)
                yield "bytes too few", replace(operation, tx=tx - 16)
            yield "another stage's barrier", replace(operation, barrier=_stage(barrier))
            if pair:
                yield "the other CTA's barrier", replace(operation, barrier=replace(barrier, cta=1 - barrier.cta))
        case Expect(barrier, tx):
            yield "bytes too many", replace(operation, tx=tx + 16)
            yield "bytes too few", replace(operation, tx=tx - 16)
            yield "another stage's barrier", replace(operation, barrier=_stage(barrier))
        case Touch(access):
            yield "another slot", Touch(replace(access, slot=_slot(access.slot)))
        case Launch(agent):
            if agent.accesses:
                moved = tuple(replace(one, slot=_slot(one.slot)) for one in agent.accesses)
                yield "another stage's slots", Launch(replace(agent, accesses=moved))
            if agent.signals:
                other = tuple(replace(one, barrier=_stage(one.barrier)) for one in agent.signals)
                yield "another stage's signal", Launch(replace(agent, signals=other))
                yield "no signal", Launch(replace(agent, signals=()))
            if len(agent.signals) > 1:
                yield "one CTA's signal only", Launch(replace(agent, signals=agent.signals[:1]))
            if pair and agent.signals:
                peer = tuple(
                    replace(one, barrier=replace(one.barrier, cta=1 - one.barrier.cta)) for one in agent.signals
                )
                yield "the other CTA's signal", Launch(replace(agent, signals=peer))
            if agent.queue:
                yield "out of order", Launch(replace(agent, queue=None))


def without_fences(protocol: Protocol) -> Protocol:
    """Fences are judged by lints alone."""
    return replace(
        protocol,
        threads=tuple(
            replace(who, operations=tuple(one for one in who.operations if not isinstance(one, Fence)))
            for who in protocol.threads
        ),
    )


def mutants(protocol: Protocol) -> Iterator[tuple[str, Protocol]]:
    """Each mutant with a name that says what was done to which operation. Those that Protocol refuses are left out."""
    protocol = without_fences(protocol)
    pair = len({who.cta for who in protocol.threads}) > 1
    for number, thread in enumerate(protocol.threads):
        operations = thread.operations
        for place, operation in enumerate(operations):
            before, after = operations[:place], operations[place + 1 :]
            edits: list[tuple[str, tuple[Operation, ...]]] = [("dropped", (*before, *after))]
            edits.append(("twice", (*before, operation, operation, *after)))
            if after:
                edits.append(("swapped with the next", (*before, after[0], operation, *after[1:])))
            edits += [(what, (*before, changed, *after)) for what, changed in _changed(operation, pair=pair)]
            for what, edited in edits:
                threads = [*protocol.threads]
                threads[number] = replace(thread, operations=edited)
                name = f"{thread}[{place}] {type(operation).__name__} {what}"
                try:
                    mutant = replace(protocol, threads=tuple(threads))
                except InputError:  # refused outright, such as a wait for an arrival that is not there
                    continue
                yield name, mutant
