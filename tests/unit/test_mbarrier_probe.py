"""The mbarrier probe without a GPU: its codec, its cases, and that its random programs tell wrong models apart."""

from __future__ import annotations

import os
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
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
from tilesched.kernels import mbarrier_probe
from tilesched.kernels.build import CUDA_DIR
from tilesched.kernels.launch import POISON_BYTE
from tilesched.kernels.mbarrier_probe import (
    Acquire,
    Election,
    Outcome,
    Place,
    Publication,
    Release,
    WaitTime,
    elect,
    publish,
    run_programs,
    time_waits,
)
from tilesched.kernels.mbarrier_program import Answer, Operation, Step, decode_answers, encode_programs
from tilesched.simulator.errors import InputError
from tilesched.simulator.protocol.mbarrier import Fault, Mbarrier

CASES = (*EXPECT_ENDS_A_PHASE, *LATE_WAITS, *NEGATIVE_BYTES, *OTHER_RULES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_model_ends_as_many_phases_as_were_counted_by_hand(case: Case) -> None:
    assert model_answers(case.program)[1].phase == case.phase


@pytest.mark.parametrize("refused", BEYOND_THE_RANGE, ids=lambda refused: refused.name)
def test_the_model_refuses_the_last_step_and_no_other(refused: Refused) -> None:
    model_answers(refused.program[:-1])
    with pytest.raises(Fault) as fault:
        model_answers(refused.program)
    assert fault.value.kind is refused.kind


@given(defined_programs())
def test_random_programs_are_defined_and_ask_no_stale_state(program: list[Step]) -> None:
    model_answers(program)
    phases: list[int] = []
    for place, step in enumerate(program):
        if step.operation is Operation.INIT:
            first = place
        phases.append(model_answers(program[:place])[1].phase)
        if step.state is not None:
            asked = program[step.state]
            assert first < step.state <= place
            assert not asked.remote
            assert model_answers(program[: place + 1])[1].phase - phases[step.state] <= 1
        assert step.ask is (step.operation is not Operation.INVAL)


class DropKeepsTheCount(Mbarrier):
    """arrive_drop as arrive."""

    def arrive(self, count: int = 1, *, tx: int = 0, drop: bool = False, no_complete: bool = False) -> Mbarrier:
        return super().arrive(count, tx=tx, no_complete=no_complete)


class ExpectNeverEnds(Mbarrier):
    """Question (a) answered the other way."""

    def expect(self, tx: int) -> Mbarrier:
        return replace(self, tx=self.tx + tx)


class NegativeEnds(Mbarrier):
    """A phase ends when no bytes are outstanding, <= 0 (a tutorial's reading of rule 6)."""

    def _settled(self, expected: int, pending: int, tx: int) -> Mbarrier:
        return super()._settled(expected, pending, max(tx, 0))


class BytesAfterTheArrival(Mbarrier):
    """arrive.expect_tx arrives, then expects."""

    def arrive(self, count: int = 1, *, tx: int = 0, drop: bool = False, no_complete: bool = False) -> Mbarrier:
        return super().arrive(count, drop=drop, no_complete=no_complete).expect(tx)


class PendingOfTheDropped(Mbarrier):
    """The next phase takes all arrivals again."""

    def _settled(self, expected: int, pending: int, tx: int) -> Mbarrier:
        settled = super()._settled(expected, pending, tx)
        return replace(settled, pending=self.size) if settled.phase != self.phase else settled


class StuckParity(Mbarrier):
    """Parity that does not see beyond phase 2."""

    def answer(self, parity: int) -> bool:
        return parity != min(self.phase, 2) & 1


MUTANTS = (DropKeepsTheCount, ExpectNeverEnds, NegativeEnds, BytesAfterTheArrival, PendingOfTheDropped, StuckParity)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_random_programs_tell_a_wrong_model_apart(mutant: type[Mbarrier]) -> None:
    def init(count: int) -> Mbarrier:
        return mutant(expected=count, pending=count, size=count)

    def differs(program: list[Step]) -> bool:
        try:
            return model_answers(program, init=init)[0] != model_answers(program)[0]
        except Fault:
            return True

    quick = settings(
        max_examples=2000, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True
    )
    find(defined_programs(), differs, settings=quick)


def test_the_codec() -> None:
    programs = [
        [Step(Operation.INIT, 3), Step(Operation.ARRIVE_NO_COMPLETE, 2, state=1), Step(Operation.INVAL, ask=False)],
        [Step(Operation.INIT, 1), Step(Operation.COMPLETE, 16, remote=True)],
    ]
    assert encode_programs(programs).tolist() == [
        [(1, 3, -1, 2), (4, 2, 1, 2), (2, 0, -1, 0)],
        [(1, 1, -1, 2), (10, 16, -1, 3), (0, 0, 0, 0)],
    ]
    wrote = np.zeros((2, 3), [("state", "<u8"), ("answers", "<i4"), ("pending", "<i4")])
    wrote[0] = [(0, 0b001010, -1), (77, 0b100110, 3), (0, -1, -1)]
    wrote[1] = [(0, 0b001010, -1), (0, 0b000011, -1), (0, -1, -1)]
    read = decode_answers(programs, wrote)
    assert read == [
        [
            Answer((False, False), (True, True)),
            Answer((False, True), (True, False), (False, True), pending=3),
            Answer(),
        ],
        [Answer((False, False), (True, True)), Answer((True, False), (True, False))],
    ]
    assert read[0][1].state == 77


def test_operations_that_another_cta_cannot_do_are_refused() -> None:
    with pytest.raises(InputError, match="operation=INIT cannot be remote"):
        encode_programs([[Step(Operation.INIT, 1, remote=True)]])


@pytest.mark.parametrize("numbers", [Operation, Place, Release, Acquire])
def test_numbers_are_those_of_the_kernels(numbers: type[Operation | Place | Release | Acquire]) -> None:
    body = re.search(
        rf"enum {numbers.__name__} : int {{(.*?)}}", (CUDA_DIR / "mbarrier_probe.cu").read_text(), re.DOTALL
    )
    assert body is not None
    found = {name: int(value) for name, value in re.findall(r"k(\w+) = (\d+)", body[1])}
    assert found == {one.name.title().replace("_", ""): one.value for one in numbers}


Arrays = list[np.ndarray]


class FakeGpu:
    """Runs the kernels' inputs on the model and writes outputs as the kernels do."""

    arch = "sm_90"

    def run(
        self,
        cubin: bytes,
        kernel: str,
        *,
        grid: int,
        block: int,
        scalars: list[int],
        inputs: Arrays,
        outputs: Arrays,
    ) -> None:
        for array in outputs:
            array.view(np.uint8)[...] = POISON_BYTE
        getattr(self, kernel.removeprefix("tilesched_"))(grid, block, scalars, inputs, outputs)

    def mbarrier_programs(self, grid: int, block: int, scalars: list[int], inputs: Arrays, outputs: Arrays) -> None:
        (steps,), (answers,) = inputs, outputs
        assert (grid, block, *scalars) == (2 * len(steps), 1, steps.shape[1])
        for row, wrote in zip(steps, answers, strict=True):
            program = [
                Step(Operation(op), operand, None if state < 0 else state, bool(flags & 1), bool(flags & 2))
                for op, operand, state, flags in row.tolist()
            ]
            for place, answer in enumerate(model_answers(program)[0]):
                asked = [(answer.parity_0, (0, 2)), (answer.parity_1, (1, 3)), (answer.by_state, (4, 5))]
                bits = [said << bit for pair, where in asked if pair for said, bit in zip(pair, where, strict=True)]
                wrote[place] = (place, sum(bits) if bits else -1, -1 if answer.pending is None else answer.pending)

    def elections(self, grid: int, block: int, scalars: list[int], inputs: Arrays, outputs: Arrays) -> None:
        (masks,), (leaders, elected) = inputs, outputs
        assert (grid, block, *scalars) == (len(masks), 32, 1, 0)
        for number, mask in enumerate(masks.tolist()):
            for lane in (lane for lane in range(32) if mask >> lane & 1):
                highest = mask.bit_length() - 1
                leaders[number, :, lane] = highest
                elected[number, :, lane] = lane == highest

    def wait_times(self, grid: int, block: int, scalars: list[int], inputs: Arrays, outputs: Arrays) -> None:
        (hints, arrives, arrivals), (took, answers) = inputs, outputs
        assert arrivals.tolist() == [1, 2]
        assert (grid, block, *scalars) == (len(hints), 64, took.shape[1])
        took[...] = answers[...] = -1
        took[:, :2] = np.stack([hints, arrives], 1)
        answers[:, 0] = 0
        answers[arrives > 0, 1] = 1

    def publications(self, grid: int, block: int, scalars: list[int], inputs: Arrays, outputs: Arrays) -> None:
        (how,), (outcomes, _) = inputs, outputs
        assert (grid, block, *scalars) == (2 * len(how), 1, 7)
        outcomes[...] = how


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mbarrier_probe, "_prepare", lambda: (FakeGpu(), b""))


@given(programs=st.lists(defined_programs(), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_programs_go_to_the_gpu_and_answers_come_back(fake_gpu: None, programs: list[list[Step]]) -> None:
    assert run_programs(programs) == [model_answers(program)[0] for program in programs]


def test_elections_come_back(fake_gpu: None) -> None:
    (one, same), (other, _) = elect([0b1010, 0x80000000], late=True)
    assert one == same == Election(0b1010, elected=(3,), leaders=(3, 3))
    assert other == Election(0x80000000, elected=(31,), leaders=(31,))


def test_wait_times_come_back(fake_gpu: None) -> None:
    assert time_waits([WaitTime(-1, 0), WaitTime(5, 9, arrivals=2)], samples=3) == [
        WaitTime(-1, 0, answers=(False,), took_ns=(-1,)),
        WaitTime(5, 9, 2, answers=(False, True), took_ns=(5, 9)),
    ]


def test_publications_come_back(fake_gpu: None) -> None:
    ways = [Publication(Place.GLOBAL, Release.RELEASE_CTA, Acquire.ACQUIRE_CTA)]
    assert publish(ways, rounds=7) == [Outcome(stale=2, unordered=1, timeouts=0)]


FAIL = """
from tilesched.simulator.errors import KernelError
from tilesched.simulator.findings import Finding
raise KernelError(Finding(kind="kernel-failed", message="it failed", facts={}))
"""


def test_a_launch_that_fails_costs_a_process_and_nothing_else() -> None:
    gpu = IsolatedGpu()
    first = gpu.call(os.getpid)
    assert gpu.call(os.getpid) == first != os.getpid()
    assert gpu.call(exec, FAIL) == LaunchFailed("it failed")
    second = gpu.call(os.getpid)
    assert second != first
    assert gpu.call(os._exit, 1) == LaunchFailed("the process died")
    assert gpu.call(os.getpid) != second
    gpu.close()
