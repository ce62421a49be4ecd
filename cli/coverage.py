"""Report whether a schedule computes every output tile exactly once, and its waves and balance."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Verdict
from tilesched.simulator.schedule import Schedule
from tilesched.simulator.schedulers import get

from .options import (
    add_format_arguments,
    add_problem_arguments,
    add_scheduler_arguments,
    add_set_argument,
    integer,
    options_from_args,
    schedule_from_args,
    set_from_args,
)

if TYPE_CHECKING:
    from tilesched.verify.schedule_protocol import ProtocolCheck

__all__ = ["add_arguments", "run"]

_MAX_JOBS = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the coverage report."""
    add_problem_arguments(parser)
    add_scheduler_arguments(parser)
    add_format_arguments(parser, "text", "json", "markdown")
    protocol = parser.add_argument_group("barrier protocol")
    protocol.add_argument(
        "--protocol", metavar="NAME", help="also judge this built-in (see `protocols`) on the workers' tile lists"
    )
    add_set_argument(protocol)
    protocol.add_argument(
        "--role-scheduler",
        action="append",
        default=[],
        metavar="ROLE=NAME",
        help="load, mma or epilogue takes its tiles from this scheduler instead; may be repeated",
    )
    parser.add_argument(
        "--enumerate", action="store_true", help="look at every tile even where the mapping's structure decides"
    )
    parser.add_argument(
        "--jobs",
        type=integer,
        default=1,
        metavar="N",
        help="processes that look at tiles, 0 for all cores",
    )
    parser.add_argument("--heatmap", metavar="FILE", help="draw the tile grid to FILE.png or FILE.svg")


def run(args: argparse.Namespace) -> int:
    """Print the report; the exit code of its verdict. Raises InputError or NoScheduleError."""
    from dataclasses import replace

    from tilesched.verify.schedule_report import check_schedule

    from .coverage_format import render
    from .progress import progress_bar

    for name in ("set", "role_scheduler"):
        if getattr(args, name) and args.protocol is None:
            raise InputError(f"{name.replace('_', '-')}={getattr(args, name)[0]!r} needs --protocol")
    if not 0 <= args.jobs <= _MAX_JOBS:
        raise InputError(f"jobs={args.jobs} is outside [0, {_MAX_JOBS}]")
    jobs = args.jobs or os.cpu_count() or 1
    schedule = schedule_from_args(args, jobs=jobs)
    check = None if args.protocol is None else _check_protocol(args, schedule)
    if args.heatmap is not None:
        from tilesched.viz.heatmap import draw_heatmap, require_writable
        from tilesched.viz.tilemap import require_drawable, tile_map

        require_writable(args.heatmap)
        require_drawable(schedule.problem)
    with progress_bar("checking tiles") as progress:
        report = check_schedule(schedule, progress=progress, enumerate_all=args.enumerate, jobs=jobs)
    report = replace(report, protocol=check)
    if report.verdict is not Verdict.CLEAN or not args.quiet:
        print(render(report, args.format, only_findings=args.quiet), flush=True)
    if args.heatmap is not None:
        draw_heatmap(tile_map(schedule), args.heatmap)
    return report.verdict


def _check_protocol(args: argparse.Namespace, schedule: Schedule) -> ProtocolCheck:
    from tilesched.simulator.protocol.builtin import get as get_protocol
    from tilesched.verify.schedule_protocol import ROLES, check_protocol

    one = get_protocol(args.protocol)
    others: dict[str, Schedule] = {}
    for text in args.role_scheduler:
        role, _, name = text.partition("=")
        if role not in ROLES or role in others or not name:
            raise InputError(f"role-scheduler={text[:60]!r} is not ROLE=NAME with another ROLE of {', '.join(ROLES)}")
        others[role] = get(name).build(schedule.problem, options_from_args(args))
    return check_protocol(one, one.with_defaults(set_from_args(args)), schedule, others)
