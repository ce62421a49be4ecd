"""Every interleaving of a small protocol, breadth first: the oracle that keeps the fast checker honest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from .describe import describe
from .kinds import ProtocolKind
from .mbarrier import Mbarrier
from .ops import Barrier
from .program import Protocol
from .space import Place, Space, State, Step

__all__ = ["Exploration", "Trail", "TrailStep", "explore"]


@dataclass(frozen=True, slots=True)
class TrailStep:
    """A step of an interleaving: who does what, and the barriers that it changed, as they are then."""

    thread: int
    by_engine: bool  # not the thread itself: an engine that works for it
    text: str
    changed: tuple[tuple[Barrier, Mbarrier], ...]


@dataclass(frozen=True, slots=True)
class Trail:
    """An interleaving, and what is then to say of it."""

    steps: tuple[TrailStep, ...]
    waiting: tuple[str, ...] = ()  # in a deadlock: who waits for what


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was found: kinds with a shortest interleaving to each; `complete` is False if it ended before all states."""

    found: dict[ProtocolKind, Trail]
    states: int
    complete: bool


def explore(protocol: Protocol, *, max_states: int = 200_000, until: AbstractSet[str] = frozenset()) -> Exploration:
    """Visit all reachable states, up to `max_states`, or only until one of the kinds `until` is found."""
    space = Space(protocol)
    search = _Search(space)
    frontier = deque([space.start()])
    while frontier:
        state = frontier.popleft()
        steps = list(space.successors(state))
        for kind in space.wrong_in(state, ended=not steps):
            search.note(kind, state)
        for step in steps:
            if step.landed is not None and search.landed.setdefault(*step.landed) != step.landed[1]:
                search.note(ProtocolKind.WRONG_PHASE, state, step)
            if step.wrong is not None:
                search.note(step.wrong, state, step)
            if step.to is not None and step.to not in search.parent:
                if len(search.parent) >= max_states:
                    return Exploration(search.found, len(search.parent), complete=False)
                search.parent[step.to] = (state, step)
                frontier.append(step.to)
        if not search.found.keys().isdisjoint(until):
            return Exploration(search.found, len(search.parent), complete=not frontier)
    return Exploration(search.found, len(search.parent), complete=True)


class _Search:
    """What is known so far, and how every state was reached first."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.parent: dict[State, tuple[State, Step] | None] = {space.start(): None}
        self.landed: dict[Place, int] = {}  # the phase in which each arrival and delivery landed first
        self.found: dict[ProtocolKind, Trail] = {}

    def note(self, kind: ProtocolKind, state: State, step: Step | None = None) -> None:
        """Something is wrong with a state, or with a step from it."""
        if kind in self.found:
            return
        steps = [self._shown(before, one) for before, one in self._path(state)]
        steps += [self._shown(state, step)] if step is not None else []
        waiting = tuple(one.text for one in self.space.waiting(state)) if kind is ProtocolKind.DEADLOCK else ()
        self.found[kind] = Trail(tuple(steps), waiting)

    def _path(self, state: State) -> Iterator[tuple[State, Step]]:
        """The steps from the start, each with the state before it."""
        path = []
        place = self.parent[state]
        while place is not None:
            path.append(place)
            place = self.parent[place[0]]
        return reversed(path)

    def _shown(self, before: State, step: Step) -> TrailStep:
        changed: tuple[tuple[Barrier, Mbarrier], ...] = ()
        if step.to is not None:
            rows = zip(self.space.barriers, before.barriers, step.to.barriers, strict=True)
            changed = tuple((barrier, self.space.values[after]) for barrier, was, after in rows if after != was)
        return TrailStep(step.thread, step.by_engine, describe(step.operation), changed)
