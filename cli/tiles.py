"""Print every worker's work tiles in order.

Coordinates are those of cluster tiles where clusters are scheduled: CTA (i, j) of a cluster of MxN computes
CTA tile (m * M + i, n * N + j). A work tile is a ghost when any of its CTA tiles lies outside the output.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import numpy as np

from tilesched.simulator.findings import Verdict
from tilesched.simulator.schedule import Schedule

from .options import add_problem_arguments, add_scheduler_arguments, schedule_from_args

__all__ = ["add_arguments", "run"]

SCHEMA = "tilesched/tiles/1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `tiles`."""
    add_problem_arguments(parser)
    add_scheduler_arguments(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="(default: text)")


def run(args: argparse.Namespace) -> int:
    """Print the work tiles, a worker at a time. Raises InputError or NoScheduleError."""
    schedule = schedule_from_args(args)
    if args.format == "json":
        _print_json(schedule)
    else:
        for worker, tiles in enumerate(_workers(schedule)):
            shown = " ".join(f"({t['m']},{t['n']}){'*' if t['ghost'] else ''}" for t in tiles)
            print(f"worker {worker}: {shown or '-'}")
    return Verdict.CLEAN


def _print_json(schedule: Schedule) -> None:
    problem = schedule.problem
    head = {
        "schema": SCHEMA,
        "scheduler": schedule.name,
        "params": dict(schedule.params),
        "problem": {name: getattr(problem, name) for name in type(problem).__slots__},
    }
    print(json.dumps(head)[:-1] + ', "workers": [')
    for worker, tiles in enumerate(_workers(schedule)):
        print(f"{',' if worker else ''}{json.dumps(tiles)}")
    print("]}")


def _workers(schedule: Schedule) -> Iterator[list[dict[str, object]]]:
    problem = schedule.problem
    whole_m, whole_n = problem.tiles_m // problem.cluster_m, problem.tiles_n // problem.cluster_n
    for worker in range(schedule.num_workers):
        rows = schedule.worker(worker)
        ghost = (rows.m < 0) | (rows.m >= whole_m) | (rows.n < 0) | (rows.n >= whole_n)
        columns = {
            "linear": rows.linear,
            "m": rows.m,
            "n": rows.n,
            "batch": rows.batch,
            "k_begin": rows.k_begin,
            "k_end": rows.k_end,
            "ghost": ghost,
        }
        lists = [np.asarray(column).tolist() for column in columns.values()]
        yield [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
