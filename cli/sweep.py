"""Judge many shapes: ranges and lists of every parameter, and the rule that says which of them are safe.

VALUES are integers and ranges, joined by commas: 4096 or 128:4096 or 128:4096:128,8192 (the end is included). Shapes
that a scheduler does not take are set apart. Ctrl-C ends a sweep early, with what was covered.
"""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from functools import partial
from typing import Any

from tilesched.simulator.devices import DEVICES, device
from tilesched.simulator.errors import InputError
from tilesched.simulator.problem import require_int32
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedule import PhaseClock
from tilesched.simulator.schedulers import DEFAULT, SCHEDULERS, Options, get
from tilesched.verify.executors import Executor, dask_cluster, local_cores
from tilesched.verify.safe_shapes import shape_rules
from tilesched.verify.shapes import REFUSED, Builder, Space, build_from_file, build_registered
from tilesched.verify.sweep import Stopped, Sweep, run_sweep

from .options import DEFAULT_DEVICE, add_format_arguments, cluster, integer
from .progress import progress_bar
from .sweep_format import FLAGS, exit_code, render, require_table_path, write_table

__all__ = ["add_arguments", "run"]

_MAX_SHAPES = 1_000_000
_MAX_SPACE = 2**62  # shapes have 64-bit numbers
_MAX_LIST = 100_000  # values of one list
_SMALL = 2_000  # shapes, up to which starting processes takes longer than judging
_OWN_FLAG = ("panel_width", "num_workers", "launched", "raster")  # options that are not given by --set


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `sweep`."""
    shapes = parser.add_argument_group("problem")
    for name, required, what in (
        ("m", True, "rows of the output, in elements"),
        ("n", True, "columns of the output, in elements"),
        ("k", False, "depth, in elements (default: one k-block)"),
        ("block-m", False, "rows of a CTA tile (default: 128)"),
        ("block-n", False, "columns of a CTA tile (default: 256)"),
        ("block-k", False, "depth of a k-block (default: 64)"),
        ("sms", False, "SM count"),
    ):
        shapes.add_argument(f"--{name}", required=required, metavar="VALUES", help=what)
    shapes.add_argument("--device", metavar="LIST", help=f"GPUs, for their SM counts: {', '.join(DEVICES)}")
    shapes.add_argument("--cluster", metavar="LIST", help="CTAs of a cluster, such as 1,2x1 (default: the scheduler's)")
    which = parser.add_argument_group("scheduler")
    one = which.add_mutually_exclusive_group()
    one.add_argument(
        "--scheduler", default=DEFAULT.name, metavar="LIST", help=f"names, or all (default: {DEFAULT.name})"
    )
    one.add_argument("--scheduler-file", metavar="FILE.py:FUNCTION", help="your own, see `tilesched-sim --help`")
    which.add_argument("--swizzle", "--panel-width", dest="panel_width", metavar="VALUES", help="panel width in tiles")
    which.add_argument("--raster", metavar="LIST", help="panel-n, panel-m")
    which.add_argument("--workers", dest="num_workers", metavar="VALUES", help="CTAs or clusters that ids are dealt to")
    which.add_argument("--launched", metavar="VALUES", help="workers really in the grid")
    which.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUES", help="any other parameter; may be repeated"
    )
    which.add_argument("--phase-clock", choices=[clock.value for clock in PhaseClock], help="with --scheduler-file")
    sweep = parser.add_argument_group("sweep")
    where = sweep.add_mutually_exclusive_group()
    where.add_argument("--jobs", type=integer, metavar="N", help="processes (default: one a core, one for few shapes)")
    where.add_argument("--dask", metavar="ADDRESS", help="run on this Dask cluster, such as tcp://host:8786")
    sweep.add_argument("--max-seconds", type=integer, metavar="S", help="end early after so many seconds of judging")
    sweep.add_argument(
        "--max-shapes", type=integer, metavar="N", help=f"judge so many at most (default: {_MAX_SHAPES})"
    )
    sweep.add_argument("--no-rules", action="store_true", help="do not look for the rule of the failing shapes")
    sweep.add_argument("--out", metavar="FILE", help="write a row for each shape to FILE.csv or FILE.json")
    add_format_arguments(parser, "text", "json")


def run(args: argparse.Namespace) -> int:
    """Sweep, print the summary, write the table; the exit code. Raises InputError."""
    for name in ("jobs", "max_seconds", "max_shapes"):
        if getattr(args, name) is not None:
            require_int32(name.replace("_", "-"), getattr(args, name))
    if args.out is not None:
        require_table_path(args.out)
    space, build = _space(args), _builder(args)
    executor = _executor(args, space)
    with progress_bar("shapes") as progress, _interrupts() as interrupted:
        sweep = run_sweep(
            space,
            build,
            executor,
            max_shapes=args.max_shapes or _MAX_SHAPES,
            max_seconds=args.max_seconds,
            interrupted=interrupted,
            progress=progress,
        )
    _require_some(sweep)
    if args.out is not None:
        write_table(sweep.table, args.out)
    rules = None
    if not args.no_rules and sweep.stopped in (None, Stopped.COUNT):
        with suppress(KeyboardInterrupt):  # the sweep is done; only its rules are given up
            rules = shape_rules(sweep, build, executor)
    code = exit_code(sweep)
    if code or not args.quiet:
        print(render(sweep, rules, args.format), flush=True)
    return code


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Yield whether Ctrl-C was pressed; a second one ends the command as usual."""
    pressed = False

    def note(*_: object) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _require_some(sweep: Sweep) -> None:
    """InputError where no shape at all is accepted."""
    verdicts = sweep.table["verdict"]
    if verdicts.size and (verdicts == REFUSED).all():
        raise InputError(f"none of {verdicts.size} shapes is accepted; the first: {sweep.table['reason'][0]}")


def _executor(args: argparse.Namespace, space: Space) -> Executor:
    if args.dask is not None:
        return dask_cluster(args.dask)
    few = min(space.size, args.max_shapes or _MAX_SHAPES) <= _SMALL and args.scheduler_file is None
    return local_cores(1 if args.jobs is None and few else args.jobs)


def _builder(args: argparse.Namespace) -> Builder:
    if args.scheduler_file is not None:
        return partial(build_from_file, clock=PhaseClock(args.phase_clock or PhaseClock.WAVE))
    if args.phase_clock is not None:
        raise InputError(f"phase-clock={args.phase_clock} needs --scheduler-file")
    return build_registered


def _space(args: argparse.Namespace) -> Space:
    axes: dict[str, Sequence[Any]] = {"scheduler": _schedulers(args)}
    defaults = {"block_m": "128", "block_n": "256", "block_k": "64"}
    for name in ("m", "n", "block_m", "block_n", "block_k"):
        axes[name] = values(name.replace("_", "-"), getattr(args, name) or defaults[name])
    axes["k"] = values("k", args.k) if args.k else axes["block_k"]
    if args.k is None and len(axes["block_k"]) > 1:
        raise InputError("block-k has several values, so k is needed")
    axes["sm_count"] = _sm_counts(args)
    if args.cluster:
        axes["cluster"] = _each("cluster", args.cluster, cluster)
    if args.raster:
        axes["raster"] = _each("raster", args.raster, RasterOrder.parse)
    for name in ("panel_width", "num_workers", "launched"):
        if getattr(args, name):
            axes[name] = values(FLAGS.get(name, name), getattr(args, name))
    space = Space({**axes, **dict(map(_setting, args.set))})
    if space.size > _MAX_SPACE:
        raise InputError(f"shapes={space.size} is outside [1, {_MAX_SPACE}]")
    return space


def _schedulers(args: argparse.Namespace) -> Sequence[str]:
    if args.scheduler_file is not None:
        return (args.scheduler_file,)
    if args.scheduler == "all":
        return tuple(SCHEDULERS)
    return _each("scheduler", args.scheduler, lambda name: get(name).name)


def _sm_counts(args: argparse.Namespace) -> Sequence[int]:
    if args.sms and args.device:
        raise InputError(f"sms={args.sms} and device={args.device} exclude each other")
    if args.sms:
        return values("sms", args.sms)
    return _each("device", args.device or DEFAULT_DEVICE, lambda name: device(name).sm_count)


def _setting(text: str) -> tuple[str, Sequence[int]]:
    name, _, given = text.partition("=")
    known = [field.name for field in fields(Options) if field.name not in _OWN_FLAG]
    if name not in known:
        raise InputError(f"set={text[:60]!r} is not NAME=VALUES with NAME of: {', '.join(known) or '(none)'}")
    return name, values(name, given)


def _each(name: str, text: str, parse: Callable[[str], Any]) -> tuple[Any, ...]:
    """The values of a comma-separated list, each once. Raises InputError."""
    try:
        return tuple(dict.fromkeys(parse(part) for part in text.split(",")))
    except argparse.ArgumentTypeError as error:
        raise InputError(f"{name}: {error}") from None


def values(name: str, text: str) -> Sequence[int]:
    """A range, or the integers of a list of numbers and ranges, each once. Raises InputError."""
    parts = [_part(name, part) for part in text.split(",")]
    if len(parts) == 1:
        return parts[0]
    if sum(map(len, parts)) > _MAX_LIST:
        raise InputError(f"{name}={text[:60]!r} lists more than {_MAX_LIST} values")
    return tuple(dict.fromkeys(value for part in parts for value in part))


def _part(name: str, text: str) -> range:
    if not re.fullmatch(r"[0-9]{1,10}(:[0-9]{1,10}){0,2}", text):
        raise InputError(f"{name}={text[:60]!r} is not N, FIRST:LAST or FIRST:LAST:STEP")
    first, last, step = (*map(int, text.split(":")), 1, 1)[:3] if ":" in text else (int(text), int(text), 1)
    for value in (first, last, step):
        require_int32(name, value)
    if last < first:
        raise InputError(f"{name}={text} ends below its beginning")
    return range(first, last + 1, step)
