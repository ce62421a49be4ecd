"""The CUDA sources compile, and assemble, for every architecture that they claim."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilesched.kernels.build import CUDA_DIR, Output, compile_source, nvrtc_version
from tilesched.simulator.errors import InputError

try:
    VERSION = nvrtc_version()
except InputError:
    VERSION = (0, 0)
pytestmark = pytest.mark.skipif(VERSION == (0, 0), reason="NVRTC is not installed")


@pytest.mark.parametrize(
    "arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a"]
)
def test_the_probe_assembles(arch: str) -> None:
    assert compile_source(CUDA_DIR / "probe.cu", arch, Output.CUBIN).startswith(b"\x7fELF")


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_the_mbarrier_probe_assembles(arch: str) -> None:
    assert compile_source(CUDA_DIR / "mbarrier_probe.cu", arch, Output.CUBIN).startswith(b"\x7fELF")


def test_the_probe_as_ptx_reads_the_timer_and_the_sm() -> None:
    ptx = compile_source(CUDA_DIR / "probe.cu", "sm_90a", Output.PTX).decode()
    assert ".entry tilesched_probe(" in ptx
    assert "%globaltimer" in ptx
    assert "%smid" in ptx


KERNEL = """
#include "trace.cuh"
extern "C" __global__ void k(int* out, tilesched::TraceRecord* records, int* counts) {
  const tilesched::TraceBuffer buffer{records, counts, 1, 4};
  TILESCHED_TRACE_OPEN(rec, buffer, blockIdx.x, 0);
  TILESCHED_TRACE_BEGIN(rec);
  out[blockIdx.x] = blockIdx.x;
  TILESCHED_TRACE_END(rec, 0, 0, 0, 0, 0);
}
"""
BARE = 'extern "C" __global__ void k(int* out, void*, void*) { out[blockIdx.x] = blockIdx.x; }\n'


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for header in CUDA_DIR.glob("*.cuh"):
        (tmp_path / header.name).write_text(header.read_text())
    return tmp_path / "k.cu"


def body(ptx: bytes) -> list[str]:
    """Instructions of the one kernel, without comments and names of parameters."""
    text = ptx.decode().split("{", 1)[1]
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("//")]


def test_recording_that_is_off_leaves_no_instruction(source: Path) -> None:
    source.write_text(KERNEL)
    off = body(compile_source(source, "sm_90a", Output.PTX))
    on = body(compile_source(source, "sm_90a", Output.PTX, defines={"TILESCHED_TRACE": 1}))
    source.write_text(BARE)
    assert off == body(compile_source(source, "sm_90a", Output.PTX))
    assert len(on) > len(off)


def test_a_source_that_does_not_compile_is_one_line(source: Path) -> None:
    source.write_text('extern "C" __global__ void k() { undeclared = 1; }\n')
    with pytest.raises(InputError, match=r"^k\.cu does not compile \(--gpu-architecture=sm_90a\): .*undeclared.*$"):
        compile_source(source, "sm_90a", Output.CUBIN)
    with pytest.raises(InputError, match="invalid value for --gpu-architecture"):
        compile_source(CUDA_DIR / "probe.cu", "sm_1", Output.CUBIN)
