"""Our checker against SPIN on one protocol, gemm.pml: `python benchmarks/spin.py [--write]`.

First the verdicts: on right shapes and on planted bugs SPIN, our checker, and our explorer where it gets through must
agree; else the exit code is 1 (3 if SPIN met a limit). Then speed: growing shapes, each series until SPIN meets a
limit. Without spin and gcc nothing is measured, and the exit code is 3. --write puts both tables into RESULTS.md, after
those of protocol.py.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from schedule import RESULTS, machine, write_section
from spin_cases import CASES, Case, Shape
from tilesched.simulator.findings import Severity
from tilesched.simulator.protocol.explore import explore
from tilesched.simulator.protocol.ordered import check_ordered
from tilesched.simulator.protocol.program import Protocol

MODEL = Path(__file__).with_name("gemm.pml")
HEADING = "## Protocol checker against SPIN"
EXPLORED = 12_000  # states of our explorer, in the table of verdicts
DEPTH = 200_000  # steps of a path in SPIN; the longest one here has 22 000

# Each series grows in one direction; its last shape is that of issue 3.
SERIES = {
    "stages": [Shape(1, stages, 8, 4) for stages in range(1, 7)],
    "k-blocks": [Shape(1, 4, k_blocks, 2) for k_blocks in (8, 32, 128)],
    "tiles": [Shape(1, 4, 128, tiles) for tiles in (4, 14)],
    "epilogue warps": [Shape(1, 4, 8, 4, warps) for warps in (1, 2, 4)],
    "CTA pair": [Shape(2, stages, 4, 3) for stages in (1, 2, 3)],
}


class Answer(Enum):
    """What SPIN says of a protocol."""

    CLEAN = "clean"
    FINDING = "finding"
    LIMIT = "limit"  # no answer


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one run of SPIN's verifier."""

    megabytes: int
    seconds: int


@dataclass(frozen=True, slots=True)
class SpinRun:
    """One run: `why` is the error or the limit; CPU seconds are those of the verifier alone, not of its compilation."""

    answer: Answer
    why: str
    states: int
    seconds: float
    megabytes: float


def run_spin(macros: Sequence[str], limits: Limits, *, optimise: str = "-O2") -> SpinRun:
    """Generate, compile and run the verifier. Raises CalledProcessError if the text does not compile."""
    with tempfile.TemporaryDirectory() as folder:

        def call(*command: str) -> None:
            subprocess.run(command, cwd=folder, check=True, capture_output=True)

        call("spin", "-a", *macros, str(MODEL))
        call("gcc", optimise, "-DSAFETY", f"-DMEMLIM={limits.megabytes}", "-o", "pan", "pan.c")
        begin = cpu_of_children()
        done = subprocess.run(  # on SIGINT the verifier stops and reports what it has
            ["timeout", "--signal=INT", str(limits.seconds), "./pan", f"-m{DEPTH}", "-w24"],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        return _read(done.stdout + done.stderr, cpu_of_children() - begin, limits)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read(text: str, seconds: float, limits: Limits) -> SpinRun:
    """Read the verifier's report; what it does not say in so many words is an error of this script."""
    states = re.search(r"(\d+(?:\.\d+)?(?:e\+\d+)?) states, stored", text)
    memory = re.search(r"([\d.]+)\s+total actual memory usage", text)
    errors = re.search(r"errors: (\d+)", text)
    if states is None or memory is None or errors is None:
        raise RuntimeError(f"the verifier's report is not understood: {text}")
    error = re.search(r"pan:1: (.*?) \(at depth", text)
    answer, why = Answer.CLEAN, ""
    if error is not None:
        if "block in d_step" in error[1]:
            raise RuntimeError("the tensor pipe of gemm.pml is too short")
        answer, why = Answer.FINDING, error[1]
    elif "MEMLIM" in text or "out of memory" in text:
        answer, why = Answer.LIMIT, f"{limits.megabytes} MB"
    elif "Interrupted" in text:
        answer, why = Answer.LIMIT, f"{limits.seconds} s"
    elif "search depth too small" in text:
        answer, why = Answer.LIMIT, f"{DEPTH} steps of a path"
    elif "Search not completed" in text or errors[1] != "0":
        raise RuntimeError(f"the verifier's report is not understood: {text}")
    return SpinRun(answer, why, int(float(states[1])), seconds, float(memory[1]))


# -- verdicts ----------------------------------------------------------------------------------------------------------


def our_kinds(protocol: Protocol) -> list[str]:
    return [str(finding.kind) for finding in check_ordered(protocol) if finding.severity is Severity.ERROR]


def compare(case: Case, limits: Limits) -> tuple[bool | None, str]:
    """Whether all that have a verdict agree, None if SPIN has none; and the row of the table."""
    protocol = case.edit(case.shape.protocol(), case.shape)
    named = [f"-D{macro}" if "=" in macro else f"-DMUTANT_{macro}" for macro in case.macros]
    spin = run_spin([*case.shape.macros(), *named], limits, optimise="-O0")  # small: compiling takes longest
    kinds = our_kinds(protocol)
    explored = explore(protocol, max_states=EXPLORED)
    verdicts = {bool(kinds), spin.answer is Answer.FINDING}
    if explored.found or explored.complete:
        verdicts.add(bool(explored.found))
    agree = len(verdicts) == 1 if spin.answer is not Answer.LIMIT else None
    why = spin.why.replace("|", "\\|")
    shown = (
        case.name,
        str(case.shape),
        f"{spin.answer.value}: `{why}`" if why else spin.answer.value,
        ", ".join(dict.fromkeys(kinds)) or "clean",
        "finding" if explored.found else "clean" if explored.complete else "–",
        {True: "yes", False: "**no**", None: "–"}[agree],
    )
    return agree, f"| {' | '.join(shown)} |"


# -- speed -------------------------------------------------------------------------------------------------------------


def our_seconds(shape: Shape) -> float:
    """CPU seconds of making the protocol and checking it, the median of five."""
    times = []
    for _ in range(5):
        begin = time.process_time()
        assert not our_kinds(shape.protocol())
        times.append(time.process_time() - begin)
    return statistics.median(times)


def measure(shapes: Sequence[Shape], limits: Limits) -> Iterator[str]:
    """Rows of a series, up to the first shape for which SPIN meets a limit."""
    for shape in shapes:
        spin, ours = run_spin(shape.macros(), limits), our_seconds(shape)
        if spin.answer is Answer.FINDING:
            raise RuntimeError(f"{shape}: SPIN finds {spin.why} in a right protocol")
        over = spin.answer is Answer.LIMIT
        more = "> " if over else ""
        cells = (
            str(shape),
            f"{more}{spin.states:,}".replace(",", " "),
            f"{more}{spin.seconds:.2f} s",
            f"{more}{spin.megabytes:.0f} MB",
            f"{ours:.4f} s",
            f"{more}{spin.seconds / ours:.0f} ×",
            f"stopped by the limit of {spin.why}" if over else "clean",
        )
        yield f"| {' | '.join(cells)} |"
        if over:
            return


# -- the command -------------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    mode.add_argument("--verdicts", action="store_true", help="only the table of verdicts")
    parser.add_argument("--megabytes", type=int, default=4096, help="limit of the verifier's memory")
    parser.add_argument("--seconds", type=int, default=600, help="limit of a run of the verifier")
    args = parser.parse_args()
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        print(f"nothing measured: {' and '.join(missing)} not found (Debian packages spin and gcc)")
        return 3
    limits = Limits(args.megabytes, args.seconds)
    lines: list[str] = []

    def show(*more: str) -> None:
        lines.extend(more)
        print(*more, sep="\n", flush=True)

    verdict = show_verdicts(show, limits)
    if not args.verdicts:
        show_speed(show, limits)
    if args.write:
        write_section("\n".join(lines))
    return verdict


def show_verdicts(show: Callable[..., None], limits: Limits) -> int:
    """Show the table. Returns 0 if all rows agree, 1 if one does not, 3 if SPIN met a limit in one."""
    version = subprocess.run(["spin", "-V"], check=True, capture_output=True, text=True).stdout.split(" -- ")[0].strip()
    command = f"python benchmarks/spin.py --write --megabytes {limits.megabytes} --seconds {limits.seconds}"
    show(
        HEADING,
        "",
        f"`{command}` on {machine()}, {version}, {time.strftime('%Y-%m-%d')}. One epilogue warp a CTA unless said, "
        f"direct stores, two accumulator stages. Verdicts; – is an explorer that met its limit of {EXPLORED} states:",
        "",
        "| change | shape | SPIN | our checker | our explorer | agree |",
        "| --- | --- | --- | --- | --- | --- |",
    )
    answers = []
    for case in CASES:
        agree, row = compare(case, limits)
        answers.append(agree)
        show(row)
    show("", f"{len(CASES)} cases, {answers.count(False)} disagreements, {answers.count(None)} without an answer.", "")
    return 1 if False in answers else 3 if None in answers else 0


def show_speed(show: Callable[..., None], limits: Limits) -> None:
    """Show the table, series by series."""
    show(
        "Speed, in CPU seconds: SPIN's verifier alone (`gcc -O2 -DSAFETY`; without generating and compiling it), "
        f"run once with limits of {limits.megabytes} MB and {limits.seconds} s; ours is the median of five.",
        "",
        "| shape | states | SPIN | memory | ours | ratio | SPIN says |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    )
    for shapes in SERIES.values():
        for row in measure(shapes, limits):
            show(row)


if __name__ == "__main__":
    sys.exit(main())
