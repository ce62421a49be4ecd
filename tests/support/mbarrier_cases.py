"""Named programs for the mbarrier probe: what the rules say of each, and the open questions about them.

A case is `documented` where the PTX ISA defines every step; else it is observed behaviour, and the phase is that of
the model, which follows what an H200 did. Questions (a) to (d): expect_tx that ends a phase; waits that come too
late; arrivals and bytes beyond their range; bytes before they are announced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilesched.kernels.mbarrier_program import Operation, Step
from tilesched.simulator.protocol.mbarrier import MAX_COUNT, FaultKind


@dataclass(frozen=True)
class Case:
    """A program and the phases that have ended when it ends, counted by hand."""

    name: str
    documented: bool
    program: tuple[Step, ...]
    phase: int


@dataclass(frozen=True)
class Refused:
    """A program whose last step the PTX ISA does not define. `fails`: an H200 fails the launch; else it goes on."""

    name: str
    program: tuple[Step, ...]
    kind: FaultKind
    fails: bool = True


def init(count: int) -> Step:
    return Step(Operation.INIT, count)


def arrive(count: int = 1) -> Step:
    return Step(Operation.ARRIVE, count)


def arrive_no_complete(count: int = 1) -> Step:
    return Step(Operation.ARRIVE_NO_COMPLETE, count)


def arrive_expect(tx: int) -> Step:
    return Step(Operation.ARRIVE_EXPECT, tx)


def drop(count: int = 1) -> Step:
    return Step(Operation.DROP, count)


def drop_no_complete(count: int = 1) -> Step:
    return Step(Operation.DROP_NO_COMPLETE, count)


def drop_expect(tx: int) -> Step:
    return Step(Operation.DROP_EXPECT, tx)


def expect(tx: int) -> Step:
    return Step(Operation.EXPECT, tx)


def complete(tx: int) -> Step:
    return Step(Operation.COMPLETE, tx)


def copy(tx: int) -> Step:
    return Step(Operation.COPY, tx)


def remote(step: Step) -> Step:
    return replace(step, remote=True)


def unasked(step: Step) -> Step:
    return replace(step, ask=False)


INVAL = Step(Operation.INVAL, ask=False)


def _observed(name: str, phase: int, *program: Step) -> Case:
    return Case(name, False, program, phase)


def _documented(name: str, phase: int, *program: Step) -> Case:
    return Case(name, True, program, phase)


EXPECT_ENDS_A_PHASE = (
    _observed("none pending, one expect_tx", 1, init(1), complete(16), arrive(), expect(16)),
    _observed("none pending, two expect_tx", 1, init(1), complete(16), arrive(), expect(8), expect(8)),
    _observed("none pending, remote", 1, init(1), *map(remote, (complete(16), arrive(), expect(16)))),
    _observed("none pending, bytes of a copy", 1, init(1), copy(64), arrive(), expect(64)),
    _observed("none pending, bytes of a remote copy", 1, init(1), remote(copy(64)), arrive(), expect(64)),
    _observed("none pending, after a drop", 2, init(2), complete(16), arrive(), drop(), expect(16), arrive()),
    _observed("none pending, whole range", 1, init(1), complete(MAX_COUNT), arrive(), expect(MAX_COUNT)),
    _observed("in phase 1", 2, init(1), arrive(), complete(16), arrive(), expect(16)),
    _observed("the next phase is as new", 2, init(2), complete(1), arrive(2), expect(1), arrive(), arrive()),
    _documented("jumps over zero", 1, init(1), complete(16), arrive(), expect(32), complete(16)),
    _documented("an arrival pending", 0, init(1), complete(16), expect(16)),
    _documented("an arrival pending, then it comes", 1, init(1), complete(16), expect(16), arrive()),
    _documented("arrive.expect_tx is the last arrival", 1, init(1), complete(16), arrive_expect(16)),
)
"""Question (a): the text of expect_tx has no completion step, but a phase is said to end whenever both counts are 0."""

NEGATIVE_BYTES = (
    _documented("an arrival pending", 0, init(1), complete(16)),
    _documented("none pending", 0, init(1), complete(16), arrive()),
    _documented("none pending, one byte", 0, init(1), complete(1), arrive()),
    _documented("none pending, the lowest count", 0, init(1), complete(MAX_COUNT), arrive()),
    _documented("none pending, still less", 0, init(1), complete(16), arrive(), complete(16)),
    _documented("by a copy", 1, init(1), copy(1024), arrive_expect(1024)),
    _documented("by a remote copy", 1, init(1), remote(copy(1024)), arrive_expect(1024)),
    _documented("by a remote complete_tx", 1, init(1), remote(complete(32)), arrive_expect(32)),
    _documented("in phase 1", 2, init(1), arrive(), complete(16), arrive_expect(16)),
    _documented(
        "from the lowest to the highest", 0, init(1), complete(MAX_COUNT), expect(MAX_COUNT), expect(MAX_COUNT)
    ),
    _documented("with a drop", 0, init(2), complete(16), arrive(), drop()),
    _documented("with a drop that brings them", 2, init(2), complete(16), arrive(), drop_expect(16), arrive()),
)
"""Question (d): bytes that land before they are announced (rules 6 and 14)."""

OTHER_RULES = (
    _documented("10: bytes in parts", 1, init(1), arrive_expect(48), complete(16), copy(16), remote(complete(16))),
    _documented("10: no bytes", 1, init(1), arrive_expect(0)),
    _documented("10: remote", 1, init(2), *map(remote, (arrive_expect(16), complete(16), arrive()))),
    _documented("11: both participants, one drops", 2, init(2), arrive(), drop(), arrive()),
    _documented("11: drop first", 2, init(2), drop(), arrive(), arrive()),
    _documented("11: several at once", 2, init(4), drop(3), arrive(), arrive()),
    _documented("11: bytes first", 2, init(2), drop_expect(16), arrive(), complete(16), arrive()),
    _documented("11: remote", 2, init(3), *map(remote, (drop(), drop_expect(16), complete(16), arrive(), arrive()))),
    _documented("11: bytes keep the phase open", 2, init(2), arrive_expect(16), drop(), complete(16), arrive()),
    _documented("12: pending counts", 1, init(5), arrive_no_complete(2), arrive_no_complete(), arrive(2)),
    _documented("12: drops", 2, init(5), drop_no_complete(2), arrive_no_complete(), arrive(2), arrive(3)),
    _documented("12: none pending, bytes open", 1, init(1), expect(16), arrive_no_complete(), complete(16)),
    _documented("12: the highest count", 1, init(MAX_COUNT), arrive_no_complete(MAX_COUNT - 1), arrive()),
    _documented("14: zero is touched too early", 1, init(1), arrive_expect(16), complete(16), expect(16)),
    _documented("14: bytes announced too late", 2, init(1), arrive(), expect(16), arrive(), complete(16)),
    _documented(
        "14: zero with an arrival pending", 1, init(2), arrive_expect(16), complete(16), arrive_expect(16), complete(16)
    ),
    _documented("2: the most bytes", 1, init(1), arrive_expect(MAX_COUNT), complete(MAX_COUNT)),
    _documented("3: the highest count", 1, init(MAX_COUNT), arrive(MAX_COUNT)),
    _documented("3: in parts", 2, init(MAX_COUNT), arrive(MAX_COUNT), arrive(MAX_COUNT - 1), arrive()),
    _documented("3: all but one drop", 3, init(MAX_COUNT), drop(MAX_COUNT - 1), arrive(), arrive(), arrive()),
    _documented("3: invalidated within a phase", 1, init(3), arrive_expect(16), INVAL, init(1), arrive()),
    _documented("3: invalidated in an odd phase", 0, init(1), arrive(), INVAL, init(1)),
    _documented("3: invalidated after a drop", 0, init(2), drop(), arrive(), INVAL, init(2), arrive()),
)
"""What 2.14 does not ask, but answers to it stand on; by rule."""


def _late(name: str, phase: int, *program: Step, at: int = 1) -> Case:
    """From step `at` on, which returns a state, the waits by state ask about this one."""
    asked = (replace(step, state=at) if step.ask and place >= at else step for place, step in enumerate(program))
    return _observed(name, phase, *asked)


def _unseen(phases: int) -> Case:
    """Phases that end without a wait that saw it, which breaks rule 15; then both parities."""
    name = f"{phases} phases that nobody saw"
    return _observed(name, phases, init(1), *[unasked(arrive())] * phases, Step(Operation.NOTHING))


LATE_WAITS = (
    _late("state of the last arrival, 600 phases", 600, init(1), *[arrive()] * 600),
    _late("state of the first arrival", 9, init(2), arrive(), arrive(), *[arrive(2)] * 8),
    _late("state of phase 1", 9, init(1), *[arrive()] * 9, at=2),
    _late("state of .noComplete", 9, init(2), arrive_no_complete(), arrive(), *[arrive(2)] * 8),
    _late("state of arrive.expect_tx", 9, init(1), arrive_expect(16), complete(16), *[arrive()] * 8),
    _late("state of arrive_drop", 9, init(2), drop(), arrive(), *[arrive()] * 8),
    _late("state of arrive_drop.noComplete", 9, init(2), drop_no_complete(), arrive(), *[arrive()] * 8),
    _late("state of arrive_drop.expect_tx", 9, init(2), drop_expect(16), complete(16), arrive(), *[arrive()] * 8),
    _late("state with bytes below zero", 9, init(1), complete(16), arrive(), expect(16), *[arrive()] * 8, at=2),
    _late("state of an object before", 5, init(1), arrive(), INVAL, init(1), *[arrive()] * 5),
    *map(_unseen, range(1, 6)),
)
"""Question (b): a state, or a parity, asked about two phases late or later (rules 17 to 20)."""

BEYOND_THE_RANGE = (
    Refused("2 arrivals, 1 pending, count 1", (init(1), arrive(2)), FaultKind.ARRIVE_OVERFLOW),
    Refused("2 arrivals, 1 pending, count 2", (init(2), arrive(), arrive(2)), FaultKind.ARRIVE_OVERFLOW),
    Refused("none pending, bytes open", (init(1), arrive_expect(16), arrive()), FaultKind.ARRIVE_OVERFLOW),
    Refused("none pending, bytes below zero", (init(1), complete(16), arrive(), arrive()), FaultKind.ARRIVE_OVERFLOW),
    Refused("drop", (init(4), arrive(3), drop(2)), FaultKind.ARRIVE_OVERFLOW),
    Refused("remote", (init(1), remote(arrive(2))), FaultKind.ARRIVE_OVERFLOW),
    Refused("expect_tx", (init(1), expect(MAX_COUNT), expect(1)), FaultKind.TX_RANGE, fails=False),
    Refused("arrive.expect_tx", (init(2), expect(MAX_COUNT), arrive_expect(1)), FaultKind.TX_RANGE, fails=False),
    Refused("complete_tx", (init(1), complete(MAX_COUNT), complete(1)), FaultKind.TX_RANGE),
    Refused("complete_tx, two below", (init(1), complete(MAX_COUNT), complete(2)), FaultKind.TX_RANGE),
    Refused("complete_tx, far below", (init(1), complete(MAX_COUNT), complete(MAX_COUNT)), FaultKind.TX_RANGE),
)
"""Question (c): arrivals beyond the pending count (rule 9), bytes beyond their range (rule 2)."""
