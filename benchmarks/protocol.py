"""Speed of the protocol checker, as ratios within one run: `python benchmarks/protocol.py [--write]`."""

from __future__ import annotations

import argparse
import time

from schedule import RESULTS, alternate, machine, write_section
from tilesched.simulator.protocol.builtin import BUILT_INS
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.verify.protocol_verdict import Subject, judge

HEADING = "## Protocol checker"
K_BLOCKS = 128  # 8192^3 in tiles of 128 × 256 × 64
WORKERS = {14: 124, 13: 24}  # tiles of a worker: workers that have as many, on 148 SMs


def check(name: str, tiles: int) -> None:
    """Check one worker with so many tiles; it must be clean."""
    built_in = BUILT_INS[name]
    assert not check_ordered(built_in.make((K_BLOCKS,) * tiles, built_in.with_defaults({})))


def any_shape(name: str) -> float:
    """CPU seconds for the verdict on every K and every tile count; it must be clean."""
    built_in = BUILT_INS[name]
    begin = time.process_time()
    verdict = judge(
        Subject(name, built_in.make, built_in.with_defaults({}), built_in.period, built_in.has_k_blocks),
        k_blocks=None,
        tiles=None,
    )
    assert not verdict.findings
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    args = parser.parse_args()
    one, pair = alternate(lambda: check("gemm-1cta", 14), lambda: check("gemm-2cta", 14), rounds=5)
    begin = time.process_time()
    for tiles in WORKERS:  # workers with equally many tiles have the same protocol
        check("gemm-1cta", tiles)
    every = time.process_time() - begin
    lines = [
        HEADING,
        "",
        f"`python benchmarks/protocol.py --write` on {machine()}, {time.strftime('%Y-%m-%d')}.",
        "",
        "| measurement (CPU seconds) | result | bound |",
        "| --- | --- | --- |",
        f"| gemm-1cta, 14 tiles × {K_BLOCKS} k-blocks, 4 stages; gemm-2cta against it "
        f"| {one:.2f} s; {pair:.2f} s = {pair / one:.1f} × | ≤ 4 × |",
        f"| gemm-1cta, all 148 workers of 8192³ ({len(WORKERS)} different ones) | {every:.2f} s | < 2 s |",
        *(
            f"| {name}, every K and every tile count | {any_shape(name):.1f} s | {'< 10 s' if '1cta' in name else ''} |"
            for name in ("gemm-1cta", "gemm-2cta", "hopper-cooperative", "hopper-pingpong")
        ),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        write_section(text)


if __name__ == "__main__":
    main()
