"""Ask a Hopper GPU and its driver again what tensor maps, TMA loads and wgmma operands do.

`python tests/gpu/refresh_tensor_core.py [FOLDER]` reads the cases of h200_tensor_maps.json and h200_wgmma_operands.npz
in tests/data and writes both files with new answers to FOLDER, or in place. Needs CuPy and an sm_90 GPU, and nothing of
this package.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import cupy
import numpy as np

DATA = Path(__file__).parents[1] / "data"
IMAGE = 1 << 16
DUMP = 4096
ROWS = 128  # of the operand of wgmma that is read: B, with N = 128
SELECTOR = IMAGE - 2048  # byte offset of A: row k has its only one in column k

LOAD = r"""
extern "C" __global__ void load(unsigned long long map, int corner, int offset, int tx, unsigned char* out) {
  extern __shared__ __align__(1024) unsigned char s[];
  __shared__ __align__(8) long long barrier;
  for (int i = 0; i < DUMP; i++) s[i] = 0xEE;
  unsigned bar = __cvta_generic_to_shared(&barrier), dst = __cvta_generic_to_shared(s) + offset, done = 0;
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.proxy.async;"
               "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%2], [%3, {%4, 0}], [%0];"
               :: "r"(bar), "r"(tx), "r"(dst), "l"(map), "r"(corner) : "memory");
  for (int i = 0; i < 100000 && !done; i++)
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(bar) : "memory");
  for (int i = 0; i < DUMP; i++) out[i] = done ? s[i] : 0;
}
"""
OPERAND = r"""
typedef unsigned long long u64;
extern "C" __global__ void operand(const uint4* image, u64 a, u64 b, float* out, unsigned* base) {
  extern __shared__ __align__(1024) uint4 s[];
  for (int i = threadIdx.x; i < IMAGE / 16; i += 128) s[i] = image[i];
  unsigned start = __cvta_generic_to_shared(s);
  a += start >> 4; b += start >> 4; *base = start;
  float d[64];
  for (int i = 0; i < 64; i++) d[i] = 0;
  asm volatile("fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{.reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {REGISTERS}, "
               "%64, %65, p, 1, 1, 0, MAJOR; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;}"
               : OUTPUTS : "l"(a), "l"(b) : "memory");
  for (int i = 0; i < 64; i++) out[i * 128 + threadIdx.x] = d[i];
}
"""


def kernel(source: str, name: str) -> Any:
    source = source.replace("DUMP", str(DUMP)).replace("IMAGE", str(IMAGE))
    return cupy.RawModule(code=source, backend="nvrtc", options=("-arch=sm_90a",)).get_function(name)


def encode(case: dict[str, Any]) -> bytes | None:
    """The map that cuTensorMapEncodeTiled makes, None if it refuses."""
    room = (ctypes.c_uint64 * 24)()
    made = (ctypes.c_uint64 * 16).from_buffer(room, -ctypes.addressof(room) % 64)

    def array(kind: Any, values: list[int]) -> Any:
        return (kind * max(1, len(values)))(*values)

    code = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.byref(made),
        case["type"],
        len(case["dims"]),
        ctypes.c_void_p(case["address"]),
        array(ctypes.c_uint64, case["dims"]),
        array(ctypes.c_uint64, case["strides"]),
        array(ctypes.c_uint32, case["box"]),
        array(ctypes.c_uint32, case["steps"]),
        case["interleave"],
        case["swizzle"],
        0,
        case["fill"],
    )
    return bytes(made) if code == 0 else None


def loaded(tensor: Any, corner: int, offset: int, **case: Any) -> np.ndarray:
    """Shared memory from its first 1024-byte boundary on, after a load of one 2-d box."""
    plain = {"type": 9, "steps": [1, 1], "interleave": 0, "swizzle": 0, "fill": 0}
    made = encode(plain | case | {"address": tensor.data.ptr})
    assert made is not None, case
    place, out = cupy.asarray(np.frombuffer(made, np.uint8)), cupy.zeros(DUMP, cupy.uint8)
    size = int(np.prod(case["box"])) * tensor.dtype.itemsize
    numbers = (np.int32(corner), np.int32(offset), np.int32(size))
    kernel(LOAD, "load")((1,), (1,), (np.uint64(place.data.ptr), *numbers, out), shared_mem=DUMP)
    return cupy.asnumpy(out)


def box_chunks(case: dict[str, Any]) -> list[list[int]]:
    """(byte offset in shared memory, element number in the tensor) of every 16 bytes of a box of four rows."""
    tensor = cupy.arange(64 * 99, dtype=cupy.uint16)
    shape = {"dims": [64, 99], "strides": [128], "box": [case["row_elements"], 4]}
    words = loaded(tensor, 0, case["smem"], swizzle=case["swizzle"], **shape).view("<u2")[::8]
    return [[16 * i, int(word)] for i, word in enumerate(words) if word != 0xEEEE]


def tf32_words(words: list[int], corner: int = 0, fill: int = 0) -> list[int]:
    tensor = cupy.asarray(np.array(words + [0] * (-len(words) % 32), np.uint32))
    shape = {"dims": [len(tensor), 1], "strides": [4 * len(tensor)], "box": [32, 1]}
    return [int(one) for one in loaded(tensor, corner, 0, type=11, fill=fill, **shape).view("<u4")[: len(words)]]


def operand_chunks(case: list[int]) -> np.ndarray:
    """Address / 16, from the start of shared memory's image, of every chunk of B. Two runs tell an element's number."""
    major, code, address, leading, stride, base_offset = case
    names = {"REGISTERS": ", ".join(f"%{i}" for i in range(64)), "MAJOR": str(major)}
    names["OUTPUTS"] = ", ".join(f'"+f"(d[{i}])' for i in range(64))
    source = OPERAND
    for name, text in names.items():
        source = source.replace(name, text)
    run = kernel(source, "operand")
    run.max_dynamic_shared_size_bytes = IMAGE
    r, k = np.mgrid[0:64, 0:16]
    selector = (SELECTOR + r % 8 * 16 + r // 8 * 128 + k // 8 * 1024 + k % 8 * 2) // 2
    a = SELECTOR >> 4 | 1024 >> 4 << 16 | 128 >> 4 << 32
    b = address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | base_offset << 49 | code << 62
    i, thread = np.mgrid[0:64, 0:32]  # the first warp has rows 0 to 15 of D
    row, column = thread // 4 + i // 2 % 2 * 8, i // 4 * 8 + thread % 4 * 2 + i % 2
    found, number = np.zeros((ROWS, 16), np.int64), np.arange(IMAGE // 2)
    for digits, weight in ((number % 2048, 1), (number // 2048, 2048)):
        image = digits.astype(np.float16)
        image[selector] = r == k
        out, base = cupy.zeros((64, 128), cupy.float32), cupy.zeros(1, cupy.uint32)
        run((1,), (128,), (cupy.asarray(image), np.uint64(a), np.uint64(b), out, base), shared_mem=IMAGE)
        assert int(base[0]) == 1024
        found[column, row] += weight * cupy.asnumpy(out)[:, :32].astype(np.int64)
    found = found.T if major else found
    assert (found == np.repeat(found[:, ::8], 8, axis=1) + np.arange(found.shape[1]) % 8).all()
    return (found[:, ::8] // 8).reshape(-1).astype(np.uint16)


def main(folder: Path) -> None:
    cupy.zeros(1)  # makes the context that the driver needs
    facts = json.loads((DATA / "h200_tensor_maps.json").read_text())
    for case in facts["maps"]:
        case["accepted"] = encode(case) is not None
    for case in facts["boxes"]:
        case["chunks"] = box_chunks(case)
    words = [word for word, _ in facts["tf32"]]
    facts["tf32"] = [list(pair) for pair in zip(words, tf32_words(words), strict=True)]
    facts["nan"] = tf32_words(words, corner=5000, fill=1)[0] & 0xFFFF
    lists = {name: [json.dumps(one) for one in facts[name]] for name in ("maps", "boxes", "tf32")}
    parts = [f' "{name}": [\n  ' + ",\n  ".join(lines) + "\n ]" for name, lines in lists.items()]
    (folder / "h200_tensor_maps.json").write_text("{\n" + ",\n".join(parts) + f',\n "nan": {facts["nan"]}\n}}\n')
    descriptors = np.load(DATA / "h200_wgmma_operands.npz")["descriptors"]
    chunks = np.array([operand_chunks([int(one) for one in case]) for case in descriptors])
    np.savez_compressed(folder / "h200_wgmma_operands.npz", descriptors=descriptors, chunks=chunks)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DATA)
