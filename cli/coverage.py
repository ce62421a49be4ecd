"""Report whether a schedule computes every output tile exactly once, and its waves and balance."""

from __future__ import annotations

import argparse

from tilesched.simulator.findings import Verdict

from .options import add_format_arguments, add_problem_arguments, add_scheduler_arguments, schedule_from_args

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the coverage report."""
    add_problem_arguments(parser)
    add_scheduler_arguments(parser)
    add_format_arguments(parser, "text", "json", "markdown")
    parser.add_argument("--heatmap", metavar="FILE", help="draw the tile grid to FILE.png or FILE.svg")


def run(args: argparse.Namespace) -> int:
    """Print the report; the exit code of its verdict. Raises InputError or NoScheduleError."""
    from tilesched.verify.schedule_report import check_schedule

    from .coverage_format import render
    from .progress import progress_bar

    schedule = schedule_from_args(args)
    if args.heatmap is not None:
        from tilesched.viz.heatmap import draw_heatmap, require_writable
        from tilesched.viz.tilemap import require_drawable, tile_map

        require_writable(args.heatmap)
        require_drawable(schedule.problem)
    with progress_bar("checking tiles") as progress:
        report = check_schedule(schedule, progress=progress)
    if report.verdict is not Verdict.CLEAN or not args.quiet:
        print(render(report, args.format, only_findings=args.quiet), flush=True)
    if args.heatmap is not None:
        draw_heatmap(tile_map(schedule), args.heatmap)
    return report.verdict
