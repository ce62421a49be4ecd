"""A stated cause is true: a naive kernel with that fault gives the trace, record by record."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from hypothesis import event, given
from hypothesis import strategies as st

from tilesched.simulator.problem import Problem
from tilesched.simulator.trace import Trace, TraceHeader
from tilesched.verify.conformance import check_trace


@dataclass(frozen=True)
class Kernel:
    """A persistent kernel over rows x columns tiles, panels of columns; fields after `workers` are faults."""

    rows: int
    columns: int
    width: int
    workers: int
    stride: int = 0  # 0: as many as workers
    shift: int = 0
    full_tail: bool = False
    swapped: bool = False

    def decode(self, linear: int) -> tuple[int, int]:
        panel = linear // (self.rows * self.width)
        width = self.width if self.full_tail else max(1, min(self.width, self.columns - panel * self.width))
        offset = linear - panel * self.rows * self.width
        m, n = offset // width, panel * self.width + offset % width
        return (n, m) if self.swapped else (m, n)

    def records(self) -> list[tuple[int, ...]]:
        """(cta, m, n, linear, wave), worker by worker."""
        found = []
        for worker in range(self.workers):
            ids = range(worker + self.shift, self.rows * self.columns, self.stride or self.workers)
            found += [(worker, *self.decode(linear), linear, wave) for wave, linear in enumerate(ids)]
        return found


def trace(kernel: Kernel, records: list[tuple[int, ...]]) -> Trace:
    problem = Problem(
        m=kernel.rows, n=kernel.columns, k=1, block_m=1, block_n=1, block_k=1, sm_count=kernel.workers
    )  # fmt: skip
    header = TraceHeader(
        kernel="naive", source="test", roles=("tma", "mma"), ctas=kernel.workers, problem=problem,
        scheduler="tilelang.persistent", params={"panel_width": kernel.width},
    )  # fmt: skip
    rows = [(cta, role, *rest) for role in (0, 1) for cta, *rest in records]
    table = np.array(rows, np.int64).reshape(len(rows), 6)
    return Trace(header, {name: table[:, at] for at, name in enumerate(("cta", "role", "m", "n", "linear", "wave"))})


def stated(report: Trace) -> str:
    return next((str(f.facts["cause"]) for f in check_trace(report).findings if f.kind == "divergence"), "")


def kernel_of(cause: str, right: Kernel) -> Kernel | None:
    """The faulty kernel that a cause describes; None for what is only an observation."""
    if found := re.fullmatch(r"wrong stride: ids advance by (\d+), the model's by \d+", cause):
        return Kernel(right.rows, right.columns, right.width, right.workers, stride=int(found[1]))
    if found := re.fullmatch(r"off by \d+: worker w starts at id w ([+-]) (\d+)", cause):
        return Kernel(right.rows, right.columns, right.width, right.workers, shift=int(found[1] + found[2]))
    if cause.startswith("wrong panel tail"):
        return Kernel(right.rows, right.columns, right.width, right.workers, full_tail=True)
    if cause == "m and n are swapped":
        return Kernel(right.rows, right.columns, right.width, right.workers, swapped=True)
    assert cause == "" or cause.startswith(("the tiles agree, but", "ids agree, tiles differ only in the last panel"))
    return None


right_kernels = st.builds(Kernel, st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.integers(1, 5))


@st.composite
def faulty(draw: st.DrawFn) -> tuple[Kernel, Kernel]:
    right = draw(right_kernels)
    fault = draw(st.sampled_from(["stride", "shift", "tail", "swapped", "stride and shift"]))
    return right, Kernel(
        right.rows, right.columns, right.width, right.workers,
        stride=draw(st.integers(1, 7)) if "stride" in fault else 0,
        shift=draw(st.integers(0, 3)) if "shift" in fault else 0,
        full_tail=fault == "tail",
        swapped=fault == "swapped",
    )  # fmt: skip


@given(faulty())
def test_the_kernel_that_a_cause_describes_gives_the_trace(pair: tuple[Kernel, Kernel]) -> None:
    right, wrong = pair
    records = wrong.records()
    if records == right.records():
        assert stated(trace(right, records)) == ""
        return
    causes = stated(trace(right, records)).split(", or ")
    described = [kernel_of(cause, right) for cause in causes]
    event(f"causes: {sum(kernel is not None for kernel in described)}")
    for kernel in described:
        assert kernel is None or kernel.records() == records
    single = sum([wrong.stride not in (0, right.workers), wrong.shift > 0, wrong.full_tail, wrong.swapped]) == 1
    starts = any(first[0] == second[0] for first, second in zip(right.records(), records, strict=False))
    if single and records and (starts or not wrong.shift) and len(records) > right.workers:
        assert any(kernel is not None for kernel in described), causes


@given(right_kernels, st.data())
def test_no_cause_is_made_up_for_a_record_that_is_wrong(right: Kernel, data: st.DataObject) -> None:
    records = right.records()
    place = data.draw(st.integers(0, len(records) - 1))
    column = data.draw(st.integers(1, 4))
    row = [*records[place]]
    row[column] += data.draw(st.integers(1, 3))
    records[place] = tuple(row)
    for cause in stated(trace(right, records)).split(", or "):
        kernel = kernel_of(cause, right)
        assert kernel is None or kernel.records() == records
