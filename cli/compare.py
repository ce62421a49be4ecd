"""Rank all schedulers and parameters for one problem: waves, last wave, balance, operand traffic.

A wave is a round of the device, one CTA an SM. A and B are the different operand tiles that a wave reads, in the mean.
Parameters that are not given are tried: panel widths 1 to 16, both raster orders, clusters of 1 and 2.
"""

from __future__ import annotations

import argparse
import json

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Verdict
from tilesched.simulator.problem import require_int32
from tilesched.simulator.schedulers import SCHEDULERS, get
from tilesched.verify.compare import Candidate, compare

from .document import finding_json
from .options import (
    add_format_arguments,
    add_problem_arguments,
    add_worker_arguments,
    integer,
    options_from_args,
    problem_from_args,
)

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/compare/1"
_TOP = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `compare`."""
    add_problem_arguments(parser)
    group = parser.add_argument_group("scheduler")
    group.add_argument("--scheduler", default="all", metavar="LIST", help="names (default: all)")
    add_worker_arguments(group)
    parser.add_argument(
        "--top", type=integer, default=_TOP, metavar="N", help=f"rows of text and Markdown (default: {_TOP})"
    )
    add_format_arguments(parser, "text", "json", "markdown")


def run(args: argparse.Namespace) -> int:
    """Print the ranking: clean if any candidate is. Raises InputError."""
    require_int32("top", args.top)
    names = SCHEDULERS if args.scheduler == "all" else args.scheduler.split(",")
    problem = problem_from_args(args)
    candidates = compare([get(name) for name in names], problem, options_from_args(args), args.cluster)
    if not candidates:
        raise InputError(f"scheduler={args.scheduler}: none takes these parameters")
    code = Verdict.CLEAN if candidates[0].verdict is Verdict.CLEAN else Verdict.FINDINGS
    if args.quiet and code is Verdict.CLEAN:
        return code
    if args.format == "json":
        sizes = {name: getattr(problem, name) for name in type(problem).__slots__}
        rows = [_as_json(candidate) for candidate in candidates]
        print(json.dumps({"schema": SCHEMA, "problem": sizes, "candidates": rows}, indent=2))
        return code
    print(f"M={problem.m} N={problem.n}, {problem.tiles} tiles on {problem.sm_count} SMs")
    print("\n".join(_table(candidates[: args.top], args.format)))
    if len(candidates) > args.top:
        print(f"… {len(candidates) - args.top} more (--top)")
    return code


_HEAD = ("waves", "last wave", "balance", "A", "B", "operands", "scheduler", "parameters", "")


def _table(candidates: list[Candidate], form: str) -> list[str]:
    rows = [_HEAD, *map(_row, candidates)]
    if form == "markdown":
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return ["", lines[0], f"|{' --- |' * len(_HEAD)}", *lines[1:]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _row(candidate: Candidate) -> tuple[str, ...]:
    cost = candidate.cost
    costs = ("-",) * 6
    if cost is not None:
        traffic = cost.traffic
        costs = (
            str(cost.waves),
            f"{cost.last_wave_utilisation:.1%}",
            f"{cost.balance:.1%}",
            f"{traffic.a_tiles:.1f}",
            f"{traffic.b_tiles:.1f}",
            f"{cost.operands / 1024:.0f} Ki",
        )
    shown = {name: value for name, value in candidate.params.items() if name in ("cluster", "panel_width", "raster")}
    params = ", ".join(f"{name} {value}" for name, value in shown.items())
    return (*costs, candidate.scheduler, params, " ".join(candidate.kinds))


def _as_json(candidate: Candidate) -> dict[str, object]:
    cost = candidate.cost
    return {
        "scheduler": candidate.scheduler,
        "params": dict(candidate.params),
        "verdict": candidate.verdict.name.lower(),
        "cost": None
        if cost is None
        else {
            "waves": cost.waves,
            "last_wave_utilisation": cost.last_wave_utilisation,
            "balance": cost.balance,
            "a_tiles": cost.traffic.a_tiles,
            "b_tiles": cost.traffic.b_tiles,
            "waves_looked_at": cost.traffic.waves,
            "operand_elements": cost.operands,
        },
        "findings": [finding_json(finding) for finding in candidate.findings],
    }
