"""Asynchronous engines: work that a thread hands over and that ends when the ordering lets it.

Until it ends, the bytes that it writes are INCOMING and those of shared memory that it reads are OUTGOING, so that an
access by anybody else is seen at once, whatever the ordering. Signals (complete_tx) follow the data.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from .kinds import Fault
from .memory import Region, State
from .program import Instruction
from .slots import Array
from .warp import Cta, Fragment, LiveBarrier, Warp

__all__ = ["Agent", "Bytes", "Engines", "Ordering", "Policy"]

_DELAY = 8  # turns of warps between two steps of an agent under the natural ordering
_CHANCE = 0.25  # of one more step after a turn under the random ordering

Bytes: TypeAlias = tuple[Region, slice | Array]
"""Bytes of a region: a slice, or an array of offsets."""


class Policy(StrEnum):
    """When the engines work."""

    NATURAL = "natural"  # in the order of issue, a few turns later
    EARLY = "early"  # at once; and of the warps that can run the lowest goes first, so that higher ones fall behind
    EARLY_REVERSED = "early-reversed"  # at once; and the highest warp goes first
    LATE = "late"  # only when no thread can go on otherwise
    RANDOM = "random"  # drawn from a seed, and the turns of warps too


@dataclass(frozen=True, slots=True)
class Ordering:
    """A policy, the seed of the random one, and mbarriers whose copies end last: (CTA, offset in shared memory)."""

    policy: Policy = Policy.NATURAL
    seed: int = 0
    delayed: frozenset[tuple[int, int]] = frozenset()


@dataclass(slots=True, eq=False)
class Agent:
    """Work of an engine: `steps` in order. Of the bytes it touches, those of a read are free after the first step."""

    name: str
    cta: Cta
    instruction: Instruction
    steps: deque[Callable[[], None]]
    reads: tuple[Bytes, ...] = ()
    writes: tuple[Bytes, ...] = ()
    signals: tuple[LiveBarrier, ...] = ()  # the mbarriers that it arrives at, or completes bytes on
    queue: Hashable = None
    """Agents of a queue end in the order of their issue; None: on its own."""
    due: int = 0
    has_read: bool = False
    waiters: list[tuple[Warp, Fragment]] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return not self.steps


class Engines:
    """The agents that have not ended."""

    def __init__(self, ordering: Ordering) -> None:
        self._policy = ordering.policy
        self._delayed = ordering.delayed
        self.random = random.Random(ordering.seed)
        self.pending: list[Agent] = []
        self._queues: dict[Hashable, deque[Agent]] = {}
        self._turn = 0
        self.finished = 0

    def submit(self, agent: Agent) -> None:
        """Take over work. Raises Fault if bytes that it touches are in other hands, or were never written."""
        for region, span in agent.reads:
            region.check_range(span, f"{agent.name} (read)", State.WRITTEN, State.BARRIER | State.INCOMING)
        for region, span in agent.writes:
            busy = State.BARRIER | State.INCOMING | State.OUTGOING
            region.check_range(span, f"{agent.name} (write)", 0, busy)
        for region, span in agent.reads:
            region.begin_read(span)
        for region, span in agent.writes:
            region.state[span] |= State.INCOMING
        agent.due = self._turn + _DELAY
        self.pending.append(agent)
        if agent.queue is not None:
            self._queues.setdefault(agent.queue, deque()).append(agent)
        if self._policy in (Policy.EARLY, Policy.EARLY_REVERSED) and self._free(agent):
            while not agent.done:
                self._step(agent)

    def turn(self) -> None:
        """A warp had its turn: let the ordering act."""
        self._turn += 1
        if not self.pending:
            return
        if self._policy is Policy.NATURAL:
            for agent in [one for one in self.pending if one.due <= self._turn]:
                if self._free(agent):
                    self._step(agent)
        elif self._policy is Policy.RANDOM:
            while self.random.random() < _CHANCE and (ready := self._undelayed()):
                self._step(self.random.choice(ready))

    def stalled(self) -> bool:
        """No thread can go on: do a step of something, if anything is pending."""
        if not self.pending:
            return False
        ready = self._undelayed() or [one for one in self.pending if self._is_first(one)]
        if self._policy is Policy.RANDOM:
            self._step(self.random.choice(ready))
        elif self._policy is Policy.LATE:  # what nobody waits for is later still
            self._step(next((one for one in ready if self._is_awaited(one)), ready[0]))
        else:
            self._step(ready[0])
        return True

    def using(self, region: Region) -> Agent | None:
        """An agent that still reads or writes a region."""
        for agent in self.pending:
            if any(one is region for one, _ in agent.writes):
                return agent
            if not agent.has_read and any(one is region for one, _ in agent.reads):
                return agent
        return None

    def _undelayed(self) -> list[Agent]:
        return [one for one in self.pending if self._free(one)]

    def _free(self, agent: Agent) -> bool:
        return not self._is_delayed(agent) and self._is_first(agent)

    def _is_first(self, agent: Agent) -> bool:
        return agent.queue is None or self._queues[agent.queue][0] is agent

    def _is_awaited(self, agent: Agent) -> bool:
        """Whether a thread waits for the agent, or for one behind it in its queue."""
        line = [agent] if agent.queue is None else self._queues[agent.queue]
        return any(one.waiters or any(barrier.waiters for barrier in one.signals) for one in line)

    def _is_delayed(self, agent: Agent) -> bool:
        return any((one.cta.index, one.offset) in self._delayed for one in agent.signals)

    def _step(self, agent: Agent) -> None:
        try:
            agent.steps.popleft()()
        except Fault as fault:
            fault.facts.setdefault("instruction", agent.instruction)
            raise
        agent.due = self._turn + _DELAY
        machine = agent.cta.machine
        machine.effects += 1
        if not agent.has_read:
            agent.has_read = True
            for region, span in agent.reads:
                region.end_read(span)
        if agent.done:
            self.pending.remove(agent)
            if agent.queue is not None:
                self._queues[agent.queue].popleft()
            self.finished += 1
        machine.wake(agent.waiters)
