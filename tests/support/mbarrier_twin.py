"""The mbarrier probe without a GPU: what the model answers to a program, and programs that the rules define."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypothesis import strategies as st

from tilesched.kernels.mbarrier_program import REMOTE, Answer, Operation, Step
from tilesched.simulator.protocol.mbarrier import MAX_COUNT, Mbarrier

MAX_COPY = 1024  # bytes, in steps of 16

_TRANSITIONS: dict[Operation, Callable[[Mbarrier, int], Mbarrier]] = {
    Operation.ARRIVE: lambda barrier, count: barrier.arrive(count),
    Operation.ARRIVE_NO_COMPLETE: lambda barrier, count: barrier.arrive(count, no_complete=True),
    Operation.ARRIVE_EXPECT: lambda barrier, tx: barrier.arrive(tx=tx),
    Operation.DROP: lambda barrier, count: barrier.arrive(count, drop=True),
    Operation.DROP_NO_COMPLETE: lambda barrier, count: barrier.arrive(count, drop=True, no_complete=True),
    Operation.DROP_EXPECT: lambda barrier, tx: barrier.arrive(tx=tx, drop=True),
    Operation.EXPECT: lambda barrier, tx: barrier.expect(tx),
    Operation.COMPLETE: lambda barrier, tx: barrier.complete(tx),
    Operation.COPY: lambda barrier, tx: barrier.complete(tx),
}
_RETURN_STATE = frozenset(_TRANSITIONS) - {Operation.EXPECT, Operation.COMPLETE, Operation.COPY}
_NO_COMPLETE = frozenset({Operation.ARRIVE_NO_COMPLETE, Operation.DROP_NO_COMPLETE})


def _advance(barrier: Mbarrier, step: Step, init: Callable[[int], Mbarrier]) -> Mbarrier:
    if step.operation is Operation.INIT:
        return init(step.operand)
    if step.operation in (Operation.NOTHING, Operation.INVAL):
        return barrier
    return _TRANSITIONS[step.operation](barrier, step.operand)


def model_answers(
    program: Sequence[Step], *, init: Callable[[int], Mbarrier] = Mbarrier.init
) -> tuple[list[Answer], Mbarrier]:
    """What the model answers after each step, and the object at the end. Raises Fault.

    A state keeps one bit of the phase in which it was returned (that is all that rule 18 needs): a stale one is
    answered by that bit. test_wait and try_wait agree, since nothing happens while they look.
    """
    barrier = init(1)
    parity_of_state: dict[int, int] = {}
    answers = []
    for number, step in enumerate(program):
        before, barrier = barrier, _advance(barrier, step, init)
        parity_of_state[number] = before.phase & 1

        def both(parity: int, barrier: Mbarrier = barrier) -> tuple[bool, bool]:
            return barrier.answer(parity), barrier.answer(parity)

        answers.append(
            Answer(
                parity_0=both(0) if step.ask else None,
                parity_1=both(1) if step.ask else None,
                by_state=both(parity_of_state[step.state]) if step.ask and step.state is not None else None,
                pending=before.pending if step.operation in _NO_COMPLETE else None,
            )
        )
    return answers, barrier


Choice = tuple[Operation, str, int, int, bool]
"""Operation, which operand of the range, a number for "any", a number that picks the state, remote if it can be."""

_CHOICES: st.SearchStrategy[Choice] = st.tuples(
    st.sampled_from([*_TRANSITIONS] * 3 + [Operation.INVAL]),
    st.sampled_from(["settle", "settle", "settle", "low", "high", "any"]),
    st.integers(1, MAX_COUNT),
    st.integers(0, 7),
    st.booleans(),
)
_COUNTS = st.integers(1, 4) | st.sampled_from([MAX_COUNT - 1, MAX_COUNT]) | st.integers(1, MAX_COUNT)


@st.composite
def defined_programs(draw: st.DrawFn, max_steps: int = 40) -> list[Step]:
    """Programs of which every step is defined (rules 2 to 18, and 7 as settled), asked after each step (rule 15)."""
    count = draw(_COUNTS)
    program = [Step(Operation.INIT, count)]
    barrier = Mbarrier.init(count)
    states: list[tuple[int, int]] = []  # of this object: step, phase
    length = draw(st.integers(0, max_steps))
    for operation, pick, number, which, remote in draw(st.lists(_CHOICES, min_size=length, max_size=length)):
        if operation is Operation.INVAL:
            count = number if pick == "any" else number % 4 + 1
            program += [Step(Operation.INVAL, ask=False), Step(Operation.INIT, count)]
            barrier, states = Mbarrier.init(count), []
            continue
        operand = _operand(barrier, operation, pick, number)
        if operand is None:
            continue
        remote = remote and operation in REMOTE
        step = Step(operation, operand, remote=remote)
        if operation in _RETURN_STATE and not remote:
            states.append((len(program), barrier.phase))
        barrier = _advance(barrier, step, Mbarrier.init)
        askable = [None, *(place for place, phase in states if barrier.phase - phase <= 1)]
        program.append(Step(operation, operand, state=askable[-1 - which % len(askable)], remote=remote))
    return program


def _operand(barrier: Mbarrier, operation: Operation, pick: str, number: int) -> int | None:
    """An operand for which the operation is defined, or None if there is none."""
    settle = abs(barrier.tx)
    match operation:
        case Operation.ARRIVE_EXPECT | Operation.DROP_EXPECT:
            if barrier.pending == 0 or (operation is Operation.DROP_EXPECT and barrier.expected == 1):
                return None
            low, high, settle = 0, min(MAX_COUNT, MAX_COUNT - barrier.tx), max(-barrier.tx, 0)
        case Operation.EXPECT:
            low, high = 1, min(MAX_COUNT, MAX_COUNT - barrier.tx)
        case Operation.COMPLETE:
            low, high = 1, min(MAX_COUNT, MAX_COUNT + barrier.tx)
        case Operation.COPY:
            low, high = 1, min(MAX_COPY, MAX_COUNT + barrier.tx) // 16
        case _:
            low, high = 1, barrier.pending
            if operation in _NO_COMPLETE and barrier.tx == 0:
                high -= 1
            if operation in (Operation.DROP, Operation.DROP_NO_COMPLETE):
                high = min(high, barrier.expected - 1)
            settle = high
    if operation is Operation.COPY:
        settle //= 16
    if high < low:
        return None
    chosen = {"low": low, "high": high, "settle": min(max(settle, low), high), "any": low + number % (high - low + 1)}
    return chosen[pick] * (16 if operation is Operation.COPY else 1)
