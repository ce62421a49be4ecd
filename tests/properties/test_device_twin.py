"""The device scheduler, compiled for the CPU from the same header, equals the model; its mutants do not."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe_faults import FAULTS, Fault, mutated_sources
from tilesched.kernels.build import CUDA_DIR
from tilesched.simulator.findings import Verdict
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedulers import Options, get
from tilesched.simulator.trace import Trace, TraceHeader
from tilesched.verify.conformance import TraceKind, check_trace

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ to compile the header for the CPU")

DRIVER = """
#include "tile_scheduler.cuh"
extern "C" int drive(int clusters_m, int tiles_n, int num_workers, int width, int order, int worker, int room,
                     int* out) {
  tilesched::PersistentTileScheduler sched(clusters_m, tiles_n, num_workers, width,
                                           static_cast<tilesched::RasterOrder>(order));
  int count = 0;
  for (sched.init(worker); sched.valid() && count < room; sched.next_tile(), ++count) {
    int* row = out + 4 * count;
    row[0] = sched.linear_idx(), row[1] = sched.current_iter(), row[2] = sched.m_idx(), row[3] = sched.n_idx();
  }
  return count;
}
"""
ORDERS = {RasterOrder.PANEL_N: 0, RasterOrder.PANEL_M: 1}
Drive = Callable[[Problem, Options], Trace]


def build(sources: Path, folder: Path) -> Drive:
    """A function that records what the header in `sources` does on the CPU."""
    (folder / "driver.cpp").write_text(DRIVER)
    library = folder / "driver.so"
    flags = ["-std=c++17", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{sources}"]
    subprocess.run(["g++", *flags, str(folder / "driver.cpp"), "-o", str(library)], check=True)
    drive = ctypes.CDLL(str(library)).drive

    def record(problem: Problem, options: Options) -> Trace:
        schedule = get("tilelang.persistent").build(problem, options)
        params = {name: schedule.params[name] for name in ("panel_width", "raster", "num_workers", "launched")}
        room = 4 * schedule.num_waves + 4
        columns: dict[str, list[int]] = {name: [] for name in ("cta", "role", "worker", "linear", "wave", "m", "n")}
        for worker in range(schedule.num_workers):
            out = np.zeros((room, 4), np.int32)
            count = drive(
                problem.clusters_m,
                problem.tiles_n,
                int(params["num_workers"]),
                int(params["panel_width"]),
                ORDERS[RasterOrder(str(params["raster"]))],
                worker,
                room,
                out.ctypes.data_as(ctypes.POINTER(ctypes.c_int)),
            )
            for rank in range(problem.cluster_m):
                for linear, wave, m, n in out[:count].tolist():
                    row = (worker * problem.cluster_m + rank, 0, worker, linear, wave, m * problem.cluster_m + rank, n)
                    for name, value in zip(columns, row, strict=True):
                        columns[name].append(value)
        header = TraceHeader(
            kernel="cpu",
            source="g++",
            roles=("all",),
            ctas=schedule.num_workers * problem.cluster_m,
            problem=problem,
            scheduler="tilelang.persistent",
            params=params,
        )
        return Trace(header, {name: np.array(values, np.int64) for name, values in columns.items()})

    return record


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Drive:
    return build(CUDA_DIR, tmp_path_factory.mktemp("twin"))


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(1, 50) | st.just(2**31 - 1),
    st.sampled_from(RasterOrder),
    st.integers(1, 4),
)
def test_the_header_equals_the_model(
    drive: Drive, m: int, n: int, workers: int, width: int, order: RasterOrder, cluster: int
) -> None:
    problem = Problem(m=m, n=n, k=1, block_m=1, block_n=1, block_k=1, cluster_m=cluster)
    report = check_trace(drive(problem, Options(panel_width=width, raster=order, num_workers=workers)))
    assert report.verdict is Verdict.CLEAN, report.findings


@pytest.mark.parametrize("order", RasterOrder)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_mutant_is_caught_by_name(fault: Fault, order: RasterOrder, tmp_path: Path) -> None:
    mutant = build(mutated_sources(fault, tmp_path), tmp_path)
    problem = Problem(m=10, n=13, k=1, block_m=1, block_n=1, block_k=1)
    report = check_trace(mutant(problem, Options(panel_width=4, raster=order, num_workers=7)))
    (divergence,) = (finding for finding in report.findings if finding.kind is TraceKind.DIVERGENCE)
    assert fault.cause in divergence.message
    assert report.verdict is Verdict.FINDINGS
