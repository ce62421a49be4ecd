"""Ask an NVIDIA GPU again for what tests/data/h200_scalar.npz holds: `python tests/gpu/refresh_scalar.py` (CuPy)."""

from __future__ import annotations

import sys
from pathlib import Path

import cupy
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "support"))

from scalar_cases import COUNT, arity, operands  # noqa: E402

FILE = ROOT / "data" / "h200_scalar.npz"


def source(operations: list[str]) -> str:
    """A kernel that stores every operation's result for the operands of its thread."""
    lines = [
        'extern "C" __global__ void k(unsigned* a, unsigned* b, unsigned* c, unsigned* o) {',
        "  const int i = blockIdx.x * 32 + threadIdx.x;",
        "  unsigned x = a[i], y = b[i], z = c[i], r;",
    ]
    for index, operation in enumerate(operations):
        sources = ", ".join(f"%{n + 1}" for n in range(arity(operation)))
        lines.append(f'  asm volatile("{operation} %0, {sources};" : "=r"(r) : "r"(x), "r"(y), "r"(z));')
        lines.append(f"  o[{COUNT * index} + i] = r;")
    return "\n".join([*lines, "}"])


def main() -> None:
    with np.load(FILE) as file:
        operations = [str(name) for name in file["f"]]
    out = cupy.zeros((len(operations), COUNT), np.uint32)
    module = cupy.RawModule(code=source(operations), backend="nvrtc", options=("-arch=sm_90a",))
    module.get_function("k")((COUNT // 32,), (32,), (*map(cupy.asarray, operands()), out))
    np.savez_compressed(FILE, o=out.get(), f=np.array(operations))


if __name__ == "__main__":
    main()
