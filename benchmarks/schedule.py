"""Speed of the schedule model, as ratios within one run: `python benchmarks/schedule.py [--write]`.

Each pair is measured alternately and compared by medians. --write puts the table into RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tilesched.simulator.problem import Problem
from tilesched.simulator.schedulers import DEFAULT, Options
from tilesched.verify.coverage import check_coverage

RESULTS = Path(__file__).with_name("RESULTS.md")


def write_section(text: str) -> None:
    """Put a section, which begins with its heading, into RESULTS.md, in place of the one with that heading."""
    heading = text.splitlines()[0]
    parts = re.split(r"^(?=## )", RESULTS.read_text() if RESULTS.exists() else "# Results\n\n", flags=re.MULTILINE)
    kept = [part for part in parts if part.splitlines()[0] != heading]
    place = next((at for at, part in enumerate(parts) if part.splitlines()[0] == heading), len(kept))
    kept.insert(place, text.rstrip() + "\n\n")
    RESULTS.write_text("".join(kept).rstrip() + "\n")


HEADING = "## Schedule model"
PANEL_WIDTH = 8


def alternate(first: Callable[[], None], second: Callable[[], None], rounds: int) -> tuple[float, float]:
    """Median seconds of two functions, run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for function, kept in ((first, times[0]), (second, times[1])):
            begin = time.perf_counter()
            function()
            kept.append(time.perf_counter() - begin)
    return statistics.median(times[0]), statistics.median(times[1])


def command_against_numpy() -> tuple[float, float]:
    """The whole command against the start of NumPy."""
    tool = str(Path(sys.executable).with_name("tilesched-sim"))

    def run(*command: str) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return alternate(
        lambda: run(tool, "--m", "8192", "--n", "8192"), lambda: run(sys.executable, "-c", "import numpy"), rounds=21
    )


def grid(tiles_m: int, tiles_n: int) -> Problem:
    return Problem(m=tiles_m, n=tiles_n, k=1, block_m=1, block_n=1, block_k=1)


def naive_check(tiles_m: int, tiles_n: int, workers: int) -> int:
    """The scheduler's loop as the original has it, and a byte a tile; returns how many tiles are wrong."""
    seen = bytearray(tiles_m * tiles_n)
    for worker in range(workers):
        linear = worker
        while linear < tiles_m * tiles_n:
            group = linear // (tiles_m * PANEL_WIDTH)
            base = group * PANEL_WIDTH
            width = max(1, min(PANEL_WIDTH, tiles_n - base))
            rest = linear - group * tiles_m * PANEL_WIDTH
            m, n = rest // width, base + rest % width
            seen[m * tiles_n + n] += 1
            linear += workers
    return len(seen) - seen.count(1)


def check_against_naive(tiles_m: int, tiles_n: int) -> tuple[float, float]:
    """Enumerating and checking a grid against the naive Python loop."""

    def ours() -> None:
        coverage = check_coverage(DEFAULT.build(grid(tiles_m, tiles_n), Options(panel_width=PANEL_WIDTH)))
        assert coverage.missing.count == coverage.repeated.count == 0

    def naive() -> None:
        assert naive_check(tiles_m, tiles_n, workers=148) == 0

    return alternate(ours, naive, rounds=3)


def memory_of(code: str) -> tuple[float, float]:
    """Peak resident megabytes (VmHWM, which starts anew with each program) and seconds of a Python program."""
    begin = time.perf_counter()
    report = "; print(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    done = subprocess.run([sys.executable, "-c", code + report], check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) / 1024, time.perf_counter() - begin


def large_grid() -> list[str]:
    """Rows for 10^9 tiles that are looked at: panels of the default width, wide ones, and a long grid; the last one
    repeats tiles. Then 10^12 tiles that the structure of the mapping decides."""
    floor, _ = memory_of("pass")
    rows = []
    for m, n, more in (
        (31623, 31623, []),
        (31623, 31623, ["--swizzle", "5000"]),
        (1_000_000, 1000, []),
        (31623, 31623, ["--launched", "149"]),
        (10**6, 10**6, None),
    ):
        more = [] if more is None else ["--enumerate", *more]
        options = ["--m", str(m), "--n", str(n), "--block-m", "1", "--block-n", "1", *more]
        peak, seconds = memory_of(f"from tilesched.cli.main import main; main({options})")
        what = f"{m} × {n} tiles {' '.join(more)}: peak memory above the interpreter's {floor:.0f} MB"
        rows.append(f"| {what} | {peak - floor:.0f} MB, {seconds:.1f} s | < 300 MB |")
    return rows


def machine() -> str:
    model = next(
        (line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, NumPy {np.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    args = parser.parse_args()
    command, numpy = command_against_numpy()
    ours, naive = check_against_naive(3163, 3163)
    lines = [
        HEADING,
        "",
        f"`python benchmarks/schedule.py --write` on {machine()}, {time.strftime('%Y-%m-%d')}.",
        "",
        "| measurement | result | bound |",
        "| --- | --- | --- |",
        f"| `tilesched-sim --m 8192 --n 8192` against `python -c 'import numpy'` "
        f"| {command:.3f} s / {numpy:.3f} s = {command / numpy:.2f} × | ≤ 2 × |",
        f"| enumerate and check 10^7 tiles, naive Python loop against ours "
        f"| {naive:.2f} s / {ours:.3f} s = {naive / ours:.0f} × | ≥ 50 × |",
        *large_grid(),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        write_section(text)


if __name__ == "__main__":
    main()
