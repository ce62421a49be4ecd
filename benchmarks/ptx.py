"""Speed and memory of the PTX machine, whole processes: `python benchmarks/ptx.py [--write]`."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from schedule import RESULTS, machine, memory_of, write_section

HEADING = "## PTX machine"
DATA = Path(__file__).parents[1] / "tests" / "data" / "ptx"

ALU = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .pred %p<2>; .reg .b32 %r<16>;
mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r5, 12345;
L: add.u32 %r5, %r5, %r1; xor.b32 %r6, %r5, %r2; mul.lo.u32 %r7, %r6, 3; and.b32 %r8, %r7, 255; sub.u32 %r9, %r8, %r1;
or.b32 %r10, %r9, %r6; shl.b32 %r11, %r10, 2; shr.u32 %r12, %r11, 3; mad.lo.u32 %r5, %r12, %r8, %r7;
add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 20000; @%p1 bra L; ret; }
"""


def command(folder: Path, text: str, launch: dict[str, object], policy: str) -> tuple[int, float, float]:
    """Warp-instructions, megabytes and seconds of `tilesched-sim run` as a process; it must be clean."""
    (folder / "k.ptx").write_text(text)
    (folder / "l.json").write_text(json.dumps(launch))
    arguments = ["run", str(folder / "k.ptx"), "--launch", str(folder / "l.json"), "--policy", policy]
    report = str(folder / "out.json")
    code = (
        "import contextlib; from tilesched.cli.main import main\n"
        f"with open({report!r}, 'w') as file, contextlib.redirect_stdout(file):\n"
        f"    assert main({[*arguments, '--format', 'json']}) == 0\npass"
    )
    peak, seconds = memory_of(code)
    return json.loads(Path(report).read_text())["runs"][0]["steps"], peak, seconds


def gemm(m: int, n: int, k: int, ctas: int) -> dict[str, object]:
    """The launch of the SM100 kernel of the tests for another shape."""
    body = json.loads((DATA / "gemm_sm100.json").read_text())
    body |= {"grid": [ctas], "sm_count": ctas}
    for name, shape in (("a", [m, k]), ("b", [n, k]), ("c", [m, n])):
        body["arrays"][name]["shape"] = shape
    body["params"][3:] = [{"scalar": value} for value in (m, n, k)]
    body["observe"]["problem"] |= {"m": m, "n": n, "k": k, "sm_count": ctas}
    return body


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    args = parser.parse_args()
    lines = [
        HEADING,
        "",
        f"`python benchmarks/ptx.py --write` on {machine()}, {time.strftime('%Y-%m-%d')}.",
        "",
        "| whole process | warp-instructions | time | a second | memory | bound |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    text = (DATA / "gemm_sm100.ptx").read_text()
    alu = {
        "schema": "tilesched/launch/1",
        "grid": [1],
        "block": [128],
        "arrays": {"out": {"shape": [1], "dtype": "u32"}},
        "params": [{"array": "out"}],
    }
    rows = [
        ("ALU loop, 4 warps", ALU, alu, "≥ 300,000 a second"),
        ("SM100 GEMM 512³, 4 CTAs", text, gemm(512, 512, 512, 4), "< 5 s, < 1 GB"),
        ("SM100 GEMM, 8 CTAs of 2 tiles × 4 k-blocks", text, gemm(512, 512, 256, 8), "≤ 5 s, ≤ 1 GB"),
        ("SM100 GEMM 512 × 512 × 1024, 4 CTAs", text, gemm(512, 512, 1024, 4), ""),
        ("SM100 GEMM 1024³, 8 CTAs", text, gemm(1024, 1024, 1024, 8), ""),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, source, launch, bound in rows:
            steps, peak, seconds = command(Path(folder), source, launch, "natural")
            lines.append(f"| {name} | {steps:,} | {seconds:.1f} s | {steps / seconds:,.0f} | {peak:.0f} MB | {bound} |")
    section = "\n".join(lines) + "\n"
    print(section)
    if args.write:
        write_section(section)


if __name__ == "__main__":
    main()
