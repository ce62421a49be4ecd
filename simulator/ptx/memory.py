"""Memory: regions of bytes that know which of them were written, hold a barrier, or are in the hands of a copy.

Addresses are 64-bit integers. Global arrays lie at their generic addresses. Shared memory of the CTA with rank r in its
cluster begins at r · 2^24 in the shared window (docs/protocol.md, rule 33); its first KiB is not the program's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from .kinds import Fault, MachineKind
from .slots import DTYPES, Array

__all__ = ["GLOBAL_BASE", "PARAM_WINDOW", "RANK_SHIFT", "SHARED_FIRST", "SHARED_WINDOW", "Heap", "Region", "State"]

SHARED_WINDOW = 1 << 40
PARAM_WINDOW = 1 << 41
GLOBAL_BASE = 1 << 42
RANK_SHIFT = 24
SHARED_FIRST = 0x400
_GAP = 1 << 20  # between arrays, so that a small overrun meets no other array


class State:
    """What is known of a byte: bits, as plain integers, which NumPy takes for whatever the array holds."""

    WRITTEN: Final = 1
    BARRIER: Final = 2  # of a live mbarrier object
    INCOMING: Final = 4  # an asynchronous copy that was issued writes it
    OUTGOING: Final = 8  # an asynchronous copy that was issued reads it


_REPEAT = {1: 0x01, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


@dataclass(frozen=True, slots=True)
class _View:
    """A region as rows of one access: values, states, and what their words must be."""

    values: Array
    states: Array
    shift: int
    good: Array
    busy: Array


class Region:
    """`size` bytes from `base` on, called `name`; `written` says that all of them hold data from the start."""

    def __init__(self, name: str, base: int, size: int, *, written: bool = False) -> None:
        self.name = name
        self.base = base
        self.size = size
        rounded = -(-size // 32) * 32
        self.data = np.zeros(rounded, np.uint8)
        self.state = np.full(rounded, State.WRITTEN if written else 0, np.uint8)
        self.alive = True
        self.observer: Callable[[int, Array, int], None] | None = None  # (CTA, offsets, bytes) of every store
        self._readers: Array = np.zeros(0, np.uint16)  # by byte, the copies in flight that read it
        self._views: dict[tuple[int, int], _View] = {}

    def view(self, element: int, count: int) -> _View:
        """The region as rows of `count` elements of `element` bytes."""
        key = element, count
        if key not in self._views:
            width = element * count
            word = min(width, 8)
            plain = DTYPES[8 * word]
            values = self.data.view(DTYPES[8 * element])
            states = self.state.view(plain)
            if width > word:
                states = states.reshape(-1, width // word)
            self._views[key] = _View(
                values if count == 1 else values.reshape(-1, count),
                states,
                width.bit_length() - 1,
                plain(_REPEAT[word] * State.WRITTEN),
                plain(_REPEAT[word] * (State.BARRIER | State.INCOMING | State.OUTGOING)),
            )
        return self._views[key]

    def fetch(self, offsets: Array, element: int, count: int) -> Array:
        """Values at `offsets` (bytes, int64): shape (n,), or (n, count) for vectors. Raises Fault."""
        width = element * count
        self._check_place(offsets, width, "load")
        view = self.view(element, count)
        rows = offsets >> view.shift
        if (view.states[rows] != view.good).any():
            self._check_bytes(offsets, width, "load", State.WRITTEN, State.BARRIER | State.INCOMING)
        values: Array = view.values[rows]
        return values

    def store(self, offsets: Array, element: int, count: int, values: Array, cta: int) -> None:
        """Write `values`, of the shape that fetch gives; the last of equal offsets stays. Raises Fault."""
        width = element * count
        self._check_place(offsets, width, "store")
        view = self.view(element, count)
        rows = offsets >> view.shift
        if (view.states[rows] & view.busy).any():
            self._check_bytes(offsets, width, "store", 0, State.BARRIER | State.INCOMING | State.OUTGOING)
        view.values[rows] = values
        view.states[rows] = view.good
        if self.observer is not None:
            self.observer(cta, offsets, width)

    def span(self, offset: int, size: int, what: str) -> slice:
        """A range of bytes for a copy. Raises Fault where it is not inside the region."""
        if offset < 0 or offset + size > self.size:
            raise self._outside(offset, size, what)
        return slice(offset, offset + size)

    def begin_read(self, span: slice | Array) -> None:
        """A copy in flight reads these bytes; an offset occurs once."""
        if not len(self._readers):
            self._readers = np.zeros(len(self.state), np.uint16)
        self._readers[span] += np.uint16(1)
        self.state[span] |= State.OUTGOING

    def end_read(self, span: slice | Array) -> None:
        """A copy has read these bytes; others may still do so."""
        left = self._readers[span] - np.uint16(1)
        self._readers[span] = left
        self.state[span] &= np.where(left == 0, np.uint8(0xFF ^ State.OUTGOING), np.uint8(0xFF))

    def check_range(self, span: slice | Array, what: str, needs: int, without: int) -> None:
        """Raise Fault unless all bytes of a copy have the states `needs` and none of `without`."""
        states = self.state[span]
        bad = (states & needs) != needs
        bad |= (states & without) != 0
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            offset = int(np.arange(self.size)[span][first] if isinstance(span, slice) else np.asarray(span)[first])
            raise self._wrong_state(offset, 1, what, needs, without)

    def _check_place(self, offsets: Array, width: int, what: str) -> None:
        every = int(np.bitwise_or.reduce(offsets))  # negative if one is; not less than the largest
        if every & (width - 1) == 0 and 0 <= every <= self.size - width:
            return
        for lane, offset in enumerate(offsets.tolist()):
            if not 0 <= offset <= self.size - width:
                raise self._outside(offset, width, what, lane)
            if offset % width:
                raise Fault(
                    MachineKind.MISALIGNED,
                    f"a {what} of {width} bytes at {self.base + offset:#x} in {self.name} is not aligned to its size",
                    address=self.base + offset,
                    object=self.name,
                    bytes=width,
                )

    def _outside(self, offset: int, width: int, what: str, lane: int | None = None) -> Fault:
        if not self.alive:
            return Fault(MachineKind.PEER_EXIT, f"a {what} in {self.name}, whose CTA has ended", object=self.name)
        which = "" if lane is None else f" (the {lane + 1}. active lane)"
        return Fault(
            MachineKind.OUT_OF_BOUNDS,
            f"a {what} of {width} bytes at byte {offset} of {self.name}, which has {self.size}{which}",
            address=self.base + offset,
            object=self.name,
            size=self.size,
            bytes=width,
        )

    def _check_bytes(self, offsets: Array, width: int, what: str, needs: int, without: int) -> None:
        for offset in offsets.tolist():
            states = self.state[offset : offset + width]
            if ((states & needs) != needs).any() or (states & without).any():
                raise self._wrong_state(offset, width, what, needs, without)

    def _wrong_state(self, offset: int, width: int, what: str, needs: int, without: int) -> Fault:
        states = self.state[offset : offset + width]
        bits = int(np.bitwise_or.reduce(states)) & without
        place = f"at byte {offset} of {self.name}"
        facts = {"address": self.base + offset, "object": self.name, "bytes": width}
        if bits & State.BARRIER:
            return Fault(MachineKind.BARRIER_ACCESS, f"a {what} {place} meets a live mbarrier object", **facts)
        if bits & State.INCOMING:
            text = f"a {what} {place} meets bytes that a copy in flight writes"
            return Fault(MachineKind.IN_FLIGHT, text, **facts)
        if bits & State.OUTGOING:
            return Fault(MachineKind.IN_FLIGHT, f"a {what} {place} meets bytes that a copy in flight reads", **facts)
        return Fault(MachineKind.UNWRITTEN, f"a {what} {place} reads what was never written", **facts)


class Heap:
    """Global memory: arrays with gaps between them."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self._bases: list[int] = []
        self._next = GLOBAL_BASE

    def add(self, name: str, size: int, *, align: int = 256, written: bool = False) -> Region:
        """A new array of `size` bytes."""
        base = -(-self._next // max(align, 256)) * max(align, 256)
        region = Region(name, base, size, written=written)
        self.regions.append(region)
        self._bases.append(base)
        self._next = base + len(region.data) + _GAP
        return region

    def find(self, address: int) -> Region:
        """The array whose bytes or following gap hold an address. Raises Fault where there is none."""
        index = bisect_right(self._bases, address) - 1
        if index < 0 or address >= self._next:
            raise Fault(MachineKind.OUT_OF_BOUNDS, f"address {address:#x} belongs to no array", address=address)
        return self.regions[index]

    def split(self, addresses: Array) -> Iterator[tuple[Region, Array | None]]:
        """The arrays that addresses lie in, each with which of them (None: all)."""
        region = self.find(int(addresses[0]))
        inside = (addresses >= region.base) & (addresses < region.base + len(region.data) + _GAP)
        if inside.all():
            yield region, None
            return
        yield region, inside
        rest = np.flatnonzero(~inside)
        for part, chosen in self.split(addresses[rest]):
            mask = np.zeros(len(addresses), np.bool_)
            mask[rest if chosen is None else rest[chosen]] = True
            yield part, mask
