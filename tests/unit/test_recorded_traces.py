"""Recordings of a real GPU (tests/data/README.md): the right ones are clean, the faulty ones are caught by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from probe_faults import FAULTS, Fault
from tilesched.cli.main import main
from tilesched.simulator.trace_codec import load
from tilesched.verify.conformance import TraceKind, check_trace

TRACES = Path(__file__).parents[1] / "data" / "traces"
CORRECT = ("few_tiles", "narrow_panel", "pair_odd_rows", "panel_m")


def test_every_recording_is_of_the_gpu_and_says_where_from() -> None:
    names = {path.stem for path in TRACES.iterdir()}
    assert names == {f"correct_{name}" for name in CORRECT} | {f"fault_{f.name}" for f in FAULTS} | {"fault_overflow"}
    for path in TRACES.iterdir():
        header = load(str(path)).header
        assert header.source == "gpu"
        assert header.device["name"] == "NVIDIA H200"
        assert header.provenance.startswith("python tests/gpu/refresh_traces.py, 20")


@pytest.mark.parametrize("name", CORRECT)
def test_a_right_recording_is_clean(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(TRACES / f"correct_{name}.npz")]) == 0
    out = capsys.readouterr().out
    assert out.endswith("verdict: clean\n")
    assert ("note (ghost)" in out) == (name == "pair_odd_rows")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_faulty_recording_is_caught_by_name(fault: Fault) -> None:
    trace = load(str(TRACES / f"fault_{fault.name}.npz"))
    assert fault.before in trace.header.provenance
    findings = check_trace(trace).findings
    (divergence,) = (finding for finding in findings if finding.kind is TraceKind.DIVERGENCE)
    assert fault.cause in divergence.message
    assert main(["verify", "--quiet", str(TRACES / f"fault_{fault.name}.npz")]) == 1


def test_an_overflowed_recording_is_incomplete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(TRACES / "fault_overflow.npz")]) == 3
    out = capsys.readouterr().out
    # 10 × 13 tiles over 7 workers: 19 or 18 for each, where 9 fit
    assert "21 of 21 slots overflowed, first CTA 0 role tma, which took 19 tiles and holds 9 records" in out
    assert "verdict: incomplete (overflow)" in out
