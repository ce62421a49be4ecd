"""An obvious twin of the explorer: every step of every thread and engine, no reduction, its own barriers and slots."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tilesched.simulator.protocol.ops import (
    Agent,
    Arrive,
    AwaitOwn,
    Complete,
    Expect,
    Join,
    Launch,
    Mode,
    Operation,
    Touch,
    Wait,
)
from tilesched.simulator.protocol.program import Protocol

# at, barriers {name: (pending, expected, tx, phase)}, slots {name: (versions, read)}, works, own arrivals
Key: TypeAlias = tuple[object, ...]
Work: TypeAlias = tuple[int, int, int]  # thread, operation of the launch, -1 for the agent itself or a signal's number


class World:
    """A state that is copied and changed."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.at = [0] * len(protocol.threads)
        self.barriers = {one: [one.count, one.count, 0, 0] for one in protocol.barriers}
        self.slots = {one: [0, True] for one in protocol.slots}
        self.works: set[Work] = set()
        self.own: dict[tuple[int, object], int] = {}

    def copy(self) -> World:
        other = World.__new__(World)
        other.protocol, other.at = self.protocol, [*self.at]
        other.barriers = {one: [*value] for one, value in self.barriers.items()}
        other.slots = {one: [*value] for one, value in self.slots.items()}
        other.works, other.own = {*self.works}, {**self.own}
        return other

    def key(self) -> Key:
        barriers = tuple(tuple(value) for value in self.barriers.values())
        slots = tuple(tuple(value) for value in self.slots.values())
        return (*self.at, barriers, slots, frozenset(self.works), frozenset(self.own.items()))

    def operation(self, thread: int) -> Operation | None:
        operations = self.protocol.threads[thread].operations
        return operations[self.at[thread]] if self.at[thread] < len(operations) else None

    def agent(self, work: Work) -> Agent:
        launch = self.protocol.threads[work[0]].operations[work[1]]
        assert isinstance(launch, Launch)
        return launch.agent


def next_worlds(world: World) -> Iterator[World | None]:
    """Every successor; None for one that is undefined or finds a slot otherwise than meant."""
    for thread in range(len(world.at)):
        operation = world.operation(thread)
        if operation is not None and _may(world, thread, operation):
            after = world.copy()
            after.at[thread] += 1
            yield after if _do(after, thread, operation, world.at[thread]) else None
    for work in world.works:
        if _may_end(world, work):
            after = world.copy()
            after.works.remove(work)
            yield after if _finish(after, work) else None


def _may(world: World, thread: int, operation: Operation) -> bool:
    match operation:
        case Wait(barrier, _, parity):
            return world.barriers[barrier][3] % 2 != parity
        case AwaitOwn(barrier):
            return world.barriers[barrier][3] > world.own[thread, barrier]
        case Join(groups):
            return not any(w[0] == thread and w[2] < 0 and world.agent(w).group in groups for w in world.works)
    return True


def _may_end(world: World, work: Work) -> bool:
    queue = world.agent(work).queue
    earlier = [w for w in world.works if w[0] == work[0] and w[2] < 0 and w[1] < work[1]]
    return work[2] >= 0 or queue is None or all(world.agent(w).queue != queue for w in earlier)


def _finish(world: World, work: Work) -> bool:
    agent = world.agent(work)
    if work[2] >= 0:
        return _do(world, work[0], agent.signals[work[2]], 0)
    world.works |= {(work[0], work[1], number) for number in range(len(agent.signals))}
    return all(_do(world, work[0], Touch(access), 0) for access in agent.accesses)


def _do(world: World, thread: int, operation: Operation | Complete, place: int) -> bool:
    match operation:
        case Launch():
            world.works.add((thread, place, -1))
        case Touch(access):
            slot = world.slots[access.slot]
            versions, read = slot
            writes = access.mode is Mode.WRITE
            if access.version not in (None, versions if writes else versions - 1) or (not writes and not versions):
                return False
            if writes and not read:
                return False
            slot[:] = [versions + 1, False] if writes else [versions, access.mode is Mode.READ]
        case Arrive(barrier, count, tx):
            world.own[thread, barrier] = world.barriers[barrier][3]
            world.barriers[barrier][2] += tx
            world.barriers[barrier][0] -= count
            return _settled(world.barriers[barrier])
        case Expect(barrier, tx):
            world.barriers[barrier][2] += tx
            return _settled(world.barriers[barrier])
        case Complete(barrier, tx):
            world.barriers[barrier][2] -= tx
            return _settled(world.barriers[barrier])
    return True


def _settled(barrier: list[int]) -> bool:
    if barrier[0] == barrier[2] == 0:
        barrier[0], barrier[3] = barrier[1], barrier[3] + 1
    return barrier[0] >= 0


def harm(protocol: Protocol, max_states: int) -> set[str] | None:
    """What can happen, of: "undefined", "deadlock", "leftover". None above `max_states` states."""
    start = World(protocol)
    seen, stack, found = {start.key()}, [start], set[str]()
    while stack:
        world = stack.pop()
        successors = list(next_worlds(world))
        if not successors:
            stuck = any(world.operation(thread) is not None for thread in range(len(world.at)))
            left = any(value[0] != value[1] or value[2] for value in world.barriers.values())
            unread = any(not read for _, read in world.slots.values())
            found |= {"deadlock"} if stuck else {"leftover"} if left or unread else set()
        for after in successors:
            if after is None:
                found.add("undefined")
            elif after.key() not in seen:
                seen.add(after.key())
                stack.append(after)
        if len(seen) > max_states:
            return None
    return found
