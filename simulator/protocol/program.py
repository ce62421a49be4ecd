"""Protocols: barriers, and threads that are lists of operations. A thread stands for the warps that act as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from ..errors import InputError
from .mbarrier import MAX_COUNT
from .ops import (
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Expect,
    Init,
    Inval,
    Launch,
    Operation,
    Slot,
    Touch,
    Wait,
)

__all__ = ["MAX_OPERATIONS", "Protocol", "Thread", "thread"]

MAX_OPERATIONS = 1_000_000
"""Operations of all threads of a protocol; more are refused rather than judged in part."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A role's warp (or warps that act as one), in a CTA, with all that it does in order."""

    role: str
    operations: tuple[Operation, ...]
    cta: int = 0

    def __str__(self) -> str:
        return f"{self.role}@CTA{self.cta}"


def thread(role: str, operations: Iterable[Operation], cta: int = 0) -> Thread:
    """Run a role's generator to its end. Raises InputError if that is not within MAX_OPERATIONS."""
    taken = tuple(islice(operations, MAX_OPERATIONS + 1))
    if len(taken) > MAX_OPERATIONS:
        raise InputError(f"role={role!r} has more than {MAX_OPERATIONS} operations")
    return Thread(role, taken, cta)


@dataclass(frozen=True)
class Protocol:
    """A kernel's synchronisation for one problem. Raises InputError when a count or size is out of its range."""

    name: str
    threads: tuple[Thread, ...]

    def __post_init__(self) -> None:
        total = sum(len(item.operations) for item in self.threads)
        if total > MAX_OPERATIONS:
            raise InputError(f"operations={total} is outside [0, {MAX_OPERATIONS}]")
        names: dict[tuple[str, int], Barrier] = {}
        for barrier in self.barriers:
            if not 1 <= barrier.count <= MAX_COUNT:
                raise InputError(f"barrier {barrier.name}: count={barrier.count} is outside [1, {MAX_COUNT}]")
            if names.setdefault((barrier.name, barrier.cta), barrier) != barrier:
                raise InputError(f"barrier {barrier.name} of CTA {barrier.cta} is used with two counts or kinds")
        for item in self.threads:
            _check_thread(item)
        if not self.threads:
            raise InputError(f"protocol={self.name!r} has no threads")

    @cached_property
    def barriers(self) -> tuple[Barrier, ...]:
        """All barriers that any thread or engine touches, in order of first use."""
        found: dict[Barrier, None] = {}
        for item in self.threads:
            for operation in item.operations:
                if isinstance(operation, Launch):
                    found.update((signal.barrier, None) for signal in operation.agent.signals)
                elif isinstance(operation, (Wait, Arrive, Expect, AwaitOwn, Init, Inval)):
                    found[operation.barrier] = None
        return tuple(found)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """All slots that any thread or engine touches, in order of first use."""
        found: dict[Slot, None] = {}
        for item in self.threads:
            for operation in item.operations:
                if isinstance(operation, Touch):
                    found[operation.access.slot] = None
                elif isinstance(operation, Launch):
                    found.update((access.slot, None) for access in operation.agent.accesses)
        return tuple(found)


def _check_thread(who: Thread) -> None:
    """Raise InputError for an operation that has no meaning."""
    arrived = set[Barrier]()
    for operation in who.operations:
        match operation:
            case Arrive(barrier, count, tx):
                arrived.add(barrier)
                _require(who, barrier, count, tx)
            case Expect(barrier, tx):
                _require(who, barrier, 1, tx)
            case Launch(agent):
                _check_signals(who, agent)
            case AwaitOwn(barrier):
                if barrier not in arrived:
                    raise InputError(f"{who} waits for its own arrival on {barrier.name} before it has arrived")
                if barrier.kind is BarrierKind.MBARRIER:
                    _require_own_cta(who, barrier)
            case Wait(barrier, phase):
                if phase < -1:
                    raise InputError(f"{who} waits on {barrier.name}: phase={phase} is below -1")
                _require_own_cta(who, barrier)
            case Init(barrier) | Inval(barrier):
                if barrier.kind is not BarrierKind.MBARRIER:
                    raise InputError(f"{who}: {barrier.name} is no mbarrier: it has neither init nor inval")
                _require_own_cta(who, barrier)


def _check_signals(who: Thread, agent: Agent) -> None:
    for signal in agent.signals:
        if isinstance(signal, Arrive):
            _require(who, signal.barrier, signal.count, signal.tx)
            if signal.drop or signal.no_complete:
                raise InputError(f"{who}: {agent.name} arrives on {signal.barrier.name}: no engine has that form")
        else:
            _require(who, signal.barrier, 1, signal.tx)


def _require(who: Thread, barrier: Barrier, count: int, tx: int) -> None:
    if not 1 <= count <= MAX_COUNT:
        raise InputError(f"{who} on {barrier.name}: count={count} is outside [1, {MAX_COUNT}]")
    if not 0 <= tx <= MAX_COUNT:
        raise InputError(f"{who} on {barrier.name}: tx={tx} is outside [0, {MAX_COUNT}]")


def _require_own_cta(who: Thread, barrier: Barrier) -> None:
    if barrier.cta != who.cta:
        raise InputError(
            f"{who} waits on, makes or ends {barrier.name} of CTA {barrier.cta}: that is for barriers of the own CTA "
            "(docs/protocol.md rule 21)"
        )
