"""Small PTX kernels for tests: headers, assembly, and one instruction run on 32 lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from assemble import assembler_error, can_assemble
from tilesched.simulator.ptx.engines import Ordering, Policy
from tilesched.simulator.ptx.launch import Array, ArrayParam, Launch, ScalarParam
from tilesched.simulator.ptx.machine import Limits
from tilesched.simulator.ptx.run import Result, run

HEADER = ".version 8.8\n.target {arch}\n.address_size 64\n"
REGISTERS = """
.reg .pred %p<16>; .reg .b16 %rs<32>; .reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<32>; .reg .f64 %fd<16>;
"""


def kernel(body: str, *, params: str = ".param .u64 out", outer: str = "", arch: str = "sm_90a") -> str:
    """A module with the one kernel `k`; registers %p %rs %r %rd %f %fd are declared."""
    return f"{HEADER.format(arch=arch)}{outer}\n.visible .entry k({params})\n{{\n{REGISTERS}\n{body}\n}}\n"


def assemble(text: str, arch: str = "sm_90a") -> str:
    """The text, which NVIDIA's assembler takes (where it is installed)."""
    if can_assemble():
        error = assembler_error(text, arch)
        assert not error, error
    return text


def launch(
    *,
    out: int = 0,
    grid: int = 1,
    block: int = 32,
    cluster: int = 1,
    smem: int = 0,
    sms: int = 148,
    arrays: dict[str, Array] | None = None,
    params: Sequence[ArrayParam | ScalarParam] | None = None,
) -> Launch:
    """A launch along x. `out`: words of the array `out` (u32, nothing written yet), the first parameter."""
    every = dict(arrays or {})
    if out:
        every = {"out": Array(shape=(out,), dtype="u32"), **every}
    return Launch(
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        cluster=(cluster, 1, 1),
        dynamic_smem=smem,
        sm_count=sms,
        arrays=every,
        params=tuple(params) if params is not None else tuple(ArrayParam(name) for name in every),
    )


def simulate(
    body: str,
    where: Launch | None = None,
    *,
    policy: Policy = Policy.NATURAL,
    seed: int = 0,
    limits: Limits | None = None,
    **parts: Any,
) -> Result:
    """Assemble and run the kernel with this body."""
    text = assemble(kernel(body, **parts), parts.get("arch", "sm_90a"))
    return run(text, where or launch(out=32), ordering=Ordering(policy, seed), limits=limits)


def kinds(result: Result) -> list[str]:
    """The kinds of a run's findings."""
    return [str(finding.kind) for finding in result.findings]


_LETTER = {16: "rs", 32: "r", 64: "rd"}


def apply_entry(template: str, widths: Sequence[int], width: int, name: str = "k") -> str:
    """An entry function that runs one instruction, see `apply`."""
    lines = [
        "ld.param.u64 %rd60, [out]; mov.u32 %r60, %ctaid.x; mov.u32 %r61, %ntid.x; mov.u32 %r62, %tid.x;",
        "mad.lo.u32 %r60, %r60, %r61, %r62; mul.wide.u32 %rd61, %r60, 8; add.u64 %rd60, %rd60, %rd61;",
    ]
    names = []
    for index, bits in enumerate(widths):
        lines.append(f"ld.param.u64 %rd62, [in{index}]; add.u64 %rd62, %rd62, %rd61;")
        if bits == 1:
            lines.append(f"ld.global.u32 %r{50 + index}, [%rd62]; setp.ne.u32 %p{index}, %r{50 + index}, 0;")
            names.append(f"%p{index}")
        else:
            register = f"%{_LETTER[bits]}{index}"
            lines.append(f"ld.global.u{bits} {register}, [%rd62];")
            names.append(register)
    lines.append(template.format(*names, d="%p9" if width == 1 else f"%{_LETTER[width]}20"))
    if width == 1:
        lines.append("selp.u32 %r20, 1, 0, %p9;")
    lines.append(f"mov.u64 %rd63, 0; {_widen(width)} st.global.u64 [%rd60], %rd63; ret;")
    params = ", ".join([".param .u64 out", *(f".param .u64 in{index}" for index in range(len(widths)))])
    body = "\n".join(lines)
    return f".visible .entry {name}({params})\n{{\n{REGISTERS}\n{body}\n}}\n"


def apply(
    template: str,
    inputs: Sequence[npt.NDArray[np.uint64]],
    widths: Sequence[int],
    width: int,
    *,
    arch: str = "sm_90a",
    assembled: bool = False,
) -> npt.NDArray[np.uint64]:
    """Run one instruction on many lanes, as many as each input has (a multiple of 32).

    `template` has {d} for its result of `width` bits (1: a predicate) and {0}, {1}, … for its operands, registers of
    `widths` bits. Inputs and result are 64-bit words. `assembled`: the assembler has taken it already.
    """
    count = len(inputs[0])
    text = HEADER.format(arch=arch) + apply_entry(template, widths, width)
    if not assembled:
        assemble(text, arch)
    names = {f"in{index}": Array(shape=(count,), dtype="u64") for index in range(len(widths))}
    where = Launch(
        grid=(count // 32, 1, 1),
        block=(32, 1, 1),
        arrays={"out": Array(shape=(count,), dtype="u64"), **names},
        params=tuple(ArrayParam(name) for name in ("out", *names)),
    )
    done = run(text, where, {f"in{index}": values for index, values in enumerate(inputs)})
    assert done.findings == [], done.findings
    return done.arrays["out"]


def _widen(width: int) -> str:
    return {
        1: "cvt.u64.u32 %rd63, %r20;",
        16: "cvt.u64.u16 %rd63, %rs20;",
        32: "cvt.u64.u32 %rd63, %r20;",
        64: "mov.u64 %rd63, %rd20;",
    }[width]
