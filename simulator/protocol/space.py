"""The states of a protocol and the steps between them, with parities as hardware has them.

It shares with `ordered` the operations and the barrier's transitions, and nothing else. A state is where every thread
stands, every barrier and slot, and the work that engines have not ended. From a state any thread whose next operation
is possible may go, and any engine may end any work that its queue allows. What is wrong is looked for in states, not
along one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple, TypeAlias, TypeGuard, TypeVar

from .kinds import ProtocolKind
from .mbarrier import Fault, Mbarrier
from .ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Complete,
    Expect,
    Fence,
    Init,
    Inval,
    Join,
    Launch,
    Mode,
    Operation,
    Signal,
    Slot,
    Touch,
    Wait,
    apply,
)
from .program import Protocol
from .stuck import Stuck, stuck_threads

__all__ = ["Life", "Place", "Space", "State", "Step"]

T = TypeVar("T")
Place: TypeAlias = tuple[int, int, int]
"""An arrival, announcement or delivery: thread, operation (or launch), signal of the launch."""


class Life(IntEnum):
    """Whether there is an object in a barrier's bytes."""

    UNMADE = 0
    LIVE = 1
    GONE = 2


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a thread, or of the engine that works for it: where it leads (nowhere after a fault), and what is wrong
    with it as such."""

    thread: int
    by_engine: bool
    operation: Operation | Signal | Agent
    to: State | None
    wrong: ProtocolKind | None = None
    landed: tuple[Place, int] | None = None


class Work(NamedTuple):
    """An agent that has not ended, or a signal of an ended one that has not come yet."""

    owner: int  # thread
    launch: int  # operation of the owner that launched it: the order of its queue
    signal: int = -1  # which signal of the agent; -1 for the agent itself


class State(NamedTuple):
    """One moment of one interleaving: small numbers only, so that it is quickly hashed."""

    at: tuple[int, ...]  # next operation of each thread
    barriers: tuple[int, ...]  # numbers of their values, as `Space` gives them
    observed: tuple[bool, ...]  # whether a wait has seen the end of the phase before the open one
    lives: tuple[Life, ...]
    slots: tuple[tuple[int, bool], ...]  # versions written, whether the last one was read
    work: frozenset[Work]
    own: tuple[tuple[int, int, int], ...]  # (thread, barrier, phase that its last arrival was in), for AwaitOwn


class Space:
    """The transition system of a protocol."""

    def __init__(self, protocol: Protocol) -> None:
        # Fences change nothing that a state holds: without them there are fewer states.
        self.threads = tuple(
            replace(who, operations=tuple(one for one in who.operations if not isinstance(one, Fence)))
            for who in protocol.threads
        )
        self.barriers = {barrier: index for index, barrier in enumerate(protocol.barriers)}
        self.slots = {slot: index for index, slot in enumerate(protocol.slots)}
        operations = [operation for who in self.threads for operation in who.operations]
        self.made = {operation.barrier for operation in operations if isinstance(operation, Init)}
        self.values: list[Mbarrier] = []
        self.number: dict[Mbarrier, int] = {}
        self.applied: dict[tuple[int, int], int | Fault] = {}  # from a value's number and an operation's identity
        self.one_shot = _one_shot(operations)
        self.sharing: dict[Slot, list[int]] = {}
        for barrier, index in self.barriers.items():
            if barrier.storage is not None:
                self.sharing.setdefault(barrier.storage, []).append(index)

    def start(self) -> State:
        return State(
            at=(0,) * len(self.threads),
            barriers=tuple(self._numbered(Mbarrier.init(barrier.count)) for barrier in self.barriers),
            observed=(False,) * len(self.barriers),
            lives=tuple(Life.UNMADE if barrier in self.made else Life.LIVE for barrier in self.barriers),
            slots=((0, True),) * len(self.slots),
            work=frozenset(),
            own=(),
        )

    def value(self, state: State, barrier: int) -> Mbarrier:
        """A barrier's value in a state."""
        return self.values[state.barriers[barrier]]

    def _numbered(self, value: Mbarrier) -> int:
        if value not in self.number:
            self.number[value] = len(self.values)
            self.values.append(value)
        return self.number[value]

    def _agent(self, work: Work) -> Agent:
        launch = self.threads[work.owner].operations[work.launch]
        assert isinstance(launch, Launch)
        return launch.agent

    def next_of(self, state: State, thread: int) -> Operation | None:
        operations = self.threads[thread].operations
        return operations[state.at[thread]] if state.at[thread] < len(operations) else None

    # -- steps ----------------------------------------------------------------------------------------------------

    def successors(self, state: State) -> Iterator[Step]:
        """Every step that is possible, in its state; or one alone that nothing can see or hinder (an ample set)."""
        for thread in range(len(self.threads)):
            operation = self.next_of(state, thread)
            if isinstance(operation, Launch) or self._only_counts(operation):
                yield self._do(self._gone(state, thread), thread, operation, (thread, state.at[thread], 0))
                return
        in_order = sorted(state.work)  # a run repeats exactly
        for work in in_order:
            if work.signal < 0 and not self._agent(work).accesses and self._can_end(state, work):
                yield self._end(state, work)
                return
        for thread in range(len(self.threads)):
            operation = self.next_of(state, thread)
            if operation is not None and self._possible(state, thread, operation):
                yield self._do(self._gone(state, thread), thread, operation, (thread, state.at[thread], 0))
        for work in in_order:
            if self._can_end(state, work):
                yield self._end(state, work)

    def _only_counts(self, operation: Operation | None) -> TypeGuard[Arrive]:
        """An arrival on a barrier of one phase: it never fails, and nobody passes before all of them are there."""
        return isinstance(operation, Arrive) and operation.barrier in self.one_shot

    def _gone(self, state: State, thread: int) -> State:
        return state._replace(at=_put(state.at, thread, state.at[thread] + 1))

    def _possible(self, state: State, thread: int, operation: Operation) -> bool:
        """Whether a thread can make its step; a wait on what is not there can, and that is a fault."""
        if isinstance(operation, (Wait, AwaitOwn)):
            which = self.barriers[operation.barrier]
            if state.lives[which] is not Life.LIVE:
                return True
            if isinstance(operation, Wait):
                return self.value(state, which).answer(operation.parity)
            return self.value(state, which).phase > self._own(state, thread, which)
        if isinstance(operation, Join):
            return not any(
                work.owner == thread and work.signal < 0 and self._agent(work).group in operation.groups
                for work in state.work
            )
        return True

    def _own(self, state: State, thread: int, barrier: int) -> int:
        """The phase that the thread's last arrival on the barrier was in."""
        return next(phase for who, which, phase in state.own if (who, which) == (thread, barrier))

    def _do(
        self, state: State, thread: int, operation: Operation | Signal, place: Place, *, by_engine: bool = False
    ) -> Step:
        """An operation of a thread, or a signal of its engine, that is possible."""
        to: State | None = state
        wrong: ProtocolKind | None = None
        landed: tuple[Place, int] | None = None
        match operation:
            case Launch():
                to = state._replace(work=state.work | {Work(thread, state.at[thread] - 1)})
            case Touch(access):
                to, wrong = self._access(state, access)
            case Init() | Inval():
                to, wrong = self._life(state, operation)
            case Wait(barrier) | AwaitOwn(barrier):
                which = self.barriers[barrier]
                if state.lives[which] is not Life.LIVE:
                    to, wrong = None, ProtocolKind.DEAD_BARRIER
                else:
                    to = state._replace(observed=_put(state.observed, which, True))
            case Arrive() | Expect() | Complete():
                which = self.barriers[operation.barrier]
                landed = place, self.value(state, which).phase
                to, wrong = self._land(state, thread, which, operation)
        return Step(thread, by_engine, operation, to, wrong, landed)

    def _land(
        self, state: State, thread: int, which: int, operation: Arrive | Expect | Complete
    ) -> tuple[State | None, ProtocolKind | None]:
        if state.lives[which] is not Life.LIVE:
            return None, ProtocolKind.DEAD_BARRIER
        before, number = self.value(state, which), self._applied(state.barriers[which], operation)
        if isinstance(number, Fault):
            return None, ProtocolKind(str(number.kind))
        ends = self.values[number].phase != before.phase
        observed = _put(state.observed, which, False) if ends else state.observed
        own, wrong = state.own, None
        if isinstance(operation, Arrive):
            is_mbarrier = operation.barrier.kind is BarrierKind.MBARRIER
            if not is_mbarrier and (thread, which, before.phase) in own:
                wrong = ProtocolKind.DOUBLE_ARRIVAL
            kept = (item for item in own if item[:2] != (thread, which))
            own = tuple(sorted([*kept, (thread, which, before.phase)]))
            if is_mbarrier and before.phase and not state.observed[which]:
                wrong = ProtocolKind.UNOBSERVED
        barriers = _put(state.barriers, which, number)
        return state._replace(barriers=barriers, observed=observed, own=own), wrong

    def _applied(self, number: int, operation: Arrive | Expect | Complete) -> int | Fault:
        key = number, id(operation)
        if key not in self.applied:
            try:
                self.applied[key] = self._numbered(apply(self.values[number], operation))
            except Fault as fault:
                self.applied[key] = fault
        return self.applied[key]

    def _life(self, state: State, operation: Init | Inval) -> tuple[State | None, ProtocolKind | None]:
        barrier = operation.barrier
        which = self.barriers[barrier]
        if isinstance(operation, Inval):
            if state.lives[which] is not Life.LIVE:
                return None, ProtocolKind.DEAD_BARRIER
            return state._replace(lives=_put(state.lives, which, Life.GONE)), None
        shared = self.sharing.get(barrier.storage, ()) if barrier.storage is not None else ()
        if state.lives[which] is not Life.UNMADE or any(state.lives[other] is Life.LIVE for other in shared):
            return None, ProtocolKind.LIVE_BARRIER
        return state._replace(lives=_put(state.lives, which, Life.LIVE)), None

    def _access(self, state: State, access: Access) -> tuple[State | None, ProtocolKind | None]:
        if any(state.lives[barrier] is Life.LIVE for barrier in self.sharing.get(access.slot, ())):
            return None, ProtocolKind.LIVE_BARRIER
        which = self.slots[access.slot]
        versions, read = state.slots[which]
        if access.mode is Mode.WRITE:
            if access.version is not None and access.version != versions:
                return None, ProtocolKind.STALE
            if not read:
                return None, ProtocolKind.OVERWRITTEN
            return state._replace(slots=_put(state.slots, which, (versions + 1, False))), None
        if versions == 0:
            return None, ProtocolKind.UNWRITTEN
        if access.version is not None and access.version != versions - 1:
            return None, ProtocolKind.STALE
        return state._replace(slots=_put(state.slots, which, (versions, access.mode is Mode.READ))), None

    def _can_end(self, state: State, work: Work) -> bool:
        if work.signal >= 0:
            return True
        queue = self._agent(work).queue
        if queue is None:
            return True
        return not any(
            other.signal < 0
            and other.owner == work.owner
            and other.launch < work.launch
            and self._agent(other).queue == queue
            for other in state.work
        )

    def _end(self, state: State, work: Work) -> Step:
        left, agent = state._replace(work=state.work - {work}), self._agent(work)
        if work.signal >= 0:
            place = (work.owner, work.launch, work.signal + 1)
            return self._do(left, work.owner, agent.signals[work.signal], place, by_engine=True)
        for access in agent.accesses:
            after, wrong = self._access(left, access)
            if after is None:
                return Step(work.owner, True, agent, None, wrong)
            left = after
        signals = {work._replace(signal=number) for number in range(len(agent.signals))}
        return Step(work.owner, True, agent, left._replace(work=left.work | signals))

    # -- what is wrong with a state as such -----------------------------------------------------------------------

    def wrong_in(self, state: State, *, ended: bool) -> Iterator[ProtocolKind]:
        """Kinds of what is wrong; `ended`: it has no successor."""
        for thread in range(len(self.threads)):
            operation = self.next_of(state, thread)
            if isinstance(operation, Wait):
                yield from self._wrong_wait(operation, self.value(state, self.barriers[operation.barrier]).phase)
            elif isinstance(operation, AwaitOwn) and operation.barrier.kind is BarrierKind.MBARRIER:
                which = self.barriers[operation.barrier]
                if self.value(state, which).phase > self._own(state, thread, which) + 1:
                    yield ProtocolKind.LAPPED
        yield from self._races(state)
        yield from self._exits(state)
        if ended:
            yield from self._ends(state)

    def _wrong_wait(self, wait: Wait, phase: int) -> Iterator[ProtocolKind]:
        ahead = phase - wait.phase
        if wait.parity != wait.phase & 1:
            yield ProtocolKind.WRONG_PARITY
        elif ahead < 0:
            yield ProtocolKind.EARLY_WAIT
        elif ahead > 1:
            yield ProtocolKind.LAPPED

    def _races(self, state: State) -> Iterator[ProtocolKind]:
        possible: list[tuple[int, Access]] = []
        for thread in range(len(self.threads)):
            operation = self.next_of(state, thread)
            if isinstance(operation, Touch):
                possible.append((thread, operation.access))
        for number, work in enumerate(state.work, start=len(self.threads)):
            if work.signal < 0 and self._can_end(state, work):
                possible += [(number, access) for access in self._agent(work).accesses]
        for index, (who, one) in enumerate(possible):
            for other_who, other in possible[index + 1 :]:
                if who != other_who and one.slot == other.slot and {one.mode, other.mode} != {Mode.READ}:
                    yield ProtocolKind.RACE

    def _exits(self, state: State) -> Iterator[ProtocolKind]:
        """CTAs whose threads have all ended, while something of theirs is still used."""
        running = {who.cta for thread, who in enumerate(self.threads) if self.next_of(state, thread) is not None}
        gone = {who.cta for who in self.threads} - running
        if not gone:
            return
        for work in state.work:
            home, agent = self.threads[work.owner].cta, self._agent(work)
            if work.signal < 0:
                for access in agent.accesses:
                    if access.slot.cta in gone:
                        yield ProtocolKind.IN_FLIGHT if access.slot.cta == home else ProtocolKind.PEER_EXIT
            elif agent.signals[work.signal].barrier.cta in gone - {home}:
                yield ProtocolKind.PEER_EXIT
        for thread in range(len(self.threads)):
            if _home_of(self.next_of(state, thread)) in gone:
                yield ProtocolKind.PEER_EXIT

    def _ends(self, state: State) -> Iterator[ProtocolKind]:
        """A state with no successor: a deadlock, or what is left at the end."""
        stuck = any(self.next_of(state, thread) is not None for thread in range(len(self.threads)))
        if stuck:
            yield ProtocolKind.DEADLOCK
        lives = zip(state.barriers, state.lives, strict=True)
        lasting = [self.values[barrier] for barrier, life in lives if life is not Life.GONE]
        if any(barrier.tx for barrier in lasting):
            yield ProtocolKind.WRONG_BYTES
        if stuck:
            return
        if any(barrier.begun and not barrier.tx for barrier in lasting):
            yield ProtocolKind.LEFTOVER
        if any(not read for _, read in state.slots):
            yield ProtocolKind.UNREAD

    def waiting(self, state: State) -> list[Stuck]:
        """Who waits for what in a deadlock."""
        values = {barrier: self.value(state, index) for barrier, index in self.barriers.items()}
        return stuck_threads(
            self.threads, state.at, values, lambda thread, barrier: self._own(state, thread, self.barriers[barrier])
        )


def _one_shot(operations: Sequence[Operation]) -> set[Barrier]:
    """Hardware barriers with no more arrivals than one phase takes, and nothing else but waits by state."""
    arrivals: dict[Barrier, int] = {}
    for operation in operations:
        if isinstance(operation, Arrive):
            arrivals[operation.barrier] = arrivals.get(operation.barrier, 0) + operation.count
    used = {
        barrier
        for operation in operations
        for barrier in (
            [signal.barrier for signal in operation.agent.signals]
            if isinstance(operation, Launch)
            else [operation.barrier]
            if isinstance(operation, (Wait, Expect))
            else []
        )
    }
    hardware = (barrier for barrier in arrivals if barrier.kind is BarrierKind.HARDWARE)
    return {barrier for barrier in hardware if arrivals[barrier] <= barrier.count} - used


def _home_of(operation: Operation | None) -> int | None:
    """The CTA whose memory an operation touches at once; hardware barriers stand in no memory."""
    if isinstance(operation, (Arrive, Expect)) and operation.barrier.kind is BarrierKind.MBARRIER:
        return operation.barrier.cta
    return operation.access.slot.cta if isinstance(operation, Touch) else None


def _put(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])
