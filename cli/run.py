"""Run a kernel's PTX on the CPU and say what is wrong with the run: hangs, memory, barriers, copies."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Finding, Verdict, verdict_of
from tilesched.simulator.ptx.engines import Ordering, Policy
from tilesched.simulator.ptx.launch import Launch
from tilesched.simulator.ptx.lexer import MAX_TEXT
from tilesched.simulator.ptx.machine import Limits
from tilesched.simulator.ptx.run import Result
from tilesched.simulator.ptx.run import run as simulate
from tilesched.simulator.trace_codec import save

from .document import document, finding_json
from .options import add_format_arguments, integer
from .progress import progress_bar

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/run/1"
_ALL = "all"
_MAX_DESCRIPTION = 2**20  # bytes of a launch description


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    parser.add_argument("ptx", metavar="KERNEL.ptx", help="PTX text")
    parser.add_argument("--launch", required=True, metavar="L.json", help="launch description (docs/ptx.md)")
    orders = parser.add_argument_group("ordering of asynchronous copies")
    policies = [str(policy) for policy in Policy]
    orders.add_argument(
        "--policy",
        choices=[*policies, _ALL],
        default=_ALL,
        help="when copies end; all: one run after the other under each, until one has findings (default)",
    )
    orders.add_argument("--seed", type=integer, default=0, help="of the random policy (default: 0)")
    orders.add_argument(
        "--delay",
        action="append",
        default=[],
        metavar="CTA:OFFSET",
        help="copies that signal the mbarrier at this offset of shared memory end last; may be repeated",
    )
    least = Limits()
    limits = parser.add_argument_group("limits: a run that exceeds one is incomplete")
    limits.add_argument("--max-steps", type=integer, default=least.steps, metavar="N", help="warp-instructions")
    limits.add_argument("--max-seconds", type=float, default=least.seconds, metavar="S", help="wall clock")
    limits.add_argument("--max-memory", type=integer, default=least.memory, metavar="BYTES", help="arrays and CTAs")
    parser.add_argument("--observe", metavar="T.npz", help="write the schedule that the stores show, as a trace")
    add_format_arguments(parser, "text", "json", "markdown")


def run(args: argparse.Namespace) -> int:
    """Run under each ordering, print, and return the exit code. Raises InputError."""
    text = _read(args.ptx, MAX_TEXT).decode(errors="replace")
    launch = _launch(args.launch)
    if args.observe is not None and launch.observe is None:
        raise InputError("--observe: the launch description does not say what to observe")
    contents = _contents(launch, Path(args.launch).parent)
    delayed = frozenset(_delay(word) for word in args.delay)
    limits = Limits(steps=args.max_steps, seconds=args.max_seconds, memory=args.max_memory)
    runs: list[tuple[Policy, Result]] = []
    for policy in [Policy(args.policy)] if args.policy != _ALL else list(Policy):
        ordering = Ordering(policy, args.seed, delayed)
        with progress_bar(f"{policy} ordering, CTAs") as progress:
            runs.append((policy, simulate(text, launch, contents, ordering=ordering, limits=limits, progress=progress)))
        if verdict_of(runs[-1][1].findings) is not Verdict.CLEAN:
            break
    result = runs[-1][1]
    if args.observe is not None and result.trace is not None:
        save(result.trace, args.observe)
    code = verdict_of(result.findings)
    if code is Verdict.CLEAN and args.quiet:
        return code
    print(_json(runs) if args.format == "json" else _document(args, launch, runs))
    return code


def _read(name: str, limit: int) -> bytes:
    try:
        with Path(name).open("rb") as file:
            body = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None
    if len(body) > limit:
        raise InputError(f"{name} is longer than {limit} bytes")
    return body


def _launch(name: str) -> Launch:
    try:
        body = json.loads(_read(name, _MAX_DESCRIPTION))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON: {str(error)[:100]}") from None
    try:
        return Launch.from_json(body)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _contents(launch: Launch, folder: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays that stand in files beside the description."""
    found = {}
    for name, array in launch.arrays.items():
        if array.file is not None:
            try:
                found[name] = np.load(folder / array.file, allow_pickle=False, mmap_mode="r")
            except (OSError, ValueError) as error:
                raise InputError(f"array {name}: {array.file}: {str(error)[:100]}") from None
            if not isinstance(found[name], np.ndarray):
                raise InputError(f"array {name}: {array.file} is not a .npy file")
    return found


def _delay(word: str) -> tuple[int, int]:
    cta, _, offset = word.partition(":")
    try:
        return int(cta), int(offset, 0)
    except ValueError:
        raise InputError(f"delay={word[:40]!r} is not CTA:OFFSET") from None


def _waiting(findings: Sequence[Finding]) -> list[Mapping[str, object]]:
    return [one for finding in findings for one in _list(finding.facts.get("waiting"))]


def _list(value: object) -> list[Mapping[str, object]]:
    return value if isinstance(value, list) else []


def _document(args: argparse.Namespace, launch: Launch, runs: list[tuple[Policy, Result]]) -> str:
    policy, result = runs[-1]
    grid = " × ".join(map(str, launch.grid))
    facts = {
        "launch": f"grid {grid}, cluster {' × '.join(map(str, launch.cluster))}, {launch.block[0]} threads along x",
        "orderings": ", ".join(str(one) for one, _ in runs),
        "executed": f"{sum(one.steps for _, one in runs)} warp-instructions, "
        f"{sum(one.copies for _, one in runs)} copies",
    }
    if result.findings:
        facts["ordering"] = str(policy)
    facts |= {f"thread {n}": f"{one['who']} {one['text']}" for n, one in enumerate(_waiting(result.findings), start=1)}
    title = f"{args.ptx}: kernel {result.kernel}"
    return document(args.format, title, {} if args.quiet else facts, result.findings, "")


def _json(runs: list[tuple[Policy, Result]]) -> str:
    policy, result = runs[-1]
    body = {
        "schema": SCHEMA,
        "kernel": result.kernel,
        "verdict": verdict_of(result.findings).name.lower(),
        "policy": str(policy),
        "runs": [{"policy": str(one), "steps": each.steps, "copies": each.copies} for one, each in runs],
        "written": result.written,
        "findings": [finding_json(finding) for finding in result.findings],
    }
    return json.dumps(body, indent=2)
