"""NVIDIA's assembler, as nvJitLink holds it: every PTX text of a test goes through it."""

from __future__ import annotations

import ctypes
import importlib.util
from functools import lru_cache
from pathlib import Path

_PTX = 2  # NVJITLINK_INPUT_PTX


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    spec = importlib.util.find_spec("nvidia")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(root).glob("cu13/lib/libnvJitLink.so.13")):
            return ctypes.CDLL(str(path))
    return None


def can_assemble() -> bool:
    """Whether the assembler is installed."""
    return _library() is not None


@lru_cache(maxsize=1024)
def assembler_error(text: str, arch: str) -> str:
    """What the assembler says of a PTX text for `arch` (such as "sm_90a"), '' if it is right."""
    link = _library()
    assert link is not None
    handle = ctypes.c_void_p()
    options = (ctypes.c_char_p * 1)(f"-arch={arch}".encode())
    assert link.__nvJitLinkCreate_13_0(ctypes.byref(handle), 1, options) == 0
    try:
        data = text.encode() + b"\0"
        added = link.__nvJitLinkAddData_13_0(handle, _PTX, data, ctypes.c_size_t(len(data)), b"test.ptx")
        if added == 0 and link.__nvJitLinkComplete_13_0(handle) == 0:
            return ""
        size = ctypes.c_size_t()
        link.__nvJitLinkGetErrorLogSize_13_0(handle, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value + 1)
        link.__nvJitLinkGetErrorLog_13_0(handle, log)
        return log.value.decode(errors="replace") or "refused"
    finally:
        link.__nvJitLinkDestroy_13_0(ctypes.byref(handle))
