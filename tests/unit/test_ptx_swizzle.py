"""Swizzles: the values of rule 61, written out row by row."""

from __future__ import annotations

import pytest

from tilesched.simulator.ptx.swizzle import SmemSwizzle, swizzle_address

# Where the pieces of one 128-byte row go, for each of the first eight rows (PTX 5.5.7, tables of the swizzling modes).
# 128B: piece i of row r goes to piece i ^ r; 64B and 32B move pieces inside 64 and 32 bytes, every second and fourth
# row; 32-byte atoms move pairs of pieces, and the pattern repeats after four rows.
TABLES = {
    SmemSwizzle.NONE: ["01234567"] * 8,
    SmemSwizzle.B32: ["01234567", "10325476"] * 4,
    SmemSwizzle.B64: ["01234567", "10325476", "23016745", "32107654"] * 2,
    SmemSwizzle.B128: [
        "01234567",
        "10325476",
        "23016745",
        "32107654",
        "45670123",
        "54761032",
        "67452301",
        "76543210",
    ],
    SmemSwizzle.B128_ATOM32: ["01234567", "23016745", "45670123", "67452301"] * 2,
}


@pytest.mark.parametrize("mode", SmemSwizzle)
def test_every_piece_of_every_row_is_where_the_table_says(mode: SmemSwizzle) -> None:
    for row, pieces in enumerate(TABLES[mode]):
        for piece, place in enumerate(pieces):
            linear = 0x2C00 + 128 * row + 16 * piece
            for byte in (0, 15):
                assert swizzle_address(mode, linear + byte) == 0x2C00 + 128 * row + 16 * int(place) + byte


def test_the_pattern_repeats_after_its_period() -> None:
    periods = {mode: mode.period for mode in SmemSwizzle}
    assert periods == {
        SmemSwizzle.NONE: 16,
        SmemSwizzle.B32: 256,
        SmemSwizzle.B64: 512,
        SmemSwizzle.B128: 1024,
        SmemSwizzle.B128_ATOM32: 512,
    }


def test_formula_of_128_bytes() -> None:
    for offset in range(0, 4096, 4):
        assert swizzle_address(SmemSwizzle.B128, offset) == offset ^ ((offset >> 3) & 0x70)


def test_a_base_offset_shifts_the_rows() -> None:
    """A pattern that begins at 128 · b, told so, is the pattern of an aligned start, moved."""
    for mode in (SmemSwizzle.B32, SmemSwizzle.B64, SmemSwizzle.B128):
        for base in range(8):
            start = 0x1000 + 128 * base
            for offset in range(0, 1024, 16):
                aligned = swizzle_address(mode, 0x1000 + offset) - 0x1000
                assert swizzle_address(mode, start + offset, base) - start == aligned
