"""A user's scheduler file: its two forms, what is supplied to it, and everything it can do wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tilesched.simulator.errors import InputError, NoScheduleError
from tilesched.simulator.findings import Severity, Verdict
from tilesched.simulator.problem import Problem
from tilesched.simulator.schedule import TableSchedule
from tilesched.simulator.schedulers import Options
from tilesched.verify.schedule_report import CoverageKind, ScheduleReport, check_schedule
from tilesched.verify.user_scheduler import UserKind, run_user_scheduler

Run = Callable[..., ScheduleReport]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Judge `f` of a source text on a grid of 3 × 4 tiles with 2 workers."""

    def judge(source: str, *, num_ids: int | None = None, cluster_m: int = 1, limit_s: float = 20) -> ScheduleReport:
        path = tmp_path / "sched.py"
        path.write_text(source)
        problem = Problem(m=3, n=4, k=1, block_m=1, block_n=1, block_k=1, cluster_m=cluster_m)
        options = Options(num_workers=2, panel_width=4)
        return check_schedule(run_user_scheduler(f"{path}:f", problem, options, num_ids=num_ids, time_limit_s=limit_s))

    return judge


def kinds(report: ScheduleReport) -> list[str]:
    return [str(finding.kind) for finding in report.findings if finding.severity is not Severity.NOTE]


GOOD = {
    "linear": "def f(i): return (i // 4, i % 4) if i < 12 else None",
    "linear, supplied": "def f(i, tiles_m, *, tiles_n, extra=1):\n"
    "    return (i // tiles_n, i % tiles_n) if i < tiles_m * tiles_n else None",
    "generator": "def f(w):\n    for i in range(w, 12, 2):\n        yield i // 4, i % 4",
    "generator, supplied": "def f(w, num_workers, **rest):\n"
    "    for i in range(w, 12, num_workers):\n        yield [i // 4, i % 4]",
    "returns an iterator": "def f(w): return iter([(i // 4, i % 4) for i in range(w, 12, 2)])",
    "numpy integers": "import numpy as np\ndef f(i): return np.divmod(np.int64(i), 4) if i < 12 else None",
    "prints and imports its neighbour": "import sys\nprint('x' * 10000)\n"
    "def f(i):\n    print(i)\n    return divmod(i, 4) if i < 12 else None",
    "a callable object": "class F:\n    def __call__(self, i):\n"
    "        return divmod(i, 4) if i < 12 else None\nf = F()",
}


@pytest.mark.parametrize("source", GOOD.values(), ids=GOOD.keys())
def test_a_right_function_is_clean(run: Run, source: str) -> None:
    report = run(source)
    assert report.verdict is Verdict.CLEAN
    assert report.findings == []
    assert report.schedule.num_waves == 6


def test_workers_take_ids_in_strides(run: Run) -> None:
    schedule = run(GOOD["linear"]).schedule
    assert schedule.worker(1).linear.tolist() == [1, 3, 5, 7, 9, 11]
    assert list(zip(schedule.worker(1).m, schedule.worker(1).n, strict=True))[:3] == [(0, 1), (0, 3), (1, 1)]


WRONG = {
    "loses": ("def f(i): return divmod(i, 4) if i < 11 else None", [CoverageKind.MISSING]),
    "repeats": ("def f(i): return divmod(i % 12, 4) if i < 13 else None", [CoverageKind.REPEATED]),
    "transposed": (
        "def f(i): return (i % 4, i // 4) if i < 12 else None",
        [CoverageKind.MISSING, CoverageKind.OUT_OF_RANGE],
    ),
    "negative": (
        "def f(i): return (i // 4 - 1, i % 4) if i < 12 else None",
        [CoverageKind.MISSING, CoverageKind.OUT_OF_RANGE],
    ),
    "hole": ("def f(i): return divmod(i - 2, 4) if 2 <= i < 14 else None", [CoverageKind.HOLE]),
    "generator hole": (
        "def f(w):\n    yield None\n    yield from (divmod(i, 4) for i in range(w, 12, 2))",
        [CoverageKind.HOLE],
    ),
}


@pytest.mark.parametrize(("source", "expected"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_function_is_a_finding(run: Run, source: str, expected: list[CoverageKind]) -> None:
    report = run(source)
    assert kinds(report) == expected
    assert report.verdict is Verdict.FINDINGS


FAULTS = {
    "raises": ("def f(i): return divmod(i, 4 - i)", UserKind.RAISED, "f(4) raised ZeroDivisionError"),
    "raises late": (
        "def f(w):\n    yield 0, 0\n    raise KeyError('no tile')",
        UserKind.RAISED,
        "f(0), item 1 raised KeyError: 'no tile'",
    ),
    "exits": ("import sys\ndef f(i): sys.exit(0)", UserKind.RAISED, "f(0) raised SystemExit: 0"),
    "kills its process": (
        "import os\ndef f(i): os._exit(7)",
        UserKind.RAISED,
        "ended its process with code 7",
    ),
    "exhausts memory": ("def f(i): return bytearray(8 << 30)", UserKind.RAISED, "MemoryError"),
    "recurses": ("def f(i): return f(i)", UserKind.RAISED, "RecursionError"),
    "text": ("def f(i): return 'tile'", UserKind.NONSENSE, "f(0) is 'tile': neither (m, n) nor None"),
    "floats": ("def f(i): return (i / 4, i % 4)", UserKind.NONSENSE, "f(0) is (0.0, 0)"),
    "three": ("def f(i): return (0, 0, 0)", UserKind.NONSENSE, "neither (m, n) nor None"),
    "huge": ("def f(i): return (2**40, 0)", UserKind.NONSENSE, "beyond 32 bits"),
    "a bad repr": (
        "class T:\n    def __repr__(self): raise ValueError\ndef f(i): return T()",
        UserKind.NONSENSE,
        "neither (m, n) nor None",
    ),
    "no end": ("def f(i): return divmod(i, 4)", UserKind.ENDLESS, "has not ended"),
    "no end, in range": ("def f(i): return divmod(i % 12, 4)", UserKind.ENDLESS, "has not ended"),
    "a generator with no end": ("def f(w):\n    while True: yield 0, 0", UserKind.ENDLESS, "has not ended"),
    "a generator of nothing": (
        "def f(w):\n    while True: yield None",
        UserKind.ENDLESS,
        "no tile ends worker 0",
    ),
}


@pytest.mark.parametrize(("source", "kind", "text"), FAULTS.values(), ids=FAULTS.keys())
def test_a_misbehaving_function_is_a_finding(run: Run, source: str, kind: UserKind, text: str) -> None:
    with pytest.raises(NoScheduleError) as caught:
        run(source)
    assert caught.value.finding.kind is kind
    assert caught.value.finding.severity is Severity.ERROR
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(600)", "return sum(range(10**12)), 0"])
def test_a_call_that_does_not_return_is_a_finding(run: Run, body: str) -> None:
    with pytest.raises(NoScheduleError) as caught:
        run(f"def f(i):\n    {body}", limit_s=1)
    assert caught.value.finding.kind is UserKind.ENDLESS


UNUSABLE = {
    "no such function": ("def g(i): return None", "has no function 'f'; it has g"),
    "not callable": ("f = 3", "has no function 'f'"),
    "syntax": ("def f(i:", "SyntaxError"),
    "import fails": ("import no_such_module_here", "ModuleNotFoundError"),
    "unknown parameter": ("def f(i, tile_count): return None", "has a parameter 'tile_count'"),
}


@pytest.mark.parametrize(("source", "text"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_an_unusable_file_is_the_users_mistake(run: Run, source: str, text: str) -> None:
    with pytest.raises(InputError, match="scheduler-file=") as caught:
        run(source)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ids_cut_the_function_off_where_the_kernel_ends(run: Run) -> None:
    report = run("def f(i): return divmod(i, 4)", num_ids=12)
    assert report.verdict is Verdict.CLEAN
    report = run("def f(i): return divmod(i, 4)", num_ids=10)
    assert [(tile.m, tile.n) for tile in report.coverage.missing.first] == [(2, 2), (2, 3)]


def test_ids_beyond_the_fewest_waves_are_said_to_be_assumed(run: Run) -> None:
    padded = "def f(i):\n    m, n = i // 8, i % 8\n    return (m, n) if m < 3 and n < 4 else None"
    report = run(padded)
    assumed = [finding for finding in report.findings if finding.kind is UserKind.ASSUMED]
    assert assumed[0].facts == {"ids": 20, "waves": 10, "fewest_waves": 6}
    assert assumed[0].severity is Severity.NOTE
    report = run(padded, num_ids=12)  # the waves that the manual kernel runs
    assert report.coverage.missing.count == 4
    assert not [finding for finding in report.findings if finding.kind is UserKind.ASSUMED]


def test_coordinates_are_cluster_tiles(run: Run) -> None:
    report = run("def f(i): return divmod(i, 4) if i < 8 else None", cluster_m=2)
    assert report.verdict is Verdict.CLEAN
    assert report.coverage.ghosts.count == 4  # row 3 of a 3-row output


@pytest.mark.parametrize("reference", ["nothing.py:f", "nothing", ":f", "nothing.py:", "nothing.py:a b"])
def test_a_reference_that_leads_nowhere(reference: str) -> None:
    problem = Problem(m=1, n=1, k=1)
    with pytest.raises(InputError, match="scheduler-file="):
        run_user_scheduler(reference, problem, Options())


def shared(tmp_path: Path, source: str, num_ids: int | None, jobs: int) -> TableSchedule:
    path = tmp_path / "sched.py"
    path.write_text(source)
    problem = Problem(m=3, n=4, k=1, block_m=1, block_n=1, block_k=1)
    options = Options(num_workers=2, panel_width=4)
    return run_user_scheduler(f"{path}:f", problem, options, num_ids=num_ids, jobs=jobs)


@pytest.mark.parametrize(
    ("form", "num_ids"), [("linear, supplied", 15), ("linear, supplied", None), ("generator", None)]
)
def test_processes_share_the_work_and_find_the_same(tmp_path: Path, form: str, num_ids: int | None) -> None:
    one, two = (shared(tmp_path, GOOD[form], num_ids, jobs) for jobs in (1, 2))
    for column in ("offsets", "linear", "m", "n", "emitted"):
        assert getattr(one, column).tolist() == getattr(two, column).tolist()
    assert one.remarks == two.remarks


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("def f(i):\n    assert i not in (5, 9)\n    return divmod(i, 4)", r"f\(5\) raised AssertionError"),
        ("def f(w):\n    for i in range(1040): yield 0, 0", "handed out 2080 tiles, and has not ended"),
    ],
)
def test_of_several_processes_the_first_fault_is_told(tmp_path: Path, source: str, text: str) -> None:
    with pytest.raises(NoScheduleError, match=text):
        shared(tmp_path, source, 12, 2)


def test_each_process_runs_its_share_alone(tmp_path: Path) -> None:
    note = f"open({str(tmp_path / 'seen')!r}, 'a').write(str(w) + ' ')"
    shared(tmp_path, f"def f(w):\n    {note}\n    yield from [(i // 4, i % 4) for i in range(w, 12, 2)]", None, 2)
    assert sorted((tmp_path / "seen").read_text().split()) == ["0", "1"]
