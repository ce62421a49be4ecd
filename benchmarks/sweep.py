"""Speed of enumeration against C, of certificates, and of sweeps: `python benchmarks/sweep.py [--write]`. Needs gcc."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from schedule import alternate, grid, machine, memory_of, write_section
from tilesched.simulator.schedulers import Options, get
from tilesched.verify.coverage import check_coverage

HEADING = "## Enumeration, certificates and sweeps"
SIDE, WORKERS, PANEL_WIDTH = 10_000, 148, 8


def enumeration_against_c(scheduler: str, mapping: str) -> str:
    """A row: seconds to enumerate and check SIDE² tiles, ours and in C; the C program is started anew each time."""
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "coverage")
        subprocess.run(["gcc", "-O2", "-o", program, str(Path(__file__).with_name("coverage.c"))], check=True)
        command = [program, mapping, *map(str, (SIDE, SIDE, WORKERS, PANEL_WIDTH))]

        def ours() -> None:
            coverage = check_coverage(get(scheduler).build(grid(SIDE, SIDE), Options(panel_width=PANEL_WIDTH)))
            assert coverage.missing.count == coverage.repeated.count == 0

        def in_c() -> None:
            assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "0\n"

        mine, theirs = alternate(ours, in_c, rounds=7)
    return (
        f"| enumerate and check 10^8 tiles of `{scheduler}`, ours against C (`gcc -O2`, one thread) "
        f"| {mine:.2f} s / {theirs:.2f} s = {mine / theirs:.2f} × | ≤ 4 × |"
    )


def certificates() -> list[str]:
    """Rows for 10^12 tiles, through the whole command."""
    rows = []
    for options in (
        [],
        ["--scheduler", "tilelang.manual_1cta", "--swizzle", "9973"],
        ["--scheduler", "tilelang.manual_2cta", "--n", "999999"],
        ["--scheduler", "triton.grouped_persistent"],
        ["--scheduler", "cutlass.sm90_static", "--swizzle", "8"],
        ["--scheduler", "cutedsl.clc_dynamic", "--swizzle", "7"],
    ):
        arguments = ["--m", "1000000", "--n", "1000000", "--block-m", "1", "--block-n", "1", *options]
        peak, seconds = memory_of(f"from tilesched.cli.main import main; main({arguments})")
        rows.append(
            f"| 10^12 tiles, {' '.join(options) or 'defaults'}: the whole command, peak memory "
            f"| {seconds:.2f} s, {peak:.0f} MB | < 1 s, < 200 MB |"
        )
    return rows


def sweep_seconds(scheduler: str, *more: str) -> float:
    """Seconds of the whole command for 10^5 shapes."""
    tool = str(Path(sys.executable).with_name("tilesched-sim"))
    shapes = ["--m", "1:25", "--n", "1:25", "--sms", "1:20", "--swizzle", "1:8", "--block-m", "1", "--block-n", "1"]
    begin = time.perf_counter()
    done = subprocess.run([tool, "sweep", "--scheduler", scheduler, *shapes, *more], capture_output=True, text=True)
    assert "covered      100000 of 100000 shapes" in done.stdout, done
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write RESULTS.md")
    args = parser.parse_args()
    lines = [
        HEADING,
        "",
        f"`python benchmarks/sweep.py --write` on {machine()}, {time.strftime('%Y-%m-%d')}.",
        "",
        "| measurement | result | bound |",
        "| --- | --- | --- |",
        enumeration_against_c("tilelang.persistent", "t"),
        enumeration_against_c("cutlass.sm90_static", "c"),
        *certificates(),
    ]
    lines += [
        f"| sweep of 10^5 shapes, `{scheduler}`, no rules | {sweep_seconds(scheduler, '--no-rules'):.0f} s | < 60 s |"
        for scheduler in ("tilelang.persistent", "tilelang.manual_1cta")
    ]
    lines.append(
        f"| the same, `tilelang.manual_1cta` with rules, tested on 110,000 more "
        f"| {sweep_seconds('tilelang.manual_1cta'):.0f} s | |"
    )
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        write_section(text)


if __name__ == "__main__":
    main()
