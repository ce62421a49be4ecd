"""Options that several commands share, and the parser that answers mistakes with one line."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import NoReturn

from tilesched.simulator.devices import DEVICES, device
from tilesched.simulator.errors import InputError
from tilesched.simulator.problem import Problem, require_int32
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedule import PhaseClock, Schedule
from tilesched.simulator.schedulers import DEFAULT, Options, SchedulerSpec, get

__all__ = [
    "DEFAULT_DEVICE",
    "Parser",
    "add_format_arguments",
    "add_problem_arguments",
    "add_scheduler_arguments",
    "add_set_argument",
    "add_worker_arguments",
    "cluster",
    "did_you_mean",
    "integer",
    "options_from_args",
    "problem_from_args",
    "schedule_from_args",
    "set_from_args",
]

DEFAULT_DEVICE = "b200"


class Parser(argparse.ArgumentParser):
    """argparse, with errors of one line and no abbreviated options."""

    def __init__(self, *, prog: str, description: str | None, epilog: str | None) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        raise InputError(" ".join(message.split()))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


def integer(text: str) -> int:
    """A decimal integer; anything else is argparse's error with the option's name."""
    if not re.fullmatch(r"[+-]?[0-9]{1,4000}", text):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not an integer")
    return int(text)


def cluster(text: str) -> tuple[int, int]:
    """CTAs of a cluster along M and N, from M or MxN; anything else is argparse's error."""
    match = re.fullmatch(r"([0-9]{1,9})(?:x([0-9]{1,9}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is neither CTAs along M nor MxN, such as 2 or 2x1")
    return int(match[1]), int(match[2] or 1)


def add_problem_arguments(parser: argparse.ArgumentParser) -> None:
    """--m to --sms: the GEMM and the device."""
    group = parser.add_argument_group("problem")
    group.add_argument("--m", type=integer, required=True, help="rows of the output, in elements")
    group.add_argument("--n", type=integer, required=True, help="columns of the output, in elements")
    group.add_argument("--k", type=integer, help="depth, in elements (default: one k-block)")
    group.add_argument("--block-m", type=integer, default=128, help="rows of a CTA tile (default: 128)")
    group.add_argument("--block-n", type=integer, default=256, help="columns of a CTA tile (default: 256)")
    group.add_argument("--block-k", type=integer, default=64, help="depth of a k-block (default: 64)")
    group.add_argument(
        "--cluster",
        type=cluster,
        metavar="M[xN]",
        help="CTAs of a cluster (default: the scheduler's, 2 for tilelang.manual_2cta, else 1)",
    )
    sms = group.add_mutually_exclusive_group()
    sms.add_argument(
        "--device",
        default=DEFAULT_DEVICE,
        help=f"GPU, for its SM count: {', '.join(DEVICES)} (default: b200)",
    )
    sms.add_argument("--sms", type=integer, help="SM count, of a device that is not listed")


def add_scheduler_arguments(parser: argparse.ArgumentParser) -> None:
    """--scheduler to --time-limit: which scheduler, with which parameters."""
    group = parser.add_argument_group("scheduler")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--scheduler", default=DEFAULT.name, help=f"see `tilesched-sim schedulers` (default: {DEFAULT.name})"
    )
    which.add_argument(
        "--scheduler-file",
        metavar="FILE.py:FUNCTION",
        help="your own: runs FUNCTION of FILE.py, a map linear id -> (m, n) or None, or a generator of a "
        "worker's (m, n)",
    )
    add_worker_arguments(group)
    file_group = parser.add_argument_group("with --scheduler-file")
    file_group.add_argument(
        "--ids",
        type=integer,
        metavar="N",
        help="ids that the kernel visits (default: until the function returns only None)",
    )
    file_group.add_argument(
        "--phase-clock",
        choices=[clock.value for clock in PhaseClock],
        help="what barrier phases count: with `tile`, waves that are skipped do no harm (default: wave)",
    )
    file_group.add_argument(
        "--time-limit", type=integer, metavar="S", help="seconds that the function may take (default: 60)"
    )


def add_worker_arguments(group: argparse._ActionsContainer) -> None:
    """--swizzle, --raster, --workers, --launched: the parameters of a scheduler."""
    group.add_argument(
        "--swizzle",
        "--panel-width",
        dest="panel_width",
        type=integer,
        metavar="W",
        help="panel width in tiles, in cluster tiles where clusters are scheduled (default: 8)",
    )
    group.add_argument(
        "--raster",
        help=f"{' or '.join(order.value for order in RasterOrder)} (default: panel-n, panels of columns "
        "walked along M; also `column`, and `row` for panel-m)",
    )
    group.add_argument(
        "--workers",
        type=integer,
        metavar="N",
        help="CTAs or clusters that the ids are dealt to (default: SMs)",
    )
    group.add_argument("--launched", type=integer, metavar="N", help="workers really in the grid (default: --workers)")


def add_format_arguments(parser: argparse.ArgumentParser, *formats: str) -> None:
    """--format and --quiet; the first format is the default."""
    group = parser.add_argument_group("output")
    group.add_argument("--format", choices=formats, default=formats[0], help=f"(default: {formats[0]})")
    group.add_argument("--quiet", action="store_true", help="print nothing when clean, else only findings")


def add_set_argument(group: argparse._ActionsContainer) -> None:
    """--set: the parameters of a protocol."""
    group.add_argument(
        "--set", action="append", default=[], metavar="NAME=N", help="a parameter, such as stages=3; may be repeated"
    )


def set_from_args(args: argparse.Namespace) -> dict[str, int]:
    """What was set; raises InputError."""
    return dict(_assignment(text) for text in args.set)


def _assignment(text: str) -> tuple[str, int]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise InputError(f"set={text[:40]!r} is not NAME=N")
    try:
        return name, integer(value)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"{name}: {error}") from error


def problem_from_args(args: argparse.Namespace, spec: SchedulerSpec | None = None) -> Problem:
    """The problem; raises InputError. `spec` gives the cluster if the user names none."""
    _require(sms=args.sms)
    cluster_m, cluster_n = args.cluster or (spec.cluster if spec else (1, 1))
    return Problem(
        m=args.m,
        n=args.n,
        k=args.k if args.k is not None else args.block_k,
        block_m=args.block_m,
        block_n=args.block_n,
        block_k=args.block_k,
        cluster_m=cluster_m,
        cluster_n=cluster_n,
        sm_count=args.sms if args.sms is not None else device(args.device).sm_count,
    )


def _require(**values: int | None) -> None:
    """InputError, under the name that the user typed, for a value that is given and not positive."""
    for name, value in values.items():
        if value is not None:
            require_int32(name, value)


def options_from_args(args: argparse.Namespace) -> Options:
    """The scheduler's options; raises InputError."""
    _require(swizzle=args.panel_width, workers=args.workers, launched=args.launched)
    return Options(
        panel_width=args.panel_width,
        raster=RasterOrder.parse(args.raster) if args.raster else None,
        num_workers=args.workers,
        launched=args.launched,
    )


def schedule_from_args(args: argparse.Namespace, *, jobs: int = 1) -> Schedule:
    """The schedule that the options ask for; a scheduler file runs in `jobs` processes if its form allows it.

    Raises InputError or NoScheduleError.
    """
    options = options_from_args(args)
    if args.scheduler_file is not None:
        from tilesched.verify.user_scheduler import run_user_scheduler

        if args.time_limit is not None and not 1 <= args.time_limit <= 86400:
            raise InputError(f"time-limit={args.time_limit} is outside [1, 86400] seconds")

        return run_user_scheduler(
            args.scheduler_file,
            problem_from_args(args),
            options,
            num_ids=args.ids,
            clock=PhaseClock(args.phase_clock or PhaseClock.WAVE),
            time_limit_s=args.time_limit if args.time_limit is not None else 60,
            jobs=jobs,
        )
    for name in ("ids", "phase_clock", "time_limit"):
        if getattr(args, name) is not None:
            raise InputError(f"{name.replace('_', '-')}={getattr(args, name)} needs --scheduler-file")
    spec = get(args.scheduler)
    return spec.build(problem_from_args(args, spec), options)
