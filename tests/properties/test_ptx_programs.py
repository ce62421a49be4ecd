"""Random programs on the machine and in their twin, see tests/support/ptx_programs.py."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ptx_kit import launch, simulate
from ptx_programs import REGISTERS, Statement, Twin, emit, programs
from tilesched.simulator.ptx.engines import Policy
from tilesched.simulator.ptx.launch import Array


@given(program=programs, policy=st.sampled_from([Policy.NATURAL, Policy.RANDOM]), seed=st.integers(0, 9))
def test_random_programs_match_their_twin(program: list[Statement], policy: Policy, seed: int) -> None:
    where = launch(block=64, arrays={"out": Array(shape=(1 + 64 * REGISTERS,), dtype="u32", fill=0)})
    result = simulate(emit(program), where, policy=policy, seed=seed)
    assert result.findings == []
    twin = Twin(64)
    twin.run(program)
    out = result.arrays["out"]
    assert int(out[0]) == twin.total
    assert np.array_equal(out[1:].reshape(REGISTERS, 64).T, np.array(twin.regs, np.uint32))
