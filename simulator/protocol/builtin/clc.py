"""A CLC scheduler warp and its slots in a 2-CTA cluster (tilelang gemm_tcgen5mma_ws_clc, schedulers.md 1.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ops import (
    Access,
    Agent,
    Arrive,
    AwaitOwn,
    Barrier,
    BarrierKind,
    Complete,
    Launch,
    Mode,
    Operation,
    Slot,
    Touch,
    Wait,
)
from ..program import Protocol, thread
from .work import MAX_BUFFERS, MAX_WARPS, require

__all__ = ["ClcParams", "clc_scheduler"]

_ANSWER_BYTES = 16  # rule 51
_CTAS = (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClcParams:
    """Raises InputError when a value is outside its bound.

    Which answers come depends on timing (rule 53), what the roles do only on how many grants come before the first
    decline: one protocol for each number of grants stands for all outcomes.
    """

    grants: int = 2  # answers with work, before the decline
    slots: int = 1
    epilogue_warps: int = 4  # in each CTA
    scheduler_arrives: bool = True  # the base form, count 13; the pipelined one has 11
    finished_count: int | None = None  # None: as many as arrive
    reads_first: bool = True  # consumers read the slot before they say that they are finished with it

    def __post_init__(self) -> None:
        require(0, grants=self.grants)
        require(1, MAX_BUFFERS, slots=self.slots)
        require(1, MAX_WARPS, epilogue_warps=self.epilogue_warps)
        if self.finished_count is not None:
            require(1, finished_count=self.finished_count)

    @property
    def arrivals(self) -> int:
        """Arrivals on `finished` for each answer: TMA of both CTAs, MMA, the epilogue warps, the scheduler warps."""
        return 2 + 1 + 2 * self.epilogue_warps + 2 * self.scheduler_arrives


def clc_scheduler(params: ClcParams) -> Protocol:
    """Scheduler warps decode each answer for their CTA's roles; CTA 0 asks again when all are finished with a slot."""
    cluster = _Cluster(params)
    roles = [(f"scheduler{cta}", cta, cluster.schedule(cta)) for cta in _CTAS]
    consumers = [("tma", 0), ("tma", 1), ("mma", 0)]
    consumers += [(f"epilogue{warp}", cta) for cta in _CTAS for warp in range(params.epilogue_warps)]
    roles += [(role, cta, cluster.consume(cta)) for role, cta in consumers]
    return Protocol(
        "clc-scheduler",
        tuple(thread(role, cluster.until_all_are_done(body), cta) for role, cta, body in roles),
    )


class _Cluster:
    def __init__(self, params: ClcParams) -> None:
        self.params = params
        slots = range(params.slots)
        count = params.finished_count or params.arrivals
        self.arrived = [[Barrier(f"arrived[{slot}]", 1, cta) for slot in slots] for cta in _CTAS]
        self.published = [[Barrier(f"published[{slot}]", 1, cta) for slot in slots] for cta in _CTAS]
        self.finished = [Barrier(f"finished[{slot}]", count) for slot in slots]
        self.answer = [[Slot(f"answer[{slot}]", cta) for slot in slots] for cta in _CTAS]
        self.tile = [[Slot(f"tile[{slot}]", cta) for slot in slots] for cta in _CTAS]
        self.end = Barrier("cluster", 2 + 3 + 2 * params.epilogue_warps, 0, BarrierKind.HARDWARE)

    def turns(self) -> Iterator[tuple[int, int]]:
        """Slot and phase of every answer: the grants, and the decline after which nobody may ask (rule 52)."""
        for number in range(self.params.grants + 1):
            yield number % self.params.slots, number // self.params.slots

    def schedule(self, cta: int) -> Iterator[Operation]:
        for slot, phase in self.turns():
            yield Arrive(self.arrived[cta][slot], tx=_ANSWER_BYTES)  # every CTA arms its own (rule 51)
            if cta == 0:
                yield Wait(self.finished[slot], phase - 1, (phase & 1) ^ 1)
                writes = tuple(Access(self.answer[to][slot], Mode.WRITE, phase) for to in _CTAS)
                signals = tuple(Complete(self.arrived[to][slot], _ANSWER_BYTES) for to in _CTAS)
                yield Launch(Agent("try_cancel", writes, signals))
            yield Wait(self.arrived[cta][slot], phase, phase & 1)
            yield Touch(Access(self.answer[cta][slot], Mode.READ, phase))
            yield Touch(Access(self.tile[cta][slot], Mode.WRITE, phase))
            yield Arrive(self.published[cta][slot])
            if self.params.scheduler_arrives:
                yield Arrive(self.finished[slot])

    def consume(self, cta: int) -> Iterator[Operation]:
        for slot, phase in self.turns():
            yield Wait(self.published[cta][slot], phase, phase & 1)
            steps: list[Operation] = [
                Touch(Access(self.tile[cta][slot], Mode.READ, phase)),
                Arrive(self.finished[slot]),
            ]
            yield from steps if self.params.reads_first else reversed(steps)

    def until_all_are_done(self, body: Iterator[Operation]) -> Iterator[Operation]:
        """A role, then the cluster barrier: arrivals from CTA 1 must find CTA 0 alive."""
        yield from body
        yield from (Arrive(self.end), AwaitOwn(self.end))
