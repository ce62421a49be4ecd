"""Ask a GPU from sm_90 on what an mbarrier does: sequences of operations, elect.sync, try_wait, publication of data.

The kernels are in cuda/mbarrier_probe.cu and end by themselves whatever the hardware answers. A sequence that the
hardware refuses fails its launch, and with it the CUDA context: ask such questions in a process of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from tilesched.simulator.errors import InputError

from .build import CUDA_DIR, Output, compile_source
from .launch import Gpu
from .mbarrier_program import Answer, Step, decode_answers, empty_answers, encode_programs

__all__ = [
    "NO_HINT",
    "TEST_WAIT",
    "WORDS",
    "Acquire",
    "Election",
    "Outcome",
    "Place",
    "Publication",
    "Release",
    "WaitTime",
    "elect",
    "publish",
    "run_programs",
    "time_waits",
]

MIN_ARCH = 90


def run_programs(programs: Sequence[Sequence[Step]]) -> list[list[Answer]]:
    """Run each program on an object of its own, all in one launch. Raises InputError, or KernelError if it fails."""
    steps = encode_programs(programs)
    answers = empty_answers(steps)
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
    """Waits one after another for phase 0, which ends `arrives_ns` after the first wait began (0: never).

    `arrivals`: how many come then, one behind the other, each of which ends a phase. `hint_ns`: suspendTimeHint;
    NO_HINT for the form without, TEST_WAIT for test_wait. `answers` and `took_ns` of each wait; the first true one is
    the last.
    """

    hint_ns: int
    arrives_ns: int
    arrivals: int = 1
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
        inputs=[
            np.array([getattr(one, name) for one in questions], np.int32)
            for name in ("hint_ns", "arrives_ns", "arrivals")
        ],
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
