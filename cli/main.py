"""`tilesched-sim`: without a sub-command the coverage report, with one of COMMANDS that command."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from tilesched import __version__
from tilesched.simulator.errors import FindingError, InputError
from tilesched.simulator.findings import Verdict

from .options import Parser, did_you_mean

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "tiles": "print every worker's work tiles in order",
    "sweep": "judge ranges of shapes and parameters, and find the rule that says which are safe",
    "compare": "rank all schedulers and parameters for one problem",
    "schedulers": "list the schedulers with parameters, defaults and sources",
    "protocol": "decide whether a kernel's barrier protocol can hang or race, for every interleaving and shape",
    "protocols": "list the built-in protocols with parameters, defaults and sources",
    "original": "check a library's scheduler as it is: split and grouped work, pairs of CTAs, residency",
    "originals": "list the libraries' schedulers that `original` checks",
    "golden": "hold the schedulers against a file of golden vectors",
    "record": "run a kernel and record which CTA computed which tile",
    "verify": "check a recorded trace against the model",
    "run": "run a kernel's PTX on the CPU and say what is wrong with the run",
}
"""Each is a module of this package with `add_arguments(parser)` and `run(args) -> exit code`."""

_PROGRAM = "tilesched-sim"
_EXIT_CODES = "exit code: 0 clean, 1 findings, 2 bad input, 3 incomplete"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; the exit code: 0 clean, 1 findings, 2 bad input, 3 incomplete."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(arguments)
    except InputError as error:
        print(f"{_PROGRAM}: error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away: nothing more can be said, and the flush at exit must not say so again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(arguments: list[str]) -> int:
    if arguments and not arguments[0].startswith("-"):
        command = arguments.pop(0)
        if command not in COMMANDS:
            raise InputError(f"command={command!r} is unknown; {did_you_mean(command, COMMANDS)}")
        module = importlib.import_module(f".{command}", __package__)
        parser = Parser(prog=f"{_PROGRAM} {command}", description=module.__doc__, epilog=_EXIT_CODES)
    else:
        module = importlib.import_module(".coverage", __package__)
        parser = Parser(prog=_PROGRAM, description=module.__doc__, epilog=f"{_command_list()}\n\n{_EXIT_CODES}")
        parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    module.add_arguments(parser)
    args = parser.parse_args(arguments)
    try:
        code = module.run(args)
    except FindingError as fault:
        from .document import fault_document

        print(fault_document(fault.finding, getattr(args, "format", "text")))
        code = Verdict.FINDINGS
    sys.stdout.flush()
    return int(code)


def _command_list() -> str:
    rows = (f"  {name:<12}{text}" for name, text in COMMANDS.items())
    return "\n".join(["commands (tilesched-sim COMMAND --help):", *rows])
