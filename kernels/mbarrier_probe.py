"""Ask a GPU from sm_90 on what an mbarrier does: sequences of operations, elect.sync, try_wait, publication of data.

The kernels are in cuda/mbarrier_probe.cu and end by themselves whatever the hardware answers. A sequence that the
hardware refuses fails its launch, and with it the CUDA context: ask such questions in a process of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError

from .build import CUDA_DIR, Output, compile_source
from .launch import Gpu

__all__ = [
    "NO_HINT",
    "REMOTE",
    "TEST_WAIT",
    "WORDS",
    "Acquire",
    "Answer",
    "Election",
    "Operation",
    "Outcome",
    "Place",
    "Publication",
    "Release",
    "Step",
    "WaitTime",
    "decode_answers",
    "elect",
    "encode_programs",
    "publish",
    "run_programs",
    "time_waits",
]

MIN_ARCH = 90


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


def run_programs(programs: Sequence[Sequence[Step]]) -> list[list[Answer]]:
    """Run each program on an object of its own, all in one launch. Raises InputError, or KernelError if it fails."""
    steps = encode_programs(programs)
    answers = np.zeros(steps.shape, _ANSWER)
    gpu, cubin = _prepare()
    gpu.run(
        cubin,
        "tilesched_mbarrier_programs",
        grid=2 * len(programs),
        block=1,
        scalars=[steps.shape[1]],
        inputs=[steps],
        outputs=[answers],
    )
    return decode_answers(programs, answers)


@dataclass(frozen=True, slots=True)
class Election:
    """One elect.sync: the lanes that were elected, and whom each lane of the mask was told to be the leader."""

    mask: int
    elected: tuple[int, ...]
    leaders: tuple[int, ...]


def elect(masks: Sequence[int], *, late: bool = False, outside: bool = False) -> list[tuple[Election, Election]]:
    """Two elections in a row by the lanes of each mask, a warp each.

    `late`: the lower a lane, the later it comes. `outside`: the other lanes execute it too, which is undefined.
    Raises InputError, or KernelError if it fails.
    """
    leaders = np.zeros((len(masks), 2, 32), np.int32)
    elected = np.zeros_like(leaders)
    gpu, cubin = _prepare()
    gpu.run(
        cubin,
        "tilesched_elections",
        grid=len(masks),
        block=32,
        scalars=[int(late), int(outside)],
        inputs=[np.array(masks, np.uint32)],
        outputs=[leaders, elected],
    )

    def election(mask: int, number: int, turn: int) -> Election:
        lanes = [lane for lane in range(32) if mask >> lane & 1]
        return Election(
            mask=mask,
            elected=tuple(lane for lane in lanes if elected[number, turn, lane]),
            leaders=tuple(int(leaders[number, turn, lane]) for lane in lanes),
        )

    return [(election(mask, number, 0), election(mask, number, 1)) for number, mask in enumerate(masks)]


NO_HINT = -1
TEST_WAIT = -2


@dataclass(frozen=True, slots=True)
class WaitTime:
    """Waits one after another for a phase that ends `arrives_ns` after the first began (0: never).

    `hint_ns`: suspendTimeHint; NO_HINT for the form without, TEST_WAIT for test_wait. `answers` and `took_ns` of each
    wait; the first true one is the last.
    """

    hint_ns: int
    arrives_ns: int
    answers: tuple[bool, ...] = ()
    took_ns: tuple[int, ...] = ()


def time_waits(questions: Sequence[WaitTime], *, samples: int) -> list[WaitTime]:
    """Ask each question with up to `samples` waits, or 40 ms. Raises InputError, or KernelError if it fails."""
    took = np.zeros((len(questions), samples), np.int32)
    answers = np.zeros_like(took)
    gpu, cubin = _prepare()
    gpu.run(
        cubin,
        "tilesched_wait_times",
        grid=len(questions),
        block=64,
        scalars=[samples],
        inputs=[np.array([getattr(one, name) for one in questions], np.int32) for name in ("hint_ns", "arrives_ns")],
        outputs=[took, answers],
    )
    asked = answers >= 0
    return [
        replace(
            one,
            answers=tuple(map(bool, answers[number][asked[number]])),
            took_ns=tuple(map(int, took[number][asked[number]])),
        )
        for number, one in enumerate(questions)
    ]


class Place(IntEnum):
    """Where the data lie; numbers as in mbarrier_probe.cu."""

    WAITERS_SHARED = 0
    WRITERS_SHARED = 1
    GLOBAL = 2  # and the waiter has the old words in its L1 cache


class Release(IntEnum):
    """The arrival of the writer, on the other CTA's object."""

    RELAXED_CLUSTER = 0
    RELEASE_CTA = 1
    RELEASE_CLUSTER = 2


class Acquire(IntEnum):
    """The wait of the reader."""

    ACQUIRE_CTA = 0
    ACQUIRE_CLUSTER = 1


@dataclass(frozen=True, slots=True)
class Publication:
    """Ordinary data that one CTA of a cluster hands to another through an mbarrier of the reader."""

    place: Place
    release: Release
    acquire: Acquire


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of all rounds: words read after the wait that were not yet written; words that a cluster barrier did not
    publish; waits that met their deadline."""

    stale: int
    unordered: int
    timeouts: int


WORDS = 32
"""Words that are written in a round, each on a line of 128 bytes where they are global."""


def publish(publications: Sequence[Publication], *, rounds: int) -> list[Outcome]:
    """Hand over WORDS words `rounds` times in each way. Raises InputError, or KernelError if it fails."""
    how = np.array([(one.place, one.release, one.acquire) for one in publications], np.int32)
    outcomes = np.zeros((len(publications), 3), np.int32)
    lines = np.zeros((len(publications), WORDS * 32), np.int32)
    gpu, cubin = _prepare()
    gpu.run(
        cubin,
        "tilesched_publications",
        grid=2 * len(publications),
        block=1,
        scalars=[rounds],
        inputs=[how],
        outputs=[outcomes, lines],
    )
    return [Outcome(*map(int, row)) for row in outcomes]


def _prepare() -> tuple[Gpu, bytes]:
    gpu = Gpu()
    if int(gpu.arch.removeprefix("sm_")) < MIN_ARCH:
        raise InputError(f"arch={gpu.arch} is below sm_{MIN_ARCH}, which the mbarrier probe needs")
    return gpu, _cubin(gpu.arch)


@functools.cache
def _cubin(arch: str) -> bytes:
    return compile_source(CUDA_DIR / "mbarrier_probe.cu", arch, Output.CUBIN)
