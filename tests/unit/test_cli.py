"""The command as a user meets it: reports, formats, exit codes, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilesched.cli.main import main
from tilesched.simulator.schedulers import SCHEDULERS

Capture = pytest.CaptureFixture[str]
SEED = ["--m", "8192", "--n", "8192", "--k", "8192"]


def tiles(m: int, n: int) -> list[str]:
    """Options for a grid of m × n tiles of the default tile."""
    return ["--m", str(m * 128), "--n", str(n * 256)]


def report(capsys: Capture, *arguments: str) -> dict[str, Any]:
    main([*arguments, "--format", "json"])
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    return body


def first(body: dict[str, Any], kind: str) -> list[tuple[int, int]]:
    (finding,) = (finding for finding in body["findings"] if finding["kind"] == kind)
    return [(place["m"], place["n"]) for place in finding["first"]]


def test_the_main_job(capsys: Capture) -> None:
    assert main(SEED) == 0
    out = capsys.readouterr().out
    assert "2048 of 2048 tiles exactly once" in out
    assert out.endswith("verdict: clean\n")


def test_numbers_of_the_seeds_default(capsys: Capture) -> None:
    """64 × 32 tiles on 148 SMs: 13 full waves of 148 are 1924 tiles, 124 remain."""
    body = report(capsys, *SEED)
    assert body["schema"] == "tilesched/coverage/1"
    assert (body["tiles_m"], body["tiles_n"], body["k_blocks"]) == (64, 32, 128)
    assert (body["workers"], body["waves"], body["work_tiles_min"], body["work_tiles_max"]) == (
        148,
        14,
        13,
        14,
    )
    assert body["last_wave_utilisation"] == 124 / 148
    assert body["params"]["panel_width"] == 8


def test_manual_1cta_loses_three_tiles(capsys: Capture) -> None:
    arguments = [*tiles(4, 9), "--scheduler", "tilelang.manual_1cta", "--swizzle", "8", "--workers", "3"]
    assert main(arguments) == 1
    assert "3 of 36 tiles are never computed: (1,8) (2,8) (3,8)" in capsys.readouterr().out
    body = report(capsys, *arguments)
    assert (body["verdict"], body["missing"], body["repeated"]) == ("findings", 3, 0)
    assert first(body, "missing") == [(1, 8), (2, 8), (3, 8)]
    assert "padded to 16 by the group of 8" in body["why"]


def test_manual_1cta_loses_56_of_384(capsys: Capture) -> None:
    body = report(capsys, *tiles(32, 12), "--scheduler", "tilelang.manual_1cta", "--workers", "132")
    assert (body["missing"], body["tiles"]) == (56, 384)
    (finding,) = (finding for finding in body["findings"] if finding["kind"] == "missing")
    assert (finding["count"], len(finding["first"])) == (56, 20)


@pytest.mark.parametrize("sms", [["--sms", "2"], ["--workers", "1"]])
def test_manual_2cta_loses_the_odd_row(capsys: Capture, sms: list[str]) -> None:
    body = report(capsys, *tiles(3, 1), "--scheduler", "tilelang.manual_2cta", "--swizzle", "1", *sms)
    assert first(body, "missing") == [(2, 0)]
    assert "m_blocks // 2 = 1 rounds 3 tile rows down" in body["why"]


@pytest.mark.parametrize(
    "problem",
    [
        [*tiles(4, 9), "--swizzle", "8", "--workers", "3"],
        [*tiles(32, 12), "--swizzle", "8", "--workers", "132"],
        [*tiles(3, 1), "--swizzle", "1", "--sms", "2", "--cluster", "2"],
    ],
)
def test_persistent_is_exact_where_the_manual_mappings_lose(problem: list[str]) -> None:
    assert main([*problem, "--quiet"]) == 0


def test_ghosts_are_named_and_are_no_fault(capsys: Capture) -> None:
    body = report(capsys, *tiles(5, 3), "--cluster", "2", "--workers", "2")
    assert (body["verdict"], body["ghosts"]) == ("clean", 3)
    assert first(body, "ghost") == [(5, 0), (5, 1), (5, 2)]
    assert "5 tile rows are not a multiple of the cluster 2" in body["why"]


def test_a_grid_larger_than_the_stride_repeats_tiles(capsys: Capture) -> None:
    arguments = [*tiles(1, 2), "--workers", "1", "--launched", "2"]
    assert main(arguments) == 1
    assert "(0,1) ×2 by worker 1 wave 0, worker 0 wave 1" in capsys.readouterr().out
    assert "2 workers are launched but their ids advance by 1" in report(capsys, *arguments)["why"]


def test_holes_break_a_clock_of_waves(capsys: Capture) -> None:
    """The smallest hole is M=3, N=1, g=2, one worker; ids 0 (1) 2 (3) 4 -> waves 3."""
    body = report(capsys, *tiles(3, 1), "--scheduler", "tilelang.manual_1cta", "--swizzle", "2", "--workers", "1")
    (finding,) = (finding for finding in body["findings"] if finding["kind"] == "hole")
    assert finding["first"] == [{"worker": 0, "wave": 1, "linear": 1}]
    assert (finding["severity"], body["verdict"]) == ("error", "findings")


def test_an_odd_sm_count_cannot_launch_pairs(capsys: Capture) -> None:
    body = report(capsys, *tiles(2, 1), "--scheduler", "tilelang.manual_2cta", "--swizzle", "1", "--sms", "3")
    assert body["missing"] == 0
    assert [finding["kind"] for finding in body["findings"] if finding["severity"] == "error"] == ["launch"]


def test_a_division_by_zero_of_the_original_is_a_finding(capsys: Capture) -> None:
    for form in ("text", "markdown", "json"):
        assert main([*tiles(1, 4), "--scheduler", "tilelang.manual_2cta", "--format", form]) == 1
        assert "m_clusters = m_blocks // 2 = 1 // 2 = 0" in capsys.readouterr().out


def test_quiet(capsys: Capture) -> None:
    assert main([*SEED, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main([*tiles(4, 9), "--scheduler", "tilelang.manual_1cta", "--workers", "3", "--quiet"]) == 1
    out = capsys.readouterr().out
    assert "(1,8)" in out
    assert "balance" not in out


def test_markdown(capsys: Capture) -> None:
    assert main([*tiles(4, 9), "--scheduler", "tilelang.manual_1cta", "--workers", "3", "--format", "markdown"]) == 1
    out = capsys.readouterr().out
    assert "### tilelang.manual_1cta" in out
    assert "| tiles | 36 = 4 × 9 (m × n), 1 k-blocks each |" in out
    assert "- **missing**: 3 of 36 tiles are never computed: (1,8) (2,8) (3,8)" in out


def test_tiles_prints_every_worker_in_order(capsys: Capture) -> None:
    assert main(["tiles", *tiles(3, 2), "--k", "200", "--cluster", "2", "--workers", "3", "--format", "json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "tilesched/tiles/1"
    assert [[(t["linear"], t["m"], t["n"]) for t in worker] for worker in body["workers"]] == [
        [(0, 0, 0), (3, 1, 1)],
        [(1, 0, 1)],
        [(2, 1, 0)],
    ]
    tile = body["workers"][0][1]
    assert tile == {"linear": 3, "m": 1, "n": 1, "batch": 0, "k_begin": 0, "k_end": 4, "ghost": True}
    assert not body["workers"][0][0]["ghost"]


def test_tiles_leaves_skipped_ids_out(capsys: Capture) -> None:
    arguments = [
        "tiles",
        *tiles(2, 1),
        "--scheduler",
        "tilelang.manual_1cta",
        "--swizzle",
        "2",
        "--workers",
        "2",
    ]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "worker 0: (0,0)\nworker 1: -\n"


def test_schedulers_lists_parameters_defaults_and_sources(capsys: Capture) -> None:
    assert main(["schedulers", "--format", "json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "tilesched/schedulers/1"
    names = [row["name"] for row in body["schedulers"]]
    assert names[:2] == ["tilelang.persistent", "tilelang.manual_1cta"]
    assert names == list(SCHEDULERS)
    assert all(row["source"] and row["params"] for row in body["schedulers"])
    assert main(["schedulers"]) == 0


def test_a_scheduler_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def f(i, tiles_m, tiles_n):\n    return divmod(i, tiles_n) if i < tiles_m * tiles_n else None\n")
    reference = f"{path}:f"
    assert main([*tiles(4, 9), "--scheduler-file", reference]) == 0
    assert "36 of 36 tiles exactly once" in capsys.readouterr().out
    assert main(["tiles", *tiles(1, 2), "--scheduler-file", reference, "--workers", "2"]) == 0
    assert capsys.readouterr().out == "worker 0: (0,0)\nworker 1: (0,1)\n"
    path.write_text("def f(i): return 1 / 0\n")
    for command in ([], ["tiles"]):
        assert main([*command, *tiles(4, 9), "--scheduler-file", reference]) == 1
        assert "raised: f(0) raised ZeroDivisionError: division by zero" in capsys.readouterr().out


def test_the_phase_clock_decides_whether_a_hole_does_harm(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def f(i): return divmod(i - 1, 2) if 1 <= i < 3 else None\n")
    arguments = [*tiles(1, 2), "--scheduler-file", f"{path}:f", "--workers", "1", "--quiet"]
    assert main(arguments) == 1
    assert main([*arguments, "--phase-clock", "tile"]) == 0


MISTAKES: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "--m, --n"),
    "zero": (["--m", "0", "--n", "1"], "m=0 is outside [1, 2147483647]"),
    "negative": (["--m", "-5", "--n", "1"], "m=-5 is outside"),
    "fraction": (["--m", "1.5", "--n", "1"], "argument --m: '1.5' is not an integer"),
    "text": (["--m", "1", "--n", "big"], "argument --n: 'big' is not an integer"),
    "underscores": (["--m", "1_0", "--n", "1"], "argument --m: '1_0' is not an integer"),
    "beyond 32 bits": (["--m", str(2**31), "--n", "1"], "m=2147483648 is outside"),
    "beyond anything": (["--m", "9" * 5000, "--n", "1"], "argument --m"),
    "too many tiles": (
        ["--m", "2000000000", "--n", "2000000000", "--enumerate"],
        "workers*waves=122070312500032 is outside [0, 2147483647]",
    ),
    "too many processes": ([*SEED, "--jobs", "257"], "jobs=257 is outside [0, 256]"),
    "zero k": ([*SEED[:4], "--k", "0"], "k=0 is outside"),
    "zero block": ([*SEED, "--block-n", "0"], "block_n=0 is outside"),
    "swizzle 0": ([*SEED, "--swizzle", "0"], "swizzle=0 is outside"),
    "no workers": ([*SEED, "--workers", "0"], "workers=0 is outside"),
    "no launched workers": ([*SEED, "--launched", "-1"], "launched=-1 is outside"),
    "no SMs": ([*SEED, "--sms", "0"], "sms=0 is outside"),
    "cluster of none": ([*SEED, "--cluster", "0"], "cluster_m=0 is outside"),
    "cluster of text": ([*SEED, "--cluster", "2x"], "argument --cluster: '2x' is neither"),
    "cluster > SMs": ([*SEED, "--cluster", "4", "--sms", "3"], "cluster=4x1 needs 4 SMs, sm_count is 3"),
    "cluster along N": (
        [*SEED, "--cluster", "1x2"],
        "cluster=1x2: tilelang.persistent schedules clusters along M only",
    ),
    "pairs of a 1-CTA mapping": (
        [*SEED, "--scheduler", "tilelang.manual_1cta", "--cluster", "2"],
        "tilelang.manual_1cta schedules single CTAs",
    ),
    "no pairs of a 2-CTA mapping": (
        [*SEED, "--scheduler", "tilelang.manual_2cta", "--cluster", "1"],
        "tilelang.manual_2cta schedules clusters of 2x1",
    ),
    "a raster that is fixed": (
        [*SEED, "--scheduler", "tilelang.manual_1cta", "--raster", "row"],
        "raster=panel-m is not a parameter of tilelang.manual_1cta",
    ),
    "unknown scheduler": (
        [*SEED, "--scheduler", "tilelang.persistant"],
        "scheduler='tilelang.persistant' is unknown; did you mean 'tilelang.persistent'?",
    ),
    "unknown device": ([*SEED, "--device", "b20"], "did you mean 'b200'?"),
    "unknown raster": ([*SEED, "--raster", "diagonal"], "raster='diagonal' is unknown; known: panel-n"),
    "unknown command": (["tile", *SEED], "command='tile' is unknown; did you mean 'tiles'?"),
    "unknown option": ([*SEED, "--swizle", "8"], "unrecognized arguments: --swizle 8"),
    "unknown format": ([*SEED, "--format", "xml"], "invalid choice: 'xml'"),
    "device and SMs": ([*SEED, "--device", "h100", "--sms", "3"], "not allowed with"),
    "ids of a built-in": ([*SEED, "--ids", "4"], "ids=4 needs --scheduler-file"),
    "no file": ([*SEED, "--scheduler-file", "absent.py:f"], "scheduler-file='absent.py' is not a file"),
    "heatmap of another kind": ([*SEED, "--heatmap", "map.bmp"], "map.bmp"),
    "heatmap nowhere": ([*SEED, "--heatmap", "/no/such/place/map.png"], "/no/such/place/map.png"),
}


@pytest.mark.parametrize(("arguments", "text"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_gets_one_line_and_exit_code_2(arguments: list[str], text: str, capsys: Capture) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("tilesched-sim: error: ")
    assert text in captured.err


@pytest.mark.parametrize("command", [[], ["tiles"], ["schedulers"], ["golden"], ["record"], ["verify"]])
def test_help(command: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    assert "exit code: 0 clean, 1 findings, 2 bad input, 3 incomplete" in capsys.readouterr().out


def test_heatmap_is_written(tmp_path: Path) -> None:
    path = tmp_path / "map.png"
    assert main([*SEED, "--quiet", "--heatmap", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_progress_is_silent_where_stderr_is_no_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilesched.cli.progress._DELAY_S", 0)
    assert main([*SEED, "--quiet", "--enumerate"]) == 0
    assert capsys.readouterr().err == ""


def test_progress_is_drawn_and_wiped_on_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilesched.cli.progress._DELAY_S", 0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert main([*SEED, "--quiet", "--enumerate"]) == 0
    err = capsys.readouterr().err
    assert err.startswith("\rchecking tiles [")
    assert err.endswith("\r\x1b[K")


def test_a_reader_that_goes_away(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess
    import sys

    command = f"{sys.executable} -m tilesched tiles --m 1000000 --n 100000 --format json | head -c 100"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_a_grid_of_10_to_the_12_tiles_is_decided_and_its_ids_overflow(capsys: Capture) -> None:
    million = ["--m", "1000000", "--n", "1000000", "--block-m", "1", "--block-n", "1", "--format", "json"]
    assert main([*million]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["certified"]
    assert [finding["kind"] for finding in report["findings"]] == ["overflow"]
    assert (report["tiles"], report["missing"], report["work_tiles_min"]) == (10**12, 0, 10**12 // 148)
    assert main([*million, "--launched", "147"]) == 2  # ids are left out: no certificate, and too many to enumerate
    assert "workers*waves=" in capsys.readouterr().err


def test_what_is_enumerated_on_request_is_what_is_certified(capsys: Capture) -> None:
    reports = []
    for more in ([], ["--enumerate"]):
        assert main([*tiles(32, 12), "--scheduler", "tilelang.manual_1cta", "--format", "json", *more]) == 1
        reports.append(json.loads(capsys.readouterr().out))
    assert [report.pop("certified") for report in reports] == [True, False]
    assert reports[0]["missing"] == reports[1]["missing"] > 0
