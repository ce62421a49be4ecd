"""The probe on a GPU: every recorded trace equals the model, and planted faults are caught by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_faults import FAULTS, Fault, mutated_sources
from tilesched.cli.main import main
from tilesched.kernels.probe import record_probe
from tilesched.simulator.findings import Severity, Verdict
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedulers import Options
from tilesched.simulator.trace import Trace
from tilesched.verify.conformance import TraceKind, check_trace

pytestmark = pytest.mark.gpu


@st.composite
def configurations(draw: st.DrawFn) -> tuple[Problem, Options]:
    """Tile grids up to 300 × 300, rough sizes, any panel, both rasters, clusters, few to many workers."""
    block_m, block_n = draw(st.sampled_from([(128, 256), (128, 64), (1, 1)]))
    cluster = draw(st.integers(1, 4))
    problem = Problem(
        m=draw(st.integers(1, 300 * block_m)),
        n=draw(st.integers(1, 300 * block_n)),
        k=draw(st.integers(1, 8192)),
        block_m=block_m,
        block_n=block_n,
        cluster_m=cluster,
    )
    options = Options(
        panel_width=draw(st.integers(1, 20) | st.integers(1, 400)),
        raster=draw(st.sampled_from(RasterOrder)),
        num_workers=draw(st.integers(1, 200) | st.just(max(132 // cluster, 1))),
    )
    return problem, options


@settings(max_examples=300)
@given(configurations())
def test_every_recorded_trace_equals_the_model(configuration: tuple[Problem, Options]) -> None:
    problem, options = configuration
    trace = record_probe(problem, options)
    report = check_trace(trace)
    assert report.verdict is Verdict.CLEAN, report.findings
    ghosts = problem.tiles_m % problem.cluster_m != 0
    assert [finding.severity for finding in report.findings] == [Severity.NOTE] * ghosts
    padded_rows = problem.clusters_m * problem.cluster_m
    assert len(trace.columns["cta"]) == 3 * padded_rows * problem.tiles_n
    assert (trace.columns["begin_ns"] <= trace.columns["end_ns"]).all()


@settings(max_examples=50)
@given(configurations(), st.integers(1, 200))
def test_another_grid_than_the_stride_is_recorded_as_the_model_has_it(
    configuration: tuple[Problem, Options], launched: int
) -> None:
    problem, options = configuration
    assert options.num_workers is not None
    launched = min(launched, 2 * options.num_workers)
    trace = record_probe(
        problem, Options(panel_width=options.panel_width, num_workers=options.num_workers, launched=launched)
    )
    kinds = {finding.kind for finding in check_trace(trace).findings}
    assert TraceKind.DIVERGENCE not in kinds
    ids = problem.clusters_m * problem.tiles_n
    assert ("missing" in kinds) == (launched < min(options.num_workers, ids))
    assert ("repeated" in kinds) == (launched > options.num_workers and ids > options.num_workers)


PROBLEM = Problem(m=10 * 128, n=13 * 256, k=512, cluster_m=2)
OPTIONS = Options(panel_width=4, num_workers=7)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_caught_by_name(fault: Fault, tmp_path: Path) -> None:
    trace = record_probe(PROBLEM, OPTIONS, capacity=64, cuda_dir=mutated_sources(fault, tmp_path))
    report = check_trace(trace)
    assert report.verdict is Verdict.FINDINGS
    (divergence,) = (finding for finding in report.findings if finding.kind is TraceKind.DIVERGENCE)
    assert fault.cause in divergence.message


def test_an_overflowed_trace_is_incomplete_and_says_where() -> None:
    report = check_trace(record_probe(PROBLEM, OPTIONS, capacity=9))
    assert report.verdict is Verdict.INCOMPLETE
    (overflow,) = report.findings
    assert overflow.facts == {"slots": 12, "cta": 0, "role": "tma", "wanted": 10, "stored": 9}


def test_record_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("t.npz", "t.jsonl"):
        path = str(tmp_path / name)
        problem = ["--m", "5000", "--n", "3000", "--k", "100", "--cluster", "2", "--swizzle", "3"]
        assert main(["record", "--kernel", "probe", *problem, "--out", path]) == 0
        assert main(["verify", path]) == 0
        assert "verdict: clean" in capsys.readouterr().out
    assert main(["record", "--kernel", "probe", *problem, "--capacity", "1", "--out", path, "--sms", "4"]) == 0
    assert main(["verify", path]) == 3


def test_the_same_tiles_whatever_the_launch_found_in_memory() -> None:
    def tiles(trace: Trace) -> list[list[int]]:
        return np.stack([trace.columns[name] for name in ("cta", "role", "linear", "m", "n")]).tolist()

    assert tiles(record_probe(PROBLEM, OPTIONS)) == tiles(record_probe(PROBLEM, OPTIONS, capacity=100))
