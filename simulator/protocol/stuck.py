"""What threads that cannot go on are waiting for, in words and as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..findings import Facts
from .mbarrier import Mbarrier
from .ops import Arrive, AwaitOwn, Barrier, Complete, Launch, Wait
from .program import Thread

__all__ = ["Stuck", "stuck_threads"]


@dataclass(frozen=True, slots=True)
class Stuck:
    """A thread that waits for ever: one sentence, and the same as data."""

    text: str
    facts: Facts


def stuck_threads(
    threads: Sequence[Thread],
    at: Sequence[int],
    barriers: Mapping[Barrier, Mbarrier],
    own: Callable[[int, Barrier], int],
) -> list[Stuck]:
    """The threads that have not ended, standing at `at`; all engines' work has ended, so that they stand at waits.

    `own`: the phase in which a thread last arrived on a barrier.
    """
    found = []
    left = [thread for thread, who in enumerate(threads) if at[thread] < len(who.operations)]
    for thread in left:
        operation = threads[thread].operations[at[thread]]
        assert isinstance(operation, (Wait, AwaitOwn))
        barrier, value = operation.barrier, barriers[operation.barrier]
        meant = operation.phase if isinstance(operation, Wait) else own(thread, barrier)
        parity = operation.parity if isinstance(operation, Wait) else meant & 1
        could = [str(threads[other]) for other in left if _signals(threads[other], at[other], barrier)]
        text = (
            f"{threads[thread]} waits on {barrier.name} for phase {meant} (parity {parity}), which is at phase "
            f"{value.phase} with {value.pending} of {value.size} arrivals and {value.tx} bytes pending; "
            + (f"still to arrive: {', '.join(could)}" if could else "nobody is left to arrive")
        )
        facts = {
            "role": str(threads[thread]),
            "operation": at[thread],
            "barrier": barrier.name,
            "meant": meant,
            "parity": parity,
            "phase": value.phase,
            "pending": value.pending,
            "tx": value.tx,
            "could_arrive": could,
        }
        found.append(Stuck(text, facts))
    return found


def _signals(who: Thread, at: int, barrier: Barrier) -> bool:
    """Whether a thread would still arrive on the barrier, or have something delivered to it, if it went on."""
    for operation in who.operations[at:]:
        signals = operation.agent.signals if isinstance(operation, Launch) else (operation,)
        if any(isinstance(one, (Arrive, Complete)) and one.barrier == barrier for one in signals):
            return True
    return False
