"""The ranking of schedulers for one problem."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from tilesched.cli.main import main
from tilesched.simulator.problem import Problem
from tilesched.simulator.schedulers import SCHEDULERS, Options
from tilesched.verify.compare import compare

Capture = pytest.CaptureFixture[str]


def test_better_comes_first_and_faulty_last() -> None:
    problem = Problem(m=32, n=12, k=1, block_m=1, block_n=1, block_k=1, sm_count=132)
    found = compare(list(SCHEDULERS.values()), problem, Options())
    assert {candidate.scheduler for candidate in found} == set(SCHEDULERS)
    faulty = [bool(candidate.kinds) for candidate in found]
    assert faulty == sorted(faulty)
    right = [candidate.cost for candidate in found if not candidate.kinds and candidate.cost]
    keys = [(cost.waves, -cost.last_wave_utilisation, -cost.balance, cost.operands) for cost in right]
    assert all(one <= other for one, other in pairwise(keys))
    manual = {c.params["panel_width"]: c.kinds for c in found if c.scheduler == "tilelang.manual_1cta"}
    assert manual == {1: [], 2: [], 4: [], 8: ["missing", "hole"], 16: ["missing", "hole"]}


def test_the_figures_of_a_small_problem() -> None:
    """5 × 4 tiles on 6 SMs, panels of 2 columns: the waves are columns 0 and 1 of rows 0-2, then 3, 4 and so on."""
    problem = Problem(m=5 * 128, n=4 * 256, k=64, sm_count=6)
    (found,) = compare([SCHEDULERS["tilelang.manual_1cta"]], problem, Options(panel_width=2))
    cost = found.cost
    assert cost is not None
    assert (cost.waves, cost.last_wave_utilisation, cost.balance) == (4, 2 / 6, 20 / 24)
    # rows {0,1,2} {3,4,0} {1,2,3} {4}; columns {0,1} {0,1,2,3} {2,3} {2,3}
    assert (cost.traffic.a_tiles, cost.traffic.b_tiles) == (10 / 4, 10 / 4)
    assert cost.operands == (2.5 * 128 + 2.5 * 256) * 64


def test_a_scheduler_that_divides_by_zero_stands_at_the_end_without_a_cost() -> None:
    found = compare(list(SCHEDULERS.values()), Problem(m=1, n=1, k=1), Options())
    without = {candidate.scheduler: candidate.kinds for candidate in found if candidate.cost is None}
    assert without == {"tilelang.manual_2cta": ["undefined"], "tilelang.clc_2cta": ["launch"]}
    assert all(candidate.cost is None for candidate in found[-2:])


def test_what_is_chosen_is_not_varied() -> None:
    problem = Problem(m=1024, n=1024, k=64)
    found = compare(list(SCHEDULERS.values()), problem, Options(panel_width=3), (2, 1))
    assert {candidate.params["panel_width"] for candidate in found} == {3}
    assert {candidate.params["cluster"] for candidate in found} == {"2x1"}
    assert "tilelang.manual_1cta" not in {candidate.scheduler for candidate in found}


def test_the_command_in_all_forms(capsys: Capture) -> None:
    arguments = ["compare", "--m", "4096", "--n", "3000", "--k", "512", "--device", "h100"]
    assert main(arguments) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[0] == "M=4096 N=3000, 384 tiles on 132 SMs"
    assert text[1].split()[:2] == ["waves", "last"]
    assert len(text) == 2 + 20 + 1
    assert text[-1].startswith("… ")
    assert main([*arguments, "--format", "markdown", "--top", "1000"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("| ---")
    assert any("missing" in line for line in lines)
    assert main([*arguments, "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "tilesched/compare/1"
    assert len(report["candidates"]) == len(lines) - 4
    assert report["candidates"][0]["cost"]["waves"] == 3


def test_only_faulty_candidates_are_findings(capsys: Capture) -> None:
    arguments = ["compare", "--m", "4096", "--n", "3000", "--device", "h100", "--scheduler", "tilelang.manual_1cta"]
    assert main([*arguments, "--swizzle", "8"]) == 1
    assert main([*arguments, "--swizzle", "4", "--quiet"]) == 0
    assert "missing hole" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--scheduler", "tilelang.persistant"], "did you mean 'tilelang.persistent'?"),
        (["--scheduler", "tilelang.manual_1cta", "--cluster", "2"], "none takes these parameters"),
        (["--top", "0"], "top=0 is outside"),
        (["--m", "2000000000", "--block-m", "1"], "workers*waves="),
    ],
)
def test_a_mistake_gets_one_line(arguments: list[str], text: str, capsys: Capture) -> None:
    assert main(["compare", "--m", "1024", "--n", "1024", *arguments]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert text in error
