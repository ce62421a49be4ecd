"""What an mbarrier does on a GPU from sm_90 on, and that the model does the same.

Answers the questions (a) to (g) that the PTX ISA leaves open, one test each. "Documented" is what PTX ISA 9.1
promises; "observed" is what an H200 did, which the model follows and which another GPU need not do.
With MBARRIER_OBSERVATIONS=FILE every raw answer is written there as JSON, also
of tests that fail.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isolated_gpu import IsolatedGpu, LaunchFailed
from mbarrier_cases import (
    BEYOND_THE_RANGE,
    EXPECT_ENDS_A_PHASE,
    LATE_WAITS,
    NEGATIVE_BYTES,
    OTHER_RULES,
    Case,
    Refused,
)
from mbarrier_twin import defined_programs, model_answers
from tilesched.kernels.build import nvrtc_version
from tilesched.kernels.launch import Gpu
from tilesched.kernels.mbarrier_probe import (
    NO_HINT,
    TEST_WAIT,
    WORDS,
    Acquire,
    Place,
    Publication,
    Release,
    WaitTime,
    elect,
    publish,
    run_programs,
    time_waits,
)
from tilesched.kernels.mbarrier_program import Answer, Step
from tilesched.simulator.protocol.mbarrier import Fault

pytestmark = pytest.mark.gpu

Record = Callable[[str, Any], None]


@pytest.fixture(scope="session")
def gpu() -> Iterator[IsolatedGpu]:
    isolated = IsolatedGpu()
    yield isolated
    isolated.close()


@pytest.fixture(scope="session")
def record() -> Record:
    """Keeps a raw observation under a name; the file is whole after each."""
    path = os.environ.get("MBARRIER_OBSERVATIONS")
    if path is None:
        return lambda name, observed: None
    observations: dict[str, Any] = {"device": Gpu().describe(), "nvrtc": nvrtc_version()}

    def keep(name: str, observed: Any) -> None:
        observations[name] = observed
        lines = (f"{json.dumps(key)}: {json.dumps(value, default=_plain)}" for key, value in observations.items())
        Path(path).write_text("{\n" + ",\n".join(lines) + "\n}\n")

    return keep


def _plain(value: Any) -> Any:
    if isinstance(value, Step):
        return f"{value.operation.name} {value.operand}" + " remote" * value.remote
    if isinstance(value, Answer):  # of each pair of digits the first is test_wait's
        pairs = (value.parity_0, value.parity_1, value.by_state)
        waits = " ".join("--" if pair is None else "".join(str(int(said)) for said in pair) for pair in pairs)
        return f"{waits} pending={value.pending} state={value.state:#x}"
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def named(case: Case | Refused) -> str:
    return case.name


def check_case(gpu: IsolatedGpu, record: Record, question: str, case: Case) -> None:
    answers = gpu.call(run_programs, [case.program])
    expected, barrier = model_answers(case.program)
    record(f"{question}: {case.name}", {"program": case.program, "observed": answers, "model": expected})
    assert barrier.phase == case.phase
    assert answers == [expected]


@pytest.mark.parametrize("case", EXPECT_ENDS_A_PHASE, ids=named)
def test_a_expect_tx_that_brings_the_bytes_to_zero(case: Case, gpu: IsolatedGpu, record: Record) -> None:
    """Observed: with none pending it ends the phase, like complete_tx. Documented: with an arrival pending it does
    not, nor when it jumps over zero."""
    check_case(gpu, record, "a", case)


@pytest.mark.parametrize("case", LATE_WAITS, ids=named)
def test_b_waits_that_ask_two_phases_late(case: Case, gpu: IsolatedGpu, record: Record) -> None:
    """Documented: the answers for the open phase (false) and the one before (true). Observed: older ones are answered
    by one bit, for parities and states alike: as the open phase is, or the one before."""
    check_case(gpu, record, "b", case)


def test_b_a_waiter_that_is_lapped_while_it_waits(gpu: IsolatedGpu, record: Record) -> None:
    """Nothing is documented: a wait for phase 0, in progress while several phases end one behind the other. Observed:
    if three end, parity lets it pass, though for another phase; if two end, it passes only if it looked between."""
    repeats = 32
    questions = [WaitTime(NO_HINT, 20_000, arrivals=laps) for laps in (2, 3) for _ in range(repeats)]
    waited = gpu.call(time_waits, questions, samples=1000)
    assert not isinstance(waited, LaunchFailed)
    ended = [one.answers[-1] for one in waited]
    record("b: lapped while waiting", {"repeats": repeats, "2 laps": sum(ended[:repeats]), "3": sum(ended[repeats:])})
    assert all(ended[repeats:])


@pytest.mark.parametrize("refused", BEYOND_THE_RANGE, ids=named)
def test_c_beyond_the_range(refused: Refused, gpu: IsolatedGpu, record: Record) -> None:
    """Documented: undefined. Observed: the launch fails for more arrivals than are pending, and for bytes below the
    range; bytes above it go on, with the phase open. The model calls all of them faults."""
    result = gpu.call(run_programs, [refused.program])
    record(f"c: {refused.name}", {"program": refused.program, "observed": result})
    with pytest.raises(Fault) as fault:
        model_answers(refused.program)
    assert fault.value.kind is refused.kind
    assert isinstance(result, LaunchFailed) == refused.fails


@pytest.mark.parametrize("case", NEGATIVE_BYTES, ids=named)
def test_d_bytes_that_land_before_they_are_announced(case: Case, gpu: IsolatedGpu, record: Record) -> None:
    """Documented: a phase ends when both counts are zero, so not while the bytes are below."""
    check_case(gpu, record, "d", case)


@pytest.mark.parametrize("late", [False, True])
def test_e_elect_sync_takes_the_lowest_lane(late: bool, gpu: IsolatedGpu, record: Record) -> None:
    """Documented: one lane of the mask, the same for the same mask. Observed: the lowest, also if it comes last."""
    masks = [2**32 - 1, *(1 << lane for lane in range(32)), *(2**32 - 2**lane for lane in range(1, 32))]
    masks += [
        0x80000001,
        0x0000FFFF,
        0xFFFF0000,
        0xAAAAAAAA,
        0x55555555,
        *(0x9E3779B9 * n % 2**32 for n in range(1, 65)),
    ]
    elections = gpu.call(elect, masks, late=late)
    record(f"e: late={late}", elections)
    assert not isinstance(elections, LaunchFailed)
    for first, second in elections:
        assert len(first.elected) == 1
        assert set(first.leaders) == set(first.elected)
        assert second == first
        assert first.elected[0] == (first.mask & -first.mask).bit_length() - 1


def test_e_elect_sync_by_a_lane_outside_its_mask(gpu: IsolatedGpu, record: Record) -> None:
    """Documented: undefined. Observed, the whole warp executing it: a lane of the mask is elected; with other code the
    launch failed (illegal instruction). Nothing may rest on either."""
    result = gpu.call(elect, [0x0000FFFF], outside=True)
    record("e: outside", result)
    if not isinstance(result, LaunchFailed):
        assert all(election.elected == (0,) for election in result[0])


def test_f_a_wait_ends_without_an_answer(gpu: IsolatedGpu, record: Record) -> None:
    """Documented: try_wait returns false after a time limit of the system, or the hint, if the phase is still open,
    and true once it has ended. The times are recorded, not asserted."""
    hints = [TEST_WAIT, NO_HINT, 0, 1_000, 10_000, 100_000, 1_000_000, 5_000_000]
    never = [WaitTime(hint, 0) for hint in hints]
    ending = [WaitTime(hint, after) for hint in hints[1:] for after in (2_000, 50_000, 1_000_000)]
    waited = gpu.call(time_waits, never + ending, samples=100_000)
    assert not isinstance(waited, LaunchFailed)
    summary = {
        f"hint_ns={one.hint_ns} arrives_ns={one.arrives_ns}": {
            "waits": len(one.answers),
            "ended": one.answers[-1],
            "first_ns": one.took_ns[:8],
            "median_ns": statistics.median(one.took_ns),
            "longest_ns": max(one.took_ns),
            "last_ns": one.took_ns[-1],
        }
        for one in waited
    }
    record("f", summary)
    for one in waited[: len(never)]:
        assert not any(one.answers)
    for one in waited[len(never) :]:
        assert one.answers[-1]


CLUSTER_SCOPE = (Release.RELEASE_CLUSTER, Acquire.ACQUIRE_CLUSTER)


def test_g_what_a_waiter_sees_of_another_ctas_data(gpu: IsolatedGpu, record: Record) -> None:
    """Documented: with .cluster on both sides, all of it; with .cta, or relaxed, nothing is promised. Observed: data in
    shared memory are seldom stale, data in global memory are in four to nine of ten words where the waiter, which has
    the old ones in its L1 cache, acquires with .cta, whatever the release."""
    ways = [Publication(*way) for way in product(Place, Release, Acquire)]
    copies, rounds = 6, 300
    outcomes = gpu.call(publish, ways * copies, rounds=rounds)
    assert not isinstance(outcomes, LaunchFailed)
    stale = {way: sum(one.stale for one in outcomes[number :: len(ways)]) for number, way in enumerate(ways)}
    words = copies * rounds * WORDS
    record("g", {"words": words, "stale": {" ".join(map(_name, _parts(way))): n for way, n in stale.items()}})
    assert all(one.timeouts == one.unordered == 0 for one in outcomes)
    for way, count in stale.items():
        if (way.release, way.acquire) == CLUSTER_SCOPE:
            assert count == 0
        elif way.place is not Place.GLOBAL:
            assert 2 * count < words, way


def _parts(way: Publication) -> tuple[Place, Release, Acquire]:
    return way.place, way.release, way.acquire


def _name(part: Place | Release | Acquire) -> str:
    return part.name.lower()


@pytest.mark.parametrize("case", OTHER_RULES, ids=named)
def test_documented_rules(case: Case, gpu: IsolatedGpu, record: Record) -> None:
    """Documented, all of it."""
    check_case(gpu, record, "rule", case)


@settings(max_examples=300)
@given(programs=st.lists(defined_programs(), min_size=1, max_size=8))
def test_the_model_does_what_the_gpu_does(programs: list[list[Step]], gpu: IsolatedGpu, record: Record) -> None:
    """Documented, but for expect_tx that ends a phase (a): after each step of a random program the waits by parity 0
    and 1 and by a state that is not stale, and pending_count, say what the model says."""
    answers = gpu.call(run_programs, programs)
    expected = [model_answers(program)[0] for program in programs]
    if answers != expected:
        record("sequences: smallest difference", {"programs": programs, "observed": answers, "model": expected})
    assert answers == expected
