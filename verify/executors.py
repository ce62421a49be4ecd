"""Where the batches of a sweep run: in this process, on local cores (joblib), or on a Dask cluster.

Each takes batches from an iterator only as it needs them, so that a sweep ends soon after its iterator does.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from tilesched.simulator.errors import InputError

__all__ = ["Executor", "dask_cluster", "in_process", "local_cores"]

Batch = TypeVar("Batch")
Result = TypeVar("Result")
Executor: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""From a function and batches to its results, in any order."""

_AHEAD = 2  # batches that are handed out for each process


def in_process(function: Callable[[Batch], Result], batches: Iterable[Batch]) -> Iterator[Result]:
    """One after the other, here."""
    return map(function, batches)


def local_cores(jobs: int | None) -> Executor:
    """In `jobs` processes of this machine, all cores by default. InputError where joblib is missing and needed.

    Without joblib, and with no number asked for, in this process.
    """
    if jobs == 1:
        return in_process
    try:
        from joblib import Parallel, delayed
    except ImportError:
        if jobs is None:
            return in_process
        raise InputError(f"jobs={jobs} needs joblib: pip install 'tilesched-sim[sweep]', or jobs=1") from None
    count = jobs or os.cpu_count() or 1

    def run(function: Callable[[Batch], Result], batches: Iterable[Batch]) -> Iterator[Result]:
        parallel = Parallel(n_jobs=count, return_as="generator_unordered", pre_dispatch=_AHEAD * count, batch_size=1)
        yield from parallel(delayed(_uninterrupted)(function, batch) for batch in batches)

    return run


def _uninterrupted(function: Callable[[Batch], Result], batch: Batch) -> Result:
    """Ctrl-C reaches all processes of a terminal; the one that hands out the batches decides when to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(batch)


def dask_cluster(address: str, *, timeout_s: float = 10.0) -> Executor:
    """On the workers of the scheduler at `address`, which have this package installed.

    Raises InputError without dask.distributed, where nothing answers at the address, and where a worker cannot run us.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise InputError(f"dask={address!r} needs dask.distributed: pip install 'tilesched-sim[dask]'") from None

    def run(function: Callable[[Batch], Result], batches: Iterable[Batch]) -> Iterator[Result]:
        try:
            client = Client(address, timeout=timeout_s, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"dask={address!r}: {reason}") from None
        with client:
            threads = sum(client.nthreads().values())
            if not threads:
                raise InputError(f"dask={address!r}: the cluster has no workers")
            rest = iter(batches)
            submitted = [client.submit(function, batch, pure=False) for batch in islice(rest, _AHEAD * threads)]
            futures = as_completed(submitted, loop=client.loop)
            for future in futures:
                try:
                    yield future.result()
                except ImportError as error:
                    raise InputError(f"dask={address!r}: a worker cannot import tilesched ({error})") from None
                for batch in islice(rest, 1):
                    futures.add(client.submit(function, batch, pure=False))

    return run
