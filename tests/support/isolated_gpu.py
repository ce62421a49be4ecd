"""Launches in a process of its own, which is replaced when one fails: a fault kills the CUDA context, not the tests."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, TypeVar

from tilesched.simulator.errors import KernelError

Result = TypeVar("Result")

TIMEOUT_S = 120
"""Of one call, the start of the process included; the kernels end by themselves in far less."""


@dataclass(frozen=True)
class LaunchFailed:
    """What CUDA said of a launch that failed."""

    message: str


def _call(function: Callable[..., Result], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    try:
        return function(*arguments, **keywords)
    except KernelError as error:
        return LaunchFailed(str(error))


class IsolatedGpu:
    """Calls functions of the package in a child process."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def call(self, function: Callable[..., Result], *arguments: Any, **keywords: Any) -> Result | LaunchFailed:
        """What the function returns, or how its launch failed; then the next call has a new process."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        try:
            result: Result | LaunchFailed = self._pool.submit(_call, function, arguments, keywords).result(TIMEOUT_S)
        except TimeoutError:
            self._pool.shutdown(wait=False)  # nothing to wait for; later calls get a process that works
            self._pool = None
            raise
        except BrokenProcessPool:
            result = LaunchFailed("the process died")
        if isinstance(result, LaunchFailed):
            self.close()
        return result

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
