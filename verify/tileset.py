"""A set of tiles of a grid in one bit a tile, filled from blocks of coordinates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tilesched.simulator.problem import require_int32
from tilesched.simulator.raster import IntArray
from tilesched.simulator.schedule import BoolArray

__all__ = ["TileSet"]

_MAX_WINDOW = 2**26
_PIECE_BYTES = 2**20


class TileSet:
    """Which of the indices [0, size) are present, in size / 8 bytes.

    Blocks of a schedule touch narrow ranges of the grid, so a block is spread out in a byte window that
    mostly stays in cache, packed to bits and merged: no pass over the whole grid, and 10^9 tiles take 125 MB.
    Raises InputError above 2^31 - 1 tiles.
    """

    def __init__(self, size: int) -> None:
        require_int32("tiles", size, minimum=0)
        self.size = size
        self._bits = np.zeros(-(-size // 8), np.uint8)

    def add(self, index: IntArray) -> None:
        """Insert indices, all inside [0, size); repeated ones count once."""
        if not index.size:
            return
        first, last = int(index.min()) & ~7, int(index.max())
        if last - first < _MAX_WINDOW:
            window = np.zeros(last - first + 1, np.uint8)
            window[(index - first).astype(np.intp, copy=False)] = 1
            packed = np.packbits(window, bitorder="little")
            self._bits[first >> 3 : (first >> 3) + packed.size] |= packed
        else:
            np.bitwise_or.at(self._bits, index >> 3, np.left_shift(1, index & 7).astype(np.uint8))

    def contains(self, index: IntArray) -> BoolArray:
        """For each index inside [0, size) whether it is present."""
        bits = self._bits[index >> 3] >> (index & 7).astype(np.uint8)
        return np.asarray(bits & 1, np.bool_)

    def absent(self, limit: int) -> list[int]:
        """The first `limit` indices that are not present, ascending."""
        return self._first(limit, flip=np.uint8(255))

    def present(self, limit: int) -> list[int]:
        """The first `limit` indices that are present, ascending."""
        return self._first(limit, flip=np.uint8(0))

    def clear(self) -> None:
        """Remove all."""
        self._bits[:] = 0

    def _first(self, limit: int, flip: np.uint8) -> list[int]:
        found: list[int] = []
        for start, bits in self._pieces():
            piece = bits ^ flip
            if piece.any():
                hits = np.flatnonzero(np.unpackbits(piece, bitorder="little")) + start * 8
                found += hits[hits < self.size][: limit - len(found)].tolist()
            if len(found) >= limit:
                break
        return found

    def _pieces(self) -> Iterator[tuple[int, npt.NDArray[np.uint8]]]:
        """The bits a megabyte at a time, with the number of their first byte: temporaries stay small."""
        for start in range(0, self._bits.size, _PIECE_BYTES):
            yield start, self._bits[start : start + _PIECE_BYTES]

    def __len__(self) -> int:
        return sum(int(np.bitwise_count(piece).sum(dtype=np.int64)) for _, piece in self._pieces())
