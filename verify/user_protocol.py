"""A user's own protocol: a function of a Python file, which is run as it stands."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path

from tilesched.simulator.errors import InputError
from tilesched.simulator.protocol.lint import Policy
from tilesched.simulator.protocol.outcomes import Outcomes
from tilesched.simulator.protocol.program import Protocol

from .protocol_verdict import Subject

__all__ = ["user_subject"]

_SHAPE = "k_blocks"
_OUTCOMES = "outcomes"


def user_subject(where: str, given: Mapping[str, int], rules: Policy) -> Subject:
    """The function of `FILE.py:FUNCTION`: it takes `k_blocks`, a tuple with the k-blocks of each tile, `stages` (the
    period of its ring), and other integers with defaults, and returns a Protocol; `rules` are for lints. Where
    it also takes `outcomes`, it asks this for what timing decides (docs/protocol.md), and every outcome is judged.

    Raises InputError.
    """
    path, _, name = where.rpartition(":")
    if not path or not name.isidentifier():
        raise InputError(f"protocol={where!r} is neither a built-in nor FILE.py:FUNCTION")
    function = _load(Path(path), name)
    parameters = _signature(where, function)
    if _SHAPE not in parameters or "stages" not in parameters:
        raise InputError(f"{where}: the function takes {', '.join(parameters) or 'nothing'}, not k_blocks and stages")
    params: dict[str, int] = {}
    for other, parameter in parameters.items():
        if other in (_SHAPE, _OUTCOMES):
            continue
        value = given.get(other, parameter.default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InputError(f"{where}: {other} has no integer default; set it with --set {other}=N")
        params[other] = value
    for other in given:
        if other not in params:
            raise InputError(f"{other}={given[other]} is no parameter of {where}: {', '.join(params)}")

    branches = _OUTCOMES in parameters

    def make(k_blocks: tuple[int, ...], values: Mapping[str, int], outcomes: Outcomes | None = None) -> Protocol:
        asked = {_OUTCOMES: outcomes or Outcomes({})} if branches else {}
        made = _run(where, lambda: function(k_blocks=k_blocks, **values, **asked))
        if not isinstance(made, Protocol):
            raise InputError(f"{where}: the function returned {type(made).__name__}, not a Protocol")
        return made

    if not 1 <= params["stages"] < 2**20:
        raise InputError(f"stages={params['stages']} is outside [1, {2**20 - 1}]")
    return Subject(
        name=where,
        make=make,
        params=params,
        period="stages",
        varies_period="stages" not in given,
        policy=rules,
        outcomes=make if branches else None,
    )


def _signature(where: str, function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError) as error:
        raise InputError(f"{where} is no function whose parameters are known") from error


def _load(path: Path, name: str) -> Callable[..., object]:
    if not path.is_file():
        raise InputError(f"protocol file {str(path)!r} does not exist")
    spec = importlib.util.spec_from_file_location("tilesched_user_protocol", path)
    if spec is None or spec.loader is None:
        raise InputError(f"protocol file {str(path)!r} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    loader = spec.loader
    _run(str(path), lambda: loader.exec_module(module))
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"protocol file {str(path)!r} has no function {name!r}")
    found: Callable[..., object] = function
    return found


def _run(where: str, action: Callable[[], object]) -> object:
    """What the user's code does wrong is the user's mistake, said in one line."""
    try:
        with redirect_stdout(sys.stderr):  # what it prints must not stand in our reports
            return action()
    except InputError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:
        text = "".join(char if char.isprintable() else repr(char)[1:-1] for char in " ".join(str(error).split())[:200])
        raise InputError(f"{where}: {type(error).__name__}: {text}") from error
