"""Sweeps: the table against a naive loop, the ways to run one and to end one early, and the rules that it shows."""

from __future__ import annotations

import csv
import json
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.cli.main import main
from tilesched.simulator.errors import InputError
from tilesched.simulator.problem import Problem
from tilesched.simulator.raster import IntArray, RasterOrder
from tilesched.simulator.schedule import BoolArray, Schedule, StridedSchedule
from tilesched.simulator.schedulers import SCHEDULERS, Options
from tilesched.verify.coverage import check_coverage
from tilesched.verify.executors import Executor, dask_cluster, in_process, local_cores
from tilesched.verify.safe_shapes import shape_rules
from tilesched.verify.shapes import COLUMNS, Builder, Space, Table, build_registered, evaluate
from tilesched.verify.sweep import Stopped, Sweep, run_sweep

Capture = pytest.CaptureFixture[str]
UNIT = {"block_m": (1,), "block_n": (1,), "block_k": (1,), "k": (1,)}


Values = Sequence[int]


def space(scheduler: str | tuple[str, ...], m: Values, n: Values, sms: Values, **more: Any) -> Space:
    names = (scheduler,) if isinstance(scheduler, str) else scheduler
    return Space({"scheduler": names, "m": m, "n": n, **UNIT, "sm_count": sms, **more})


def sweep(over: Space, build: Builder = build_registered, executor: Executor = in_process, **limits: Any) -> Sweep:
    return run_sweep(over, build, executor, **{"max_shapes": 10**6, **limits})


def rules(over: Space, build: Builder = build_registered) -> dict[str, str | None]:
    return {
        rule.kind: rule.report.rule and rule.report.rule.text
        for rule in shape_rules(sweep(over, build), build, in_process)
    }


def test_the_table_is_what_a_loop_over_the_shapes_finds() -> None:
    names = ("tilelang.manual_1cta", "triton.grouped_persistent")
    table = sweep(space(names, range(1, 5), (1, 3, 4), range(2, 4), panel_width=(1, 2))).table
    at = 0
    for name, m, n, sms, width in product(names, range(1, 5), (1, 3, 4), range(2, 4), (1, 2)):
        problem = Problem(m=m, n=n, k=1, block_m=1, block_n=1, block_k=1, sm_count=sms)
        schedule = SCHEDULERS[name].build(problem, Options(panel_width=width))
        truth = check_coverage(schedule)
        row = {column: values[at] for column, values in table.items()}
        assert (row["index"], row["scheduler"], row["m"], row["n"], row["panel_width"]) == (at, name, m, n, width)
        assert (row["missing"], row["holes"]) == (truth.missing.count, truth.holes.count)
        assert (row["waves"], row["workers"]) == (schedule.num_waves, schedule.num_workers)
        assert (row["verdict"] == "findings") == (truth.missing.count > 0 or truth.holes.count > 0)
        assert ("missing" in row["kinds"]) == (truth.missing.count > 0)
        at += 1
    assert at == table["index"].size == 96


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_a_sweep_visits_each_shape_once_and_begins_anywhere(lengths: list[int]) -> None:
    over = Space({f"a{place}": range(length) for place, length in enumerate(lengths)})
    visited = list(over.spread())
    assert sorted(index for index, _ in visited) == list(range(over.size))
    naive = list(product(*(range(length) for length in lengths)))
    assert all(tuple(shape.values()) == naive[index] for index, shape in visited)


def test_the_beginning_of_a_sweep_is_spread_over_all_ranges() -> None:
    table = sweep(space("tilelang.persistent", range(1, 101), range(1, 101), (4,)), max_shapes=400).table
    for axis in ("m", "n"):
        counts = np.histogram(table[axis], bins=4, range=(1, 101))[0]
        assert counts.min() > 60


def same_tables(one: Table, other: Table) -> bool:
    return all((one[name] == other[name]).all() for name in COLUMNS)


SMALL = space("tilelang.manual_1cta", range(1, 21), range(1, 21), range(1, 4))


def test_two_processes_make_the_same_table() -> None:
    assert same_tables(sweep(SMALL, executor=local_cores(2)).table, sweep(SMALL).table)


@pytest.mark.filterwarnings("ignore")  # of dask, about itself
def test_a_dask_cluster_makes_the_same_table() -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as cluster:
        result = sweep(SMALL, executor=dask_cluster(cluster.scheduler_address))
    assert same_tables(result.table, sweep(SMALL).table)
    assert result.stopped is None


@pytest.mark.filterwarnings("ignore")
def test_an_address_where_no_dask_scheduler_answers() -> None:
    with pytest.raises(InputError, match=r"^dask='tcp://127\.0\.0\.1:9': "):
        sweep(SMALL, executor=dask_cluster("tcp://127.0.0.1:9", timeout_s=0.2))


def after(batches: int) -> Callable[[], bool]:
    answers = iter([False] * batches)
    return lambda: next(answers, True)


def test_a_sweep_ends_when_it_is_told_to() -> None:
    for limits, stopped, covered in (
        ({"max_shapes": 300}, Stopped.COUNT, 300),
        ({"interrupted": after(2)}, Stopped.INTERRUPT, 256),
        ({"max_seconds": 0.0}, Stopped.TIME, 0),
        ({"max_shapes": 1200}, None, 1200),
    ):
        result = sweep(SMALL, **limits)
        assert (result.stopped, result.table["index"].size) == (stopped, covered)


def test_progress_counts_shapes() -> None:
    calls: list[tuple[int, int]] = []
    sweep(SMALL, max_shapes=300, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(128, 300), (256, 300), (300, 300)]


# The published laws (docs/schedulers.md), found from small shapes alone.


def test_the_law_of_the_manual_1cta_mapping_is_found() -> None:
    found = rules(space("tilelang.manual_1cta", range(1, 7), range(1, 7), range(1, 6), panel_width=range(1, 5)))
    assert found["missing"] == "(tiles_m - 1) * pad_n > slack"
    assert found["hole"] is None


def test_the_laws_of_the_manual_2cta_mapping_are_found() -> None:
    over = space("tilelang.manual_2cta", range(1, 8), range(1, 7), range(2, 7), panel_width=range(1, 5))
    found = rules(over)
    assert found["undefined"] == "tiles_m <= 1"  # there is no schedule, which neither loses nor launches anything
    assert found["launch"] == "sm_count % 2 != 0"
    assert found["missing"] == "tiles_m % 2 != 0 or (clusters_m - 1) * pad_n > slack"
    assert rules(space("tilelang.manual_2cta", range(2, 8), range(1, 7), range(2, 7), panel_width=(1,)))[
        "any error"
    ] == ("sm_count % 2 != 0 or tiles_m % 2 != 0")


def unpadded_grid(name: str, problem: Problem, options: Options) -> Schedule:
    """Ids of the real grid only, over a walk that is padded: CuTe DSL's CLC scheduler (schedulers.md 3)."""
    schedule = SCHEDULERS["tilelang.manual_1cta"].build(problem, options)
    assert isinstance(schedule, StridedSchedule)
    return replace(schedule, num_ids=problem.tiles, num_workers=problem.tiles, stride=problem.tiles, structure=None)


def test_a_padded_walk_with_an_unpadded_grid() -> None:
    over = space("tilelang.manual_1cta", range(1, 7), range(1, 7), (4,), panel_width=range(1, 5))
    assert rules(over, unpadded_grid)["missing"] == "tiles_n % panel_width != 0 and tiles_m >= 2"
    assert rules(over, build_registered)["missing"] != "tiles_n % panel_width != 0 and tiles_m >= 2"


def lossy(odd: Callable[[Problem, Options], bool]) -> Builder:
    """The scheduler, but its first id is skipped where `odd` holds, and there only."""

    def build(name: str, problem: Problem, options: Options) -> Schedule:
        schedule = SCHEDULERS[name].build(problem, options)
        assert isinstance(schedule, StridedSchedule)
        decode = schedule.decode

        def skipping(ids: IntArray) -> tuple[IntArray, IntArray, BoolArray]:
            m, n, emitted = decode(ids)
            return m, n, emitted & (ids > 0)

        return replace(schedule, decode=skipping, structure=None) if odd(problem, options) else schedule

    return build


def test_pairs_of_rows_in_groups() -> None:
    """Grouped order with clusters of 2 is safe iff group and rows are even (issue 6)."""
    build = lossy(lambda problem, options: problem.m % 2 != 0 or (options.panel_width or 0) % 2 != 0)
    over = space("tilelang.persistent", range(1, 9), range(4, 9), (3,), panel_width=range(1, 9))
    assert rules(over, build)["missing"] == "panel_width % 2 != 0 or tiles_m % 2 != 0"


def test_a_rule_that_larger_shapes_contradict_is_not_stated() -> None:
    build = lossy(lambda problem, options: problem.n % 2 != 0 or problem.m == 17)
    over = space("tilelang.persistent", range(1, 9), range(4, 9), (3,), panel_width=(1,))
    (rule,) = shape_rules(sweep(over, build), build, in_process)
    assert rule.report.rule is None
    right = lossy(lambda problem, options: problem.n % 2 != 0)
    assert rules(over, right) == {"missing": "tiles_n % 2 != 0"}


def test_a_list_is_not_left_and_then_nothing_is_tested() -> None:
    over = space("tilelang.manual_1cta", (1, 2, 3, 4), (1, 2, 3, 4), (1,), panel_width=(2,))
    (rule, *_) = shape_rules(sweep(over), build_registered, in_process)
    assert rule.report.rule is not None
    assert rule.report.tested == 0


def test_each_raster_order_has_rules_of_its_own() -> None:
    over = space("tilelang.persistent", range(1, 5), range(1, 5), (3,), raster=tuple(RasterOrder), launched=(2, 3))
    found = shape_rules(sweep(over), build_registered, in_process)
    assert [rule.raster for rule in found] == ["panel-n", "panel-m"]


def test_each_scheduler_has_a_sample_of_its_own_size() -> None:
    names = ("tilelang.persistent", "tilelang.manual_1cta", "triton.grouped_persistent")
    found = shape_rules(
        sweep(space(names, range(1, 5), range(1, 5), (1, 2), panel_width=(3,))), build_registered, in_process
    )
    assert {rule.scheduler for rule in found} == {"tilelang.manual_1cta"}
    missing = next(rule.report for rule in found if rule.kind == "missing")
    assert (missing.fitted, missing.tested) == (32, 32 + 3 + 320)


# The command.

SWEEP = ["sweep", "--block-m", "1", "--block-n", "1"]
MANUAL = [*SWEEP, "--scheduler", "tilelang.manual_1cta", "--m", "1:5", "--n", "1:5", "--sms", "1:4", "--swizzle", "1:4"]


def test_the_summary_says_what_was_covered_and_which_shapes_fail(capsys: Capture) -> None:
    assert main(MANUAL) == 1
    text = capsys.readouterr().out
    assert "covered      400 of 400 shapes" in text
    assert "iff (tiles_m - 1) * pad_n > slack" in text
    assert "smallest: tilesched-sim --scheduler tilelang.manual_1cta --m 2 --n 1" in text
    assert "no short rule fits" in text
    assert text.splitlines()[-1] == "verdict: findings"


def test_the_smallest_failing_shape_is_a_command_that_fails(capsys: Capture) -> None:
    main(MANUAL)
    lines = [line for line in capsys.readouterr().out.splitlines() if "smallest: tilesched-sim " in line]
    assert len(lines) == 3
    for line in lines:
        assert main(line.split("tilesched-sim ")[1].split()) == 1
        capsys.readouterr()


def test_a_clean_sweep_is_quiet(capsys: Capture) -> None:
    arguments = [*SWEEP, "--m", "1:6", "--n", "1:6", "--cluster", "1,2"]
    assert main([*arguments, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(arguments) == 0
    assert "clean        72" in capsys.readouterr().out


def test_an_ended_sweep_is_incomplete_and_says_so(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main([*MANUAL, "--max-shapes", "256", "--no-rules"]) == 3
    assert "covered      256 of 400 shapes" in capsys.readouterr().out

    def pressed(build: Builder, batch: Sequence[Any]) -> Table:
        signal.raise_signal(signal.SIGINT)
        return evaluate(build, batch)

    monkeypatch.setattr("tilesched.verify.sweep.evaluate", pressed)
    before = signal.getsignal(signal.SIGINT)
    assert main(MANUAL) == 3
    text = capsys.readouterr().out
    assert "covered      128 of 400 shapes" in text
    assert "stopped by interrupt" in text
    assert signal.getsignal(signal.SIGINT) is before


def test_tables_are_written(tmp_path: Path, capsys: Capture) -> None:
    files = tmp_path / "table.csv", tmp_path / "table.json"
    for file in files:
        assert main([*MANUAL, "--no-rules", "--out", str(file)]) == 1
    assert "rules        not looked for" in capsys.readouterr().out
    with files[0].open(newline="") as text:
        rows = list(csv.DictReader(text))
    document = json.loads(files[1].read_text())
    assert document["schema"] == "tilesched/sweep-table/1"
    columns = document["columns"]
    assert list(columns) == list(rows[0]) == list(COLUMNS)
    for name, values in columns.items():
        assert [str(value) for value in values] == [row[name] for row in rows]
        assert len({type(value) for value in values}) == 1  # a column is of one type, as Parquet has it


def test_the_summary_as_json(capsys: Capture) -> None:
    assert main([*MANUAL, "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["verdict"], report["covered"], report["stopped"]) == (
        "tilesched/sweep/1",
        "findings",
        400,
        None,
    )
    missing = next(rule for rule in report["rules"] if rule["kind"] == "missing")
    assert missing["fails_iff"] == "(tiles_m - 1) * pad_n > slack"
    assert set(missing["where"]) == {"pad_n", "slack"}
    assert missing["tested"] > missing["fitted"] == 400
    assert (missing["smallest"]["m"], missing["smallest"]["n"]) == (2, 1)
    assert report["failing"][0]["missing"] > 0
    assert report["axes"]["m"] == {"first": 1, "last": 5, "step": 1}


def test_a_scheduler_of_ones_own(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def f(i, tiles_m, tiles_n): return divmod(i, tiles_n) if i < tiles_m * tiles_n - 1 else None\n")
    assert main([*SWEEP, "--m", "1,2", "--n", "2", "--sms", "2", "--scheduler-file", f"{path}:f"]) == 1
    assert "missing 2" in capsys.readouterr().out


def test_shapes_that_are_too_large_to_enumerate_are_undecided(capsys: Capture) -> None:
    shapes = ["--m", "4,100000", "--n", "100000", "--sms", "8", "--launched", "7"]
    assert main([*SWEEP, *shapes, "--jobs", "1", "--no-rules"]) == 3
    assert "undecided    1: workers*waves=" in capsys.readouterr().out


MISTAKES = {
    "no range": (["--m", "x", "--n", "1"], "m='x' is not N, FIRST:LAST or FIRST:LAST:STEP"),
    "backwards": (["--m", "5:1", "--n", "1"], "m=5:1 ends below its beginning"),
    "step 0": (["--m", "1:5:0", "--n", "1"], "m=0 is outside"),
    "too large": (["--m", "1:9999999999", "--n", "1"], "m=9999999999 is outside"),
    "a long list": (["--m", "1:99999,1:99999", "--n", "1"], "lists more than 100000 values"),
    "too many shapes": (["--m", f"1:{2**31 - 1}", "--n", f"1:{2**31 - 1}", "--sms", "1:9"], "shapes="),
    "two devices": (["--m", "1", "--n", "1", "--sms", "1", "--device", "h100"], "exclude each other"),
    "unknown device": (["--m", "1", "--n", "1", "--device", "h1000"], "device='h1000' is unknown"),
    "unknown scheduler": (["--m", "1", "--n", "1", "--scheduler", "all,x"], "scheduler='all' is unknown"),
    "unknown option": (["--m", "1", "--n", "1", "--set", "depth=3"], "set='depth=3' is not NAME=VALUES"),
    "cluster": (["--m", "1", "--n", "1", "--cluster", "1,x"], "cluster: 'x' is neither"),
    "raster": (["--m", "1", "--n", "1", "--raster", "up"], "raster='up' is unknown"),
    "format of the table": (["--m", "1", "--n", "1", "--out", "t.xls"], "out='t.xls' does not end in .csv or .json"),
    "folder of the table": (["--m", "1", "--n", "1", "--out", "/none/t.csv"], "no such folder"),
    "nothing accepted": (["--m", "1:3", "--n", "1", "--cluster", "1x2"], "none of 3 shapes is accepted; the first: "),
    "no jobs": (["--m", "1", "--n", "1", "--jobs", "0"], "jobs=0 is outside"),
    "clock": (["--m", "1", "--n", "1", "--phase-clock", "tile"], "needs --scheduler-file"),
    "k": (["--m", "1", "--n", "1", "--block-k", "32,64"], "so k is needed"),
}


@pytest.mark.parametrize(("arguments", "text"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_one_line(arguments: list[str], text: str, capsys: Capture) -> None:
    assert main(["sweep", *arguments]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert text in error


def test_without_the_extras_a_sweep_runs_in_one_process(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in ("joblib", "distributed"):
        monkeypatch.setitem(sys.modules, extra, None)  # importing it now fails
    assert local_cores(None) is in_process
    for option, text in (("--jobs=2", "jobs=2 needs joblib"), ("--dask=tcp://x:1", "needs dask.distributed")):
        assert main([*MANUAL, option]) == 2
        assert text in capsys.readouterr().err
