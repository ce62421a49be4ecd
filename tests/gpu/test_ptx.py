"""The PTX machine's programs on a GPU: the same text, assembled by the driver, gives the same words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from ptx_kit import kernel
from ptx_programs import REGISTERS, Statement, Twin, emit, programs
from tilesched.kernels.launch import POISON_BYTE, Gpu

pytestmark = pytest.mark.gpu

LANES = 64


@settings(max_examples=300)
@given(program=programs)
def test_random_programs_match_their_twin(program: list[Statement]) -> None:
    """The twin is that of tests/properties/test_ptx_programs.py, with which the machine agrees."""
    out = np.zeros(1 + LANES * REGISTERS, np.uint32)
    text = kernel(emit(program), arch="sm_90")
    Gpu().run(text.encode() + b"\0", "k", grid=1, block=LANES, scalars=(), outputs=(out,))
    twin = Twin(LANES)
    twin.run(program)
    poison = int.from_bytes(bytes([POISON_BYTE]) * 4, "little")
    assert (int(out[0]) - poison) % 2**32 == twin.total
    assert np.array_equal(out[1:].reshape(REGISTERS, LANES).T, np.array(twin.regs, np.uint32))
