"""Compile the CUDA sources with NVRTC, through ctypes: no GPU, no CUDA toolkit, no host compiler.

With a real architecture (`sm_90a`) the cubin stage runs NVIDIA's assembler, so a cubin is checked machine code.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
import os
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path

from tilesched.simulator.errors import InputError

__all__ = ["CUDA_DIR", "Output", "compile_source", "nvrtc_version"]

CUDA_DIR = Path(__file__).parent / "cuda"

_LIBRARY_GLOBS = (
    # NVIDIA's wheels, newest layout first, then a CUDA toolkit
    "cu1*/lib/libnvrtc.so.*",
    "cuda_nvrtc/lib/libnvrtc.so.*",
    "cu1*/bin/x86_64/nvrtc64_*_0.dll",
    "cuda_nvrtc/bin/nvrtc64_*_0.dll",
    "lib64/libnvrtc.so",
    "bin/nvrtc64_*_0.dll",
)


class Output(Enum):
    """What to compile to; the value is the infix of NVRTC's functions."""

    PTX = "PTX"
    CUBIN = "CUBIN"


def compile_source(source: Path, arch: str, output: Output, *, defines: Mapping[str, str | int] | None = None) -> bytes:
    """Compile a .cu file for `arch` (such as "sm_90a"); headers are found beside it.

    Raises InputError when NVRTC is absent, does not know the architecture, or refuses the source (first line of
    its log that says why).
    """
    nvrtc = _Nvrtc(_library())
    options = [
        f"--gpu-architecture={arch}",
        f"--include-path={source.parent}",
        "--std=c++17",
        *(f"--define-macro={name}={value}" for name, value in (defines or {}).items()),
    ]
    return nvrtc.compile(source, options, output)


def nvrtc_version() -> tuple[int, int]:
    """Version of NVRTC. Raises InputError when it is absent."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    _library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _library() -> ctypes.CDLL:
    for path in _candidates():
        # NVRTC 13.0 looks for its builtins by bare name: having them loaded already lets it find them.
        for builtins in path.parent.glob("libnvrtc-builtins.so.*"):
            ctypes.CDLL(str(builtins))
        return ctypes.CDLL(str(path))
    if (name := ctypes.util.find_library("nvrtc")) is not None:
        return ctypes.CDLL(name)
    raise InputError("NVRTC is not installed; `pip install 'tilesched-sim[nvrtc]'` brings it")


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    roots += [Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    roots.append(Path("/usr/local/cuda"))
    for root in roots:
        for pattern in _LIBRARY_GLOBS:
            yield from sorted(root.glob(pattern), reverse=True)


class _Nvrtc:
    """The few calls of NVRTC's C interface that are needed."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(self, source: Path, options: list[str], output: Output) -> bytes:
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(
                ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None
            ),
            source,
        )
        try:
            array = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            status = self._library.nvrtcCompileProgram(program, len(options), array)
            if status != 0:
                log = self._read(program, "ProgramLog", source).decode(errors="replace")
                raise InputError(f"{source.name} does not compile ({options[0]}): {_reason(log)}")
            code = self._read(program, output.value, source)
            return code.rstrip(b"\0") if output is Output.PTX else code
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _read(self, program: ctypes.c_void_p, what: str, source: Path) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)), source)
        buffer = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, buffer), source)
        return buffer.raw

    def _check(self, status: int, source: Path) -> None:
        if status != 0:
            raise InputError(f"{source.name}: {self._library.nvrtcGetErrorString(status).decode()}")


def _reason(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if "error" in line]
    return lines[0] if lines else " ".join(log.split())[:200]
