"""Sequences of mbarrier operations, and the answers to them, as the mbarrier probe's kernel reads and writes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError

__all__ = ["REMOTE", "Answer", "Operation", "Step", "decode_answers", "empty_answers", "encode_programs"]


class Operation(IntEnum):
    """What is done to the object; numbers as in mbarrier_probe.cu. The operand is arrivals, or bytes."""

    NOTHING = 0
    INIT = 1
    INVAL = 2
    ARRIVE = 3
    ARRIVE_NO_COMPLETE = 4
    ARRIVE_EXPECT = 5
    DROP = 6
    DROP_NO_COMPLETE = 7
    DROP_EXPECT = 8
    EXPECT = 9
    COMPLETE = 10
    COPY = 11  # a bulk copy of that many bytes, 16 to 1024, with time for it to land


REMOTE = frozenset(
    {
        Operation.ARRIVE,
        Operation.ARRIVE_EXPECT,
        Operation.DROP,
        Operation.DROP_EXPECT,
        Operation.EXPECT,
        Operation.COMPLETE,
        Operation.COPY,
    }
)
"""Operations that another CTA of the cluster can do to the object (rule 21)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One operation, and whether the waits are asked after it.

    `state`: the earlier step (or this one) whose returned state the waits by state ask about. `remote`: the other CTA
    of the cluster does it.
    """

    operation: Operation
    operand: int = 0
    state: int | None = None
    remote: bool = False
    ask: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """What a step gave. Of each pair of answers the first is test_wait's, the second try_wait's.

    `pending`: pending_count of what a .noComplete arrival returned. `state`, what any arrival of the own CTA returned,
    is opaque, and no part of what is compared.
    """

    parity_0: tuple[bool, bool] | None = None
    parity_1: tuple[bool, bool] | None = None
    by_state: tuple[bool, bool] | None = None
    pending: int | None = None
    state: int = field(default=0, compare=False)


_STEP = np.dtype([("operation", "<i4"), ("operand", "<i4"), ("state", "<i4"), ("flags", "<i4")])
_ANSWER = np.dtype([("state", "<u8"), ("answers", "<i4"), ("pending", "<i4")])
_REMOTE_FLAG, _ASK_FLAG = 1, 2


def encode_programs(programs: Sequence[Sequence[Step]]) -> npt.NDArray[np.void]:
    """Steps as the kernel reads them, [programs][longest]; the shorter are filled up with nothing."""
    steps = np.zeros((len(programs), max(map(len, programs))), _STEP)
    for row, program in zip(steps, programs, strict=True):
        for place, step in enumerate(program):
            if step.remote and step.operation not in REMOTE:
                raise InputError(f"operation={step.operation.name} cannot be remote")
            flags = _REMOTE_FLAG * step.remote | _ASK_FLAG * step.ask
            row[place] = (step.operation, step.operand, -1 if step.state is None else step.state, flags)
    return steps


def empty_answers(steps: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Room for what the kernel answers to these steps."""
    return np.zeros(steps.shape, _ANSWER)


def decode_answers(programs: Sequence[Sequence[Step]], answers: npt.NDArray[np.void]) -> list[list[Answer]]:
    """What the kernel wrote, [programs][longest], step by step."""
    return [
        [_answer(step, row) for step, row in zip(program, rows, strict=False)]
        for program, rows in zip(programs, answers, strict=True)
    ]


def _answer(step: Step, row: np.void) -> Answer:
    bits = int(row["answers"])

    def pair(test: int, attempt: int) -> tuple[bool, bool]:
        return bool(bits >> test & 1), bool(bits >> attempt & 1)

    return Answer(
        parity_0=pair(0, 2) if step.ask else None,
        parity_1=pair(1, 3) if step.ask else None,
        by_state=pair(4, 5) if step.ask and step.state is not None else None,
        pending=int(row["pending"]) if row["pending"] >= 0 else None,
        state=int(row["state"]),
    )
