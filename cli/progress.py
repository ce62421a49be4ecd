"""A progress bar on standard error, for work that takes more than two seconds on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]

_DELAY_S = 2.0
_PERIOD_S = 0.1
_WIDTH = 30


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function (done, total); it draws nothing for two seconds, or where stderr is no terminal.

    A smaller `done` than before begins another pass.
    """
    begin = time.monotonic()
    shown = begin + _DELAY_S
    last = 0
    drawn = False

    def update(done: int, total: int) -> None:
        nonlocal begin, shown, last, drawn
        now = time.monotonic()
        if done < last:  # another pass begins
            begin = now
        last = done
        if now < shown or not sys.stderr.isatty():
            return
        shown, drawn = now + _PERIOD_S, True
        share = done / total
        left = (now - begin) * (1 - share) / share
        bar = "#" * int(share * _WIDTH)
        print(f"\r{what} [{bar:<{_WIDTH}}] {share:4.0%} {left:4.0f} s left", end="", file=sys.stderr, flush=True)

    try:
        yield update
    finally:
        if drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
