"""Every single-point mutant of a protocol, from a fixed list of mutations of each kind of operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilesched.simulator.errors import InputError
from tilesched.simulator.protocol.ops import Arrive, Barrier, Expect, Launch, Operation, Slot, Touch, Wait
from tilesched.simulator.protocol.program import Protocol


def _sibling(name: str) -> str:
    """The same barrier or slot of the other stage."""
    return name.replace("[0]", "[*]").replace("[1]", "[0]").replace("[*]", "[1]")


def _of(barrier: Barrier | Slot) -> dict[str, str]:
    return {"name": _sibling(barrier.name)}


def _changed(operation: Operation) -> Iterator[tuple[str, Operation]]:
    """The operation with one of its expressions wrong."""
    match operation:
        case Wait(barrier, phase, parity):
            yield "parity flipped", replace(operation, parity=parity ^ 1)
            yield "phase too late", replace(operation, phase=phase + 1, parity=parity ^ 1)
            if phase > -1:
                yield "phase too early", replace(operation, phase=phase - 1, parity=parity ^ 1)
            yield "another stage's barrier", replace(operation, barrier=replace(barrier, **_of(barrier)))
        case Arrive(barrier, count, _):
            yield "count too high", replace(operation, count=count + 1)
            if count > 1:
                yield "count too low", replace(operation, count=count - 1)
            yield "another stage's barrier", replace(operation, barrier=replace(barrier, **_of(barrier)))
        case Expect(barrier, tx):
            yield "bytes too many", replace(operation, tx=tx + 16)
            yield "bytes too few", replace(operation, tx=tx - 16)
            yield "another stage's barrier", replace(operation, barrier=replace(barrier, **_of(barrier)))
        case Touch(access):
            yield "another slot", Touch(replace(access, slot=replace(access.slot, **_of(access.slot))))
        case Launch(agent):
            if agent.accesses:
                moved = tuple(replace(one, slot=replace(one.slot, **_of(one.slot))) for one in agent.accesses)
                yield "another stage's slots", Launch(replace(agent, accesses=moved))
            if agent.signals:
                other = tuple(replace(one, barrier=replace(one.barrier, **_of(one.barrier))) for one in agent.signals)
                yield "another stage's signal", Launch(replace(agent, signals=other))
                yield "no signal", Launch(replace(agent, signals=()))
            if agent.queue:
                yield "out of order", Launch(replace(agent, queue=None))


def mutants(protocol: Protocol) -> Iterator[tuple[str, Protocol]]:
    """Each mutant with a name that says what was done to which operation."""
    for number, thread in enumerate(protocol.threads):
        operations = thread.operations
        for place, operation in enumerate(operations):
            before, after = operations[:place], operations[place + 1 :]
            edits: list[tuple[str, tuple[Operation, ...]]] = [("dropped", (*before, *after))]
            edits.append(("twice", (*before, operation, operation, *after)))
            if after:
                edits.append(("swapped with the next", (*before, after[0], operation, *after[1:])))
            edits += [(what, (*before, changed, *after)) for what, changed in _changed(operation)]
            for what, edited in edits:
                threads = [*protocol.threads]
                threads[number] = replace(thread, operations=edited)
                name = f"{thread.role}[{place}] {type(operation).__name__} {what}"
                try:
                    mutant = replace(protocol, threads=tuple(threads))
                except InputError:  # refused outright: a wait for an arrival that is not there
                    continue
                yield name, mutant
