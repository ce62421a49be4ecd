"""The process in which a user's scheduler runs: `python -m tilesched.verify.user_child REQUEST`.

It writes one JSON line with the outcome and then the rows as 64-bit integers, column after column, to
standard output; what the user's code prints goes to standard error. It needs no NumPy, so it starts fast.
"""

from __future__ import annotations

import array
import importlib.util
import inspect
import json
import operator
import os
import reprlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NoReturn

__all__ = ["COLUMNS", "SUPPLIED", "Outcome", "Request"]

COLUMNS = ("worker", "linear", "m", "n", "emitted")
SUPPLIED = ("tiles_m", "tiles_n", "clusters_m", "clusters_n", "k_blocks", "num_workers", "panel_width")
"""Parameters, beside the first, that a user's function may have."""

_MEMORY_LIMIT_BYTES = 4 << 30
_MAX_COORDINATE = 2**31 - 1


@dataclass(frozen=True)
class Request:
    """What to run, and its limits."""

    path: str
    function: str
    supplied: dict[str, int]
    num_workers: int
    num_ids: int | None
    quiet_ids: int
    """Ids in a row without a tile after which the linear form is taken to have ended."""
    max_tiles: int
    """Tiles after which the function is taken to be endless."""
    time_limit_s: float
    part: int = 0
    parts: int = 1
    """This process runs the part-th of so many equal shares of the workers, or of the ids where `num_ids` is given."""

    def share(self, count: int) -> range:
        return range(count * self.part // self.parts, count * (self.part + 1) // self.parts)


@dataclass(frozen=True)
class Outcome:
    """How the run ended: status `ok`, `unusable`, `raised`, `nonsense` or `endless`; `text` says where."""

    status: str
    text: str = ""
    generator: bool = False


class _Stop(Exception):
    """Ends the run with an outcome."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.outcome = Outcome(status, text)


class _Run:
    def __init__(self, request: Request, out: BinaryIO) -> None:
        self.request = request
        self.out = out
        self.rows = {name: array.array("q") for name in COLUMNS}
        self.tiles = 0
        self.call = request.function  # what is being evaluated, for reports
        self._finishing = threading.Lock()

    def finish(self, outcome: Outcome) -> NoReturn:
        """Write the outcome and end the process; the first of the two threads to come here wins."""
        self._finishing.acquire()
        rows = self.rows if outcome.status == "ok" else {name: array.array("q") for name in COLUMNS}
        line = {**vars(outcome), "rows": len(rows["linear"])}
        self.out.write(json.dumps(line).encode() + b"\n")
        for column in rows.values():
            self.out.write(column.tobytes())
        self.out.flush()
        os._exit(0)

    def watch(self) -> None:
        """End the run when its time is up, even while the function does not return."""
        time.sleep(self.request.time_limit_s)
        self.finish(Outcome("endless", f"{self.call} is not done after {self.request.time_limit_s:g} s"))

    def execute(self) -> Outcome:
        function = _load(self.request)
        supplied = _supplied(function, self.request)
        if inspect.isgeneratorfunction(function):
            return self._generators(lambda worker: function(worker, **supplied))
        self.call = f"{self.request.function}(0)"
        first = self._guard(lambda: function(0, **supplied))
        if isinstance(first, Iterator):
            return self._generators(lambda worker: function(worker, **supplied))
        return self._linear(lambda linear: function(linear, **supplied))

    def _linear(self, function: Callable[[int], Any]) -> Outcome:
        request = self.request
        if request.num_ids is None and request.part:  # where the ids end is only seen by going through them
            return Outcome("ok")
        ids = None if request.num_ids is None else request.share(request.num_ids)
        linear, stop, quiet = (0, None, 0) if ids is None else (ids.start, ids.stop, 0)
        while linear != stop and not (ids is None and quiet == request.quiet_ids):
            self.call = f"{request.function}({linear})"
            tile = self._guard(lambda: function(linear))  # noqa: B023 - called at once
            quiet = 0 if self._add(linear % request.num_workers, linear, tile) else quiet + 1
            linear += 1
            self._check_tiles(f"a tile for {self.tiles} of the ids below {linear}")
        if request.num_ids is None:
            for column in self.rows.values():
                del column[linear - quiet :]
        return Outcome("ok")

    def _generators(self, function: Callable[[int], Any]) -> Outcome:
        for worker in self.request.share(self.request.num_workers):
            self.call = f"{self.request.function}({worker})"
            tiles = self._guard(lambda: iter(function(worker)))  # noqa: B023 - called at once
            position = 0
            while True:
                self.call = f"{self.request.function}({worker}), item {position}"
                try:
                    tile = self._guard(lambda: next(tiles))  # noqa: B023 - called at once
                except StopIteration:
                    break
                self._add(worker, position, tile)
                position += 1
                self._check_tiles(f"{self.tiles} tiles for workers 0 to {worker}")
                if position == 4 * self.request.max_tiles:
                    raise _Stop("endless", f"{self.call} is reached and no tile ends worker {worker}")
        return Outcome("ok", generator=True)

    def _add(self, worker: int, linear: int, tile: Any) -> bool:
        if tile is None:
            m, n = 0, 0
        else:
            try:
                m, n = (operator.index(axis) for axis in tile)
            except (TypeError, ValueError):
                raise _Stop("nonsense", f"{self.call} is {_show(tile)}: neither (m, n) nor None") from None
            if max(abs(m), abs(n)) > _MAX_COORDINATE:
                raise _Stop("nonsense", f"{self.call} is {_show(tile)}: beyond 32 bits")
            self.tiles += 1
        for name, value in zip(COLUMNS, (worker, linear, m, n, tile is not None), strict=True):
            self.rows[name].append(value)
        return tile is not None

    def _check_tiles(self, what: str) -> None:
        if self.tiles > self.request.max_tiles:
            raise _Stop("endless", f"{self.request.function} has handed out {what}, and has not ended")

    def _guard(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except StopIteration:
            raise
        except BaseException as error:
            raise _Stop("raised", f"{self.call} raised {_show_error(error)}") from None


def _load(request: Request) -> Callable[..., Any]:
    sys.path.insert(0, os.path.dirname(request.path))
    spec = importlib.util.spec_from_file_location("user_scheduler", request.path)
    if spec is None or spec.loader is None:
        raise _Stop("unusable", f"{request.path!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise _Stop("unusable", f"{request.path!r} cannot be imported: {_show_error(error)}") from None
    function = getattr(module, request.function, None)
    if not callable(function):
        known = [name for name, value in vars(module).items() if inspect.isfunction(value)]
        text = f"{request.path!r} has no function {request.function!r}; it has {', '.join(known) or 'none'}"
        raise _Stop("unusable", text)
    return function  # type: ignore[no-any-return]


def _supplied(function: Callable[..., Any], request: Request) -> dict[str, int]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {}
    chosen = {}
    for parameter in parameters[1:]:
        if parameter.name in request.supplied:
            chosen[parameter.name] = request.supplied[parameter.name]
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            text = f"{request.function} has a parameter {parameter.name!r}; supplied are {', '.join(SUPPLIED)}"
            raise _Stop("unusable", text)
    return chosen


def _show(value: Any) -> str:
    try:
        return " ".join(reprlib.repr(value).split())
    except Exception:
        return f"an object of {type(value).__name__}"


def _show_error(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())[:200]
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _MEMORY_LIMIT_BYTES if hard == resource.RLIM_INFINITY else min(hard, _MEMORY_LIMIT_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _main(request: Request) -> NoReturn:
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # the user's prints must not mix with the rows
    _limit_memory()
    run = _Run(request, out)
    threading.Thread(target=run.watch, daemon=True).start()
    try:
        outcome = run.execute()
    except _Stop as stop:
        outcome = stop.outcome
    except BaseException as error:  # such as no memory left for the rows
        outcome = Outcome("raised", f"{run.call}: {_show_error(error)}")
    run.finish(outcome)


if __name__ == "__main__":
    _main(Request(**json.loads(sys.argv[1])))
