"""Conformance: traces made from the model, edited in every way that a kernel can go wrong."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.cli.main import main
from tilesched.simulator.errors import TraceError
from tilesched.simulator.findings import Finding, Severity, Verdict
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedulers import Options, get
from tilesched.simulator.trace import Trace, TraceHeader
from tilesched.simulator.trace_codec import save
from tilesched.verify.conformance import TraceKind, check_trace

ROLES = ("tma", "mma", "epilogue")
NAMES = ("cta", "role", "worker", "wave", "linear", "m", "n")
Row = dict[str, int]


def model_trace(problem: Problem, options: Options, scheduler: str = "tilelang.persistent") -> Trace:
    """What a right kernel records, one plain loop over CTAs, roles and tiles."""
    schedule = get(scheduler).build(problem, options)
    rows: list[Row] = []
    for cta in range(schedule.num_workers * problem.cluster_m):
        tiles = schedule.worker(cta // problem.cluster_m)
        for role in range(len(ROLES)):
            for wave, linear, m, n in zip(
                tiles.wave.tolist(), tiles.linear.tolist(), tiles.m.tolist(), tiles.n.tolist(), strict=True
            ):
                m_cta = m * problem.cluster_m + cta % problem.cluster_m
                values = (cta, role, cta // problem.cluster_m, wave, linear, m_cta, n)
                rows.append(dict(zip(NAMES, values, strict=True)))
    names = ("panel_width", "raster", "num_workers", "launched")
    header = TraceHeader(
        kernel="model",
        source="model",
        roles=ROLES,
        ctas=schedule.num_workers * problem.cluster_m,
        problem=problem,
        scheduler=scheduler,
        params={name: schedule.params[name] for name in names if name in schedule.params},
    )
    return from_rows(header, rows)


def from_rows(header: TraceHeader, rows: list[Row], wanted: Any = None) -> Trace:
    return Trace(header, {name: np.array([row[name] for row in rows], np.int64) for name in NAMES}, wanted)


def rows_of(trace: Trace) -> list[Row]:
    columns = [trace.columns[name].tolist() for name in NAMES]
    return [dict(zip(NAMES, values, strict=True)) for values in zip(*columns, strict=True)]


PROBLEM = Problem(m=5 * 128, n=7 * 256, k=256)
OPTIONS = Options(panel_width=3, num_workers=4)
RIGHT = model_trace(PROBLEM, OPTIONS)


def findings(trace: Trace) -> dict[str, Finding]:
    return {str(finding.kind): finding for finding in check_trace(trace).findings}


def edit(change: Callable[[Row], Row | None]) -> Trace:
    """The right trace with every record changed, or left out."""
    changed = (change(dict(row)) for row in rows_of(RIGHT))
    return from_rows(RIGHT.header, [row for row in changed if row is not None])


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from(RasterOrder),
    st.data(),
)
def test_the_models_own_trace_conforms(
    m: int, n: int, width: int, workers: int, order: RasterOrder, data: st.DataObject
) -> None:
    cluster = data.draw(st.integers(1, 3))
    problem = Problem(m=m, n=n, k=1, block_m=1, block_n=1, block_k=1, cluster_m=cluster)
    report = check_trace(model_trace(problem, Options(panel_width=width, raster=order, num_workers=workers)))
    assert report.verdict is Verdict.CLEAN
    assert [str(finding.kind) for finding in report.findings] == ["ghost"] * (m % cluster != 0)


@pytest.mark.parametrize("scheduler", ["tilelang.manual_1cta", "tilelang.manual_2cta"])
def test_a_scheduler_that_loses_tiles_conforms_and_is_not_clean(scheduler: str) -> None:
    problem = replace(PROBLEM, cluster_m=2 if scheduler.endswith("2cta") else 1)
    found = findings(model_trace(problem, Options(panel_width=4, num_workers=3), scheduler))
    assert TraceKind.DIVERGENCE not in found
    assert found["missing"].facts["roles"] == list(ROLES)


EDITS: dict[str, tuple[Callable[[Row], Row | None], set[str], str]] = {
    "one tile of one role": (
        lambda r: {**r, "n": r["n"] + 1} if (r["cta"], r["role"], r["wave"]) == (2, 1, 3) else r,
        {"divergence", "roles", "missing", "repeated"},
        "CTA 2 role mma position 3: expected (4,2) [linear 14, wave 3, worker 2], recorded (4,3)",
    ),
    "swapped": (
        lambda r: {**r, "m": r["n"], "n": r["m"]},
        {"divergence", "missing", "out-of-range"},
        "m and n are swapped",
    ),
    "stops early": (  # panels of 3 × 5 rows: ids from 30 on are column 6, id 31 its row 1
        lambda r: None if r["cta"] == 3 and r["wave"] >= 7 else r,
        {"divergence", "missing"},
        "CTA 3 role tma position 7: expected (1,6) [linear 31, wave 7, worker 3], recorded nothing; 3 of 12 slots "
        "diverge; the tiles agree, but every diverging role stops too early",
    ),
    "a role that never runs": (
        lambda r: None if r["role"] == 2 else r,
        {"divergence", "roles", "missing"},
        "recorded nothing; 4 of 12 slots diverge; the tiles agree, but every diverging role stops too early",
    ),
    "ids only": (
        lambda r: {**r, "linear": r["linear"] + 1},
        {"divergence"},
        "expected (0,0) [linear 0, wave 0, worker 0], recorded (0,0) [linear 1, wave 0, worker 0]",
    ),
    "waves only": (lambda r: {**r, "wave": 0}, {"divergence"}, "position 1: expected"),
    "one role of one CTA that never runs": (
        lambda r: None if (r["cta"], r["role"]) == (2, 1) else r,
        {"divergence", "roles", "missing"},
        "1 of 12 slots diverge; the tiles agree, but every diverging role stops too early",
    ),
    "roles of one CTA apart": (
        lambda r: {**r, "m": r["m"] ^ 1} if r["role"] == 1 and r["cta"] == 1 else r,
        {"divergence", "roles", "missing", "repeated", "out-of-range"},
        "",
    ),
}


@pytest.mark.parametrize(("change", "kinds", "text"), EDITS.values(), ids=EDITS.keys())
def test_an_edited_trace(change: Callable[[Row], Row | None], kinds: set[str], text: str) -> None:
    found = findings(edit(change))
    assert {kind for kind, finding in found.items() if finding.severity is Severity.ERROR} == kinds
    assert text in found["divergence"].message
    assert check_trace(edit(change)).verdict is Verdict.FINDINGS


def test_ids_that_contradict_the_tiles_have_no_cause() -> None:
    """True causes are in tests/properties/test_divergence.py: here only some of the columns say what they would."""
    rows = rows_of(RIGHT)
    for change in (
        lambda row: {"linear": row["linear"] + 1},
        lambda row: {"linear": row["worker"] + row["wave"] * 5},
        lambda row: {"m": row["n"], "n": row["m"]} if row["cta"] else {"m": row["m"] + 9},
    ):
        changed = [{**row, **change(row)} for row in rows]
        assert findings(from_rows(RIGHT.header, changed))["divergence"].facts["cause"] == ""
    two = [row for row in rows if (row["cta"], row["role"], row["wave"]) not in {(0, 0, 0), (1, 1, 0)}]
    assert findings(from_rows(RIGHT.header, two))["divergence"].facts["cause"] == ""
    longer = [row for row in rows if row["cta"] != 3 or row["wave"] < 7]
    longer += [{**row, "wave": 9, "linear": 36} for row in rows if row["cta"] == 0 and row["wave"] == 8]
    assert findings(from_rows(RIGHT.header, longer))["divergence"].facts["cause"] == ""


def test_where_no_cause_fits_what_can_be_seen_is_said() -> None:
    rows = rows_of(RIGHT)
    tail = [{**row, "m": row["m"] ^ 1} if row["linear"] >= 30 else row for row in rows]
    found = findings(from_rows(RIGHT.header, tail))["divergence"].facts["cause"]
    assert found == "ids agree, tiles differ only in the last panel, 1 of 3 wide"
    whole = [{**row, "m": row["m"] ^ 1} if row["linear"] >= 29 else row for row in rows]
    assert findings(from_rows(RIGHT.header, whole))["divergence"].facts["cause"] == ""


def test_a_small_trace_of_a_huge_problem_costs_little() -> None:
    """One worker, 2^27 tiles: the model's records are not written out to be compared with three."""
    problem = Problem(m=2**14, n=2**13, k=1, block_m=1, block_n=1, block_k=1, sm_count=1)
    header = replace(RIGHT.header, problem=problem, ctas=1, roles=("tma",), params={"panel_width": 3})
    columns = {name: np.array([0, 0, 0]) for name in ("cta", "role")}
    columns |= {"m": np.array([0, 0, 0]), "n": np.array([0, 1, 2])}
    tracemalloc.start()
    try:
        found = findings(Trace(header, columns))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found["divergence"].facts["cause"] == "the tiles agree, but every diverging role stops too early"
    assert found["missing"].facts["count"] == 2**27 - 3
    assert peak < 200 * 2**20


@pytest.mark.parametrize("name", ["one tile of one role", "waves only", "roles of one CTA apart"])
def test_no_cause_is_made_up(name: str) -> None:
    assert findings(edit(EDITS[name][0]))["divergence"].facts["cause"] == ""


def test_roles_that_disagree_name_the_first_place() -> None:
    change = EDITS["one tile of one role"][0]
    message = findings(edit(change))["roles"].message
    assert message == "roles disagree, first in CTA 2 position 3: tma took (4,2), mma took (4,3)"


def test_a_cut_off_trace_is_incomplete_and_what_is_there_is_still_compared() -> None:
    rows = [row for row in rows_of(RIGHT) if row["wave"] < 5]
    cut = from_rows(RIGHT.header, rows, RIGHT.stored())
    report = check_trace(cut)
    assert [str(finding.kind) for finding in report.findings] == ["overflow"]
    assert report.verdict is Verdict.INCOMPLETE
    rows[7]["m"] += 1
    found = check_trace(from_rows(RIGHT.header, rows, RIGHT.stored()))
    assert {str(finding.kind) for finding in found.findings} == {"overflow", "divergence", "roles"}
    assert found.verdict is Verdict.FINDINGS


def test_one_slot_that_is_cut_off_leaves_the_others_whole() -> None:
    rows = [row for row in rows_of(RIGHT) if (row["cta"], row["role"]) != (1, 2) or row["wave"] < 3]
    report = check_trace(from_rows(RIGHT.header, rows, RIGHT.stored()))
    assert [str(finding.kind) for finding in report.findings] == ["overflow"]
    assert report.findings[0].facts == {"slots": 1, "cta": 1, "role": "epilogue", "wanted": 9, "stored": 3}
    first = [row for row in rows_of(RIGHT) if (row["cta"], row["role"]) != (1, 0) or row["wave"] < 3]
    report = check_trace(from_rows(RIGHT.header, first, RIGHT.stored()))
    assert [str(finding.kind) for finding in report.findings] == ["overflow"]


def test_roles_that_lose_different_tiles_are_told_apart() -> None:
    rows = [row for row in rows_of(RIGHT) if (row["role"], row["linear"]) not in {(0, 3), (1, 4)}]
    missing = [f for f in check_trace(from_rows(RIGHT.header, rows)).findings if str(f.kind) == "missing"]
    assert [finding.facts["roles"] for finding in missing] == [["tma"], ["mma"]]


def test_a_trace_without_ids_is_compared_by_its_tiles() -> None:
    whole = edit(EDITS["one tile of one role"][0])
    bare = Trace(whole.header, {name: whole.columns[name] for name in ("cta", "role", "m", "n")})
    assert findings(bare)["divergence"].facts["position"] == 3
    right = Trace(RIGHT.header, {name: RIGHT.columns[name] for name in ("cta", "role", "m", "n")})
    assert check_trace(right).verdict is Verdict.CLEAN


def test_a_trace_that_is_short_without_saying_so_is_a_divergence() -> None:
    rows = [row for row in rows_of(RIGHT) if row["wave"] < 5]
    assert {"divergence", "missing"} <= findings(from_rows(RIGHT.header, rows)).keys()


def test_another_grid_is_named() -> None:
    header = replace(RIGHT.header, ctas=6)
    found = findings(from_rows(header, rows_of(RIGHT)))
    assert found["grid"].message == "6 CTAs were launched, the model has 4: 4 workers of 1"
    fewer = from_rows(replace(RIGHT.header, params={**RIGHT.header.params, "num_workers": 3}), rows_of(RIGHT))
    assert {"divergence"} <= findings(fewer).keys()


@pytest.mark.parametrize(("name", "verdict"), [(None, Verdict.CLEAN), ("my.own", Verdict.INCOMPLETE)])
def test_without_our_scheduler_coverage_is_checked(name: str | None, verdict: Verdict) -> None:
    header = replace(RIGHT.header, scheduler=name)
    report = check_trace(from_rows(header, rows_of(RIGHT)))
    assert report.verdict is verdict
    assert [str(finding.kind) for finding in report.findings] == ["unknown-scheduler"]
    lost = from_rows(header, rows_of(RIGHT)[1:])
    assert check_trace(lost).verdict is Verdict.FINDINGS
    assert "role tma: 1 of 35 tiles are never computed" in findings(lost)["missing"].message


@pytest.mark.parametrize("name", ["tilelang.persistent", None])
def test_a_leader_role_runs_in_the_first_cta_of_a_cluster(name: str | None) -> None:
    """As the MMA of the seed's 2-CTA kernel, which CTA 0 of the pair issues for both."""
    whole = model_trace(replace(PROBLEM, cluster_m=2), OPTIONS)
    rows = [row for row in rows_of(whole) if row["role"] != 1 or row["cta"] % 2 == 0]
    header = replace(whole.header, scheduler=name)
    assert {"missing", "roles"} <= findings(from_rows(header, rows)).keys()
    header = replace(header, leader_roles=("mma",))
    assert check_trace(from_rows(header, rows)).verdict is Verdict.CLEAN
    assert "ghost" in findings(from_rows(header, rows))
    both = findings(from_rows(header, rows_of(whole)))  # the peer runs the role too
    assert "repeated" in both
    assert ("divergence" in both) == (name is not None)
    odd = [{**row, "m": row["m"] + 1} if row["role"] == 1 and row["wave"] == 0 else row for row in rows]
    assert {"missing", "repeated", "roles"} <= findings(from_rows(header, odd)).keys()


BAD_PARAMS = [{"panel_width": 0}, {"panel_width": "3"}, {"waves": 1}, {"raster": "x"}, {"raster": 1}]


@pytest.mark.parametrize("params", BAD_PARAMS, ids=str)
def test_params_that_make_no_schedule_are_the_files_fault(
    params: dict[str, int | str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.npz")
    save(from_rows(replace(RIGHT.header, params=params), rows_of(RIGHT)), path)
    assert main(["verify", path]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_schedule_that_divides_by_zero_is_the_files_fault() -> None:
    header = replace(
        RIGHT.header, problem=Problem(m=1, n=1, k=1, cluster_m=2), scheduler="tilelang.manual_2cta", params={}
    )
    with pytest.raises(TraceError, match="has no schedule"):
        check_trace(from_rows(header, []))


def test_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "t.npz")
    save(edit(EDITS["swapped"][0]), path)
    for form in ("text", "markdown", "json"):
        assert main(["verify", path, "--format", form]) == 1
        assert "m and n are swapped" in capsys.readouterr().out
    save(RIGHT, path)
    assert main(["verify", path, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_hostile_coordinates() -> None:
    rows = rows_of(RIGHT)
    rows[0]["m"], rows[1]["n"] = 2**31 - 1, -(2**31)
    found = findings(from_rows(RIGHT.header, rows))
    assert found["out-of-range"].facts["count"] == 2
