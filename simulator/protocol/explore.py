"""Every interleaving of a small protocol, breadth first: the oracle that keeps the fast checker honest.

It shares with `ordered` the operations and the barrier's transitions, and nothing else. A state is where every thread
stands, every barrier and slot, and the work that engines have not ended. From a state any thread whose next operation
is possible may go, and any engine may end any work that its queue allows. What is wrong is looked for in states, not
along one run; the first finding has a shortest history.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from .kinds import ProtocolKind
from .mbarrier import Fault, Mbarrier
from .ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    BarrierKind,
    Complete,
    Expect,
    Join,
    Launch,
    Mode,
    Operation,
    Signal,
    Touch,
    Wait,
)
from .program import Protocol

__all__ = ["Exploration", "explore"]

T = TypeVar("T")
Place: TypeAlias = tuple[int, int, int]
"""An arrival, announcement or delivery: thread, operation (or launch), signal of the launch."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was found: kinds with the shortest history of steps to each; `complete` is False if the limit was met."""

    found: dict[ProtocolKind, tuple[str, ...]]
    states: int
    complete: bool


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a thread or an engine: where it leads (nowhere after a fault), what is wrong with it as such."""

    text: str
    to: _State | None
    wrong: ProtocolKind | None = None
    landed: tuple[Place, int] | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """An agent that has not ended (`agent`), or a signal of an ended one that has not come yet."""

    owner: int  # thread
    item: Agent | Signal
    launch: int  # operation of the owner that launched it: the order of its queue
    signal: int = 0  # which signal of the agent


@dataclass(frozen=True, slots=True)
class _State:
    at: tuple[int, ...]  # next operation of each thread
    barriers: tuple[Mbarrier, ...]
    observed: tuple[bool, ...]  # whether a wait has seen the end of the phase before the open one
    slots: tuple[tuple[int, bool], ...]  # versions written, whether the last one was read
    work: frozenset[_Work]
    own: tuple[tuple[int, int, int], ...]  # (thread, barrier, phase that its last arrival was in), for AwaitOwn


def explore(protocol: Protocol, *, max_states: int = 200_000) -> Exploration:
    """Visit all reachable states, up to `max_states`."""
    space = _Space(protocol)
    start = space.start()
    landed: dict[Place, int] = {}  # the phase in which each arrival and delivery landed first
    parent: dict[_State, tuple[_State, str] | None] = {start: None}
    found: dict[ProtocolKind, tuple[str, ...]] = {}
    frontier = deque([start])
    while frontier:
        state = frontier.popleft()

        def history(step: str = "", state: _State = state) -> tuple[str, ...]:
            steps = [step] if step else []
            place = parent[state]
            while place is not None:
                steps.append(place[1])
                place = parent[place[0]]
            return tuple(reversed(steps))

        for kind in space.wrong_in(state):
            found.setdefault(kind, history())
        for step in space.successors(state):
            if step.landed is not None and landed.setdefault(*step.landed) != step.landed[1]:
                found.setdefault(ProtocolKind.WRONG_PHASE, history(step.text))
            if step.wrong is not None:
                found.setdefault(step.wrong, history(step.text))
            if step.to is not None and step.to not in parent:
                if len(parent) >= max_states:
                    return Exploration(found, len(parent), complete=False)
                parent[step.to] = (state, step.text)
                frontier.append(step.to)
    return Exploration(found, len(parent), complete=True)


class _Space:
    """The transition system of a protocol."""

    def __init__(self, protocol: Protocol) -> None:
        self.threads = protocol.threads
        self.barriers = {barrier: index for index, barrier in enumerate(protocol.barriers())}
        self.slots = {slot: index for index, slot in enumerate(protocol.slots())}

    def start(self) -> _State:
        return _State(
            at=(0,) * len(self.threads),
            barriers=tuple(Mbarrier.init(barrier.count) for barrier in self.barriers),
            observed=(False,) * len(self.barriers),
            slots=((0, True),) * len(self.slots),
            work=frozenset(),
            own=(),
        )

    def next_of(self, state: _State, thread: int) -> Operation | None:
        operations = self.threads[thread].operations
        return operations[state.at[thread]] if state.at[thread] < len(operations) else None

    def successors(self, state: _State) -> Iterator[_Step]:
        """Every step that is possible, in its state."""
        for thread in range(len(self.threads)):
            operation = self.next_of(state, thread)
            if isinstance(operation, Launch):
                # Nothing else can see or hinder a launch, so it alone stands for all orders (an ample set).
                work = _Work(thread, operation.agent, state.at[thread])
                to = replace(self._gone(state, thread), work=state.work | {work})
                yield _Step(f"{self.threads[thread]}: {_text(operation)}", to)
                return
        for thread, who in enumerate(self.threads):
            operation = self.next_of(state, thread)
            if operation is not None and self._possible(state, thread, operation):
                place = (thread, state.at[thread], 0)
                yield self._do(self._gone(state, thread), thread, operation, f"{who}: {_text(operation)}", place)
        for work in state.work:
            if self._can_end(state, work):
                yield self._end(state, work)

    def _gone(self, state: _State, thread: int) -> _State:
        return replace(state, at=_put(state.at, thread, state.at[thread] + 1))

    def _possible(self, state: _State, thread: int, operation: Operation) -> bool:
        if isinstance(operation, Wait):
            return state.barriers[self.barriers[operation.barrier]].answer(operation.parity)
        if isinstance(operation, AwaitOwn):
            barrier = self.barriers[operation.barrier]
            phases = [phase for who, which, phase in state.own if (who, which) == (thread, barrier)]
            return bool(phases) and state.barriers[barrier].phase > phases[0]
        if isinstance(operation, Join):
            return not any(
                work.owner == thread and isinstance(work.item, Agent) and work.item.group in operation.groups
                for work in state.work
            )
        return True

    def _do(self, state: _State, thread: int, operation: Operation | Signal, text: str, place: Place) -> _Step:
        """An operation of a thread, or a signal of its engine, that is possible."""
        if isinstance(operation, Touch):
            return _Step(text, *self._access(state, operation.access))
        if isinstance(operation, Wait):
            observed = _put(state.observed, self.barriers[operation.barrier], True)
            return _Step(text, replace(state, observed=observed))
        if not isinstance(operation, (Arrive, Expect, Complete)):
            return _Step(text, state)
        which = self.barriers[operation.barrier]
        before = state.barriers[which]
        landed = place, before.phase
        try:
            if isinstance(operation, Arrive):
                after = before.arrive(operation.count, tx=operation.tx)
            elif isinstance(operation, Expect):
                after = before.expect(operation.tx)
            else:
                after = before.complete(operation.tx)
        except Fault as fault:
            return _Step(text, None, ProtocolKind(str(fault.kind)), landed)
        observed = state.observed if after.phase == before.phase else _put(state.observed, which, False)
        own, wrong = state.own, None
        if isinstance(operation, Arrive):
            kept = (item for item in own if item[:2] != (thread, which))
            own = tuple(sorted([*kept, (thread, which, before.phase)]))
            is_mbarrier = operation.barrier.kind is BarrierKind.MBARRIER
            if is_mbarrier and before.phase and not state.observed[which]:
                wrong = ProtocolKind.UNOBSERVED
        to = replace(state, barriers=_put(state.barriers, which, after), observed=observed, own=own)
        return _Step(text, to, wrong, landed)

    def _access(self, state: _State, access: Access) -> tuple[_State | None, ProtocolKind | None]:
        which = self.slots[access.slot]
        versions, read = state.slots[which]
        if access.mode is Mode.WRITE:
            if access.version is not None and access.version != versions:
                return None, ProtocolKind.STALE
            if not read:
                return None, ProtocolKind.OVERWRITTEN
            return replace(state, slots=_put(state.slots, which, (versions + 1, False))), None
        if versions == 0:
            return None, ProtocolKind.UNWRITTEN
        if access.version is not None and access.version != versions - 1:
            return None, ProtocolKind.STALE
        return replace(state, slots=_put(state.slots, which, (versions, read or access.mode is Mode.READ))), None

    def _can_end(self, state: _State, work: _Work) -> bool:
        if not isinstance(work.item, Agent) or work.item.queue is None:
            return True
        return not any(
            isinstance(other.item, Agent)
            and (other.owner, other.item.queue) == (work.owner, work.item.queue)
            and other.launch < work.launch
            for other in state.work
        )

    def _end(self, state: _State, work: _Work) -> _Step:
        left = replace(state, work=state.work - {work})
        who = self.threads[work.owner]
        if not isinstance(work.item, Agent):
            place = (work.owner, work.launch, work.signal + 1)
            return self._do(left, work.owner, work.item, f"{who}'s engine: {_text(work.item)}", place)
        text = f"{who}'s engine ends {work.item.name}"
        for access in work.item.accesses:
            after, wrong = self._access(left, access)
            if after is None:
                return _Step(text, None, wrong)
            left = after
        signals = {_Work(work.owner, item, work.launch, index) for index, item in enumerate(work.item.signals)}
        return _Step(text, replace(left, work=left.work | signals))

    def wrong_in(self, state: _State) -> Iterator[ProtocolKind]:
        """What is wrong with a state as such."""
        for thread in range(len(self.threads)):
            operation = self.next_of(state, thread)
            if isinstance(operation, Wait):
                ahead = state.barriers[self.barriers[operation.barrier]].phase - operation.phase
                if operation.parity != operation.phase & 1:
                    yield ProtocolKind.WRONG_PARITY
                elif ahead < 0:
                    yield ProtocolKind.EARLY_WAIT
                elif ahead > 1:
                    yield ProtocolKind.LAPPED
        yield from self._races(state)
        yield from self._exits(state)
        if not any(True for _ in self.successors(state)):
            yield from self._ends(state)

    def _races(self, state: _State) -> Iterator[ProtocolKind]:
        possible: list[tuple[int, Access]] = []
        for thread in range(len(self.threads)):
            operation = self.next_of(state, thread)
            if isinstance(operation, Touch):
                possible.append((thread, operation.access))
        for number, work in enumerate(state.work, start=len(self.threads)):
            if isinstance(work.item, Agent) and self._can_end(state, work):
                possible += [(number, access) for access in work.item.accesses]
        for index, (who, one) in enumerate(possible):
            for other_who, other in possible[index + 1 :]:
                if who != other_who and one.slot == other.slot and {one.mode, other.mode} != {Mode.READ}:
                    yield ProtocolKind.RACE

    def _exits(self, state: _State) -> Iterator[ProtocolKind]:
        """CTAs whose threads have all ended, while something of theirs is still used."""
        running = {who.cta for thread, who in enumerate(self.threads) if self.next_of(state, thread) is not None}
        gone = {who.cta for who in self.threads} - running
        if not gone:
            return
        for work in state.work:
            home = self.threads[work.owner].cta
            if isinstance(work.item, Agent):
                for access in work.item.accesses:
                    if access.slot.cta in gone:
                        yield ProtocolKind.IN_FLIGHT if access.slot.cta == home else ProtocolKind.PEER_EXIT
            elif work.item.barrier.cta in gone and work.item.barrier.cta != home:
                yield ProtocolKind.PEER_EXIT
        for thread in range(len(self.threads)):
            if _home_of(self.next_of(state, thread)) in gone:
                yield ProtocolKind.PEER_EXIT

    def _ends(self, state: _State) -> Iterator[ProtocolKind]:
        """A state with no successor: a deadlock, or what is left at the end."""
        stuck = any(self.next_of(state, thread) is not None for thread in range(len(self.threads)))
        if stuck:
            yield ProtocolKind.DEADLOCK
        if any(barrier.tx for barrier in state.barriers):
            yield ProtocolKind.WRONG_BYTES
        if stuck:
            return
        if any(barrier.pending != barrier.expected and not barrier.tx for barrier in state.barriers):
            yield ProtocolKind.LEFTOVER
        if any(not read for _, read in state.slots):
            yield ProtocolKind.UNREAD


def _home_of(operation: Operation | None) -> int | None:
    """The CTA whose memory an operation touches at once; hardware barriers stand in no memory."""
    if isinstance(operation, (Arrive, Expect)) and operation.barrier.kind is BarrierKind.MBARRIER:
        return operation.barrier.cta
    return operation.access.slot.cta if isinstance(operation, Touch) else None


def _put(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def _text(operation: Operation | Signal) -> str:
    match operation:
        case Wait():
            return f"passes the wait for phase {operation.phase} of {operation.barrier.name}"
        case Arrive():
            return f"arrives on {operation.barrier.name}" + (
                f", expecting {operation.tx} bytes" if operation.tx else ""
            )
        case Expect():
            return f"expects {operation.tx} bytes on {operation.barrier.name}"
        case Complete():
            return f"delivers {operation.tx} bytes to {operation.barrier.name}"
        case AwaitOwn():
            return f"passes {operation.barrier.name}"
        case Touch():
            return f"{operation.access.mode.value} {operation.access.slot.name}"
        case Launch():
            return f"launches {operation.agent.name}"
        case Join():
            return f"has waited for {', '.join(operation.groups)}"
