"""Run a kernel on the GPU and record which CTA and role took which tile."""

from __future__ import annotations

import argparse

from tilesched.simulator.findings import Verdict

from .options import add_problem_arguments, add_worker_arguments, integer, options_from_args, problem_from_args

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `record`."""
    parser.add_argument(
        "--kernel", choices=("probe",), required=True, help="probe: the persistent scheduler in three roles, no GEMM"
    )
    add_problem_arguments(parser)
    add_worker_arguments(parser.add_argument_group("scheduler (tilelang.persistent)"))
    group = parser.add_argument_group("recording")
    group.add_argument("--capacity", type=integer, help="records a CTA and role (default: what the model needs)")
    group.add_argument("--out", required=True, metavar="FILE", help="trace to write: FILE.npz or FILE.jsonl")


def run(args: argparse.Namespace) -> int:
    """Record and write the trace; whether it is right is for `verify` to say."""
    from tilesched.kernels.probe import record_probe
    from tilesched.simulator.trace_codec import save

    trace = record_probe(problem_from_args(args), options_from_args(args), capacity=args.capacity)
    save(trace, args.out)
    records = len(trace.columns["cta"])
    print(f"{args.out}: {records} records of {trace.header.ctas} CTAs on {trace.header.device['name']}")
    return Verdict.CLEAN
