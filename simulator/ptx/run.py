"""Run a kernel: PTX text and a launch in; findings, contents of arrays and the observed schedule out."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..findings import Finding, Severity
from ..trace import Trace
from .code import compile_kernel
from .engines import Ordering
from .kinds import MachineKind
from .launch import DTYPES_BY_NAME, ArrayParam, Launch, ScalarParam, TensorMapParam, to_bytes
from .machine import Limits, Machine, Stop
from .memory import SHARED_FIRST, Heap, Region
from .observe import Observer
from .parser import parse
from .program import Instruction, Kernel, Module, Param, Variable
from .slots import LANES, Slots
from .tma import make_map
from .warp import Fragment, Warp

__all__ = ["Result", "run"]

_MAX_SHARED = 232448  # bytes that a CTA can have (sm_90, sm_100)
_LISTED = 20
_REGISTER = 360  # bytes: 32 words of 64 bits and NumPy's own

_INCOMPLETE = (MachineKind.UNSUPPORTED, MachineKind.LIMIT)


@dataclass(frozen=True, slots=True)
class Result:
    """What a run gave. `arrays` are the contents at its end, in the shape and NumPy type of their description."""

    kernel: str
    findings: list[Finding]
    arrays: dict[str, npt.NDArray[Any]]
    written: dict[str, bool]
    steps: int
    copies: int
    trace: Trace | None


def run(
    text: str,
    launch: Launch,
    contents: Mapping[str, npt.NDArray[Any]] | None = None,
    *,
    ordering: Ordering | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Run a kernel of a PTX text once, under one ordering of the engines.

    `contents` are values of arrays by name, which go before what the launch says of them. Raises InputError for a
    text, launch or value that is not usable; everything else is a finding.
    """
    ordering, limits = ordering or Ordering(), limits or Limits()
    module = parse(text)
    kernel = _kernel(module, launch)
    _check_launch(kernel, launch)
    need = _memory(launch, kernel, [*module.variables, *kernel.shared])
    if need > limits.memory:
        text = f"arrays and CTAs need {need} bytes, more than the limit of {limits.memory}"
        return Result(kernel.name, [_finding(MachineKind.LIMIT, text, {"limit": "memory"})], {}, {}, 0, 0, None)
    layout = _Layout(module, kernel, launch)
    for name, values in (contents or {}).items():
        if name not in launch.arrays:
            raise InputError(f"array {name!r:.40} is not described")
        layout.fill(name, to_bytes(values, launch.arrays[name], name))
    code = compile_kernel(kernel, module.sm, Slots(kernel.registers, layout.addresses))
    machine = Machine(
        code,
        launch,
        layout.heap,
        layout.params,
        registers=kernel.registers,
        shared_size=layout.shared_size,
        shared_names=layout.shared_names,
        sm=module.sm,
        ordering=ordering,
        limits=limits,
        progress=progress,
    )
    observer = layout.observer(machine.ctas)
    findings = [_unsupported(i, why) for i, why in code.unsupported]
    findings += _execute(machine, kernel)
    policy = f"policy {ordering.policy}, seed {ordering.seed}"
    return Result(
        kernel=kernel.name,
        findings=findings,
        arrays=layout.contents(),
        written={name: bool(region.state[: region.size].all()) for name, region in layout.arrays.items()},
        steps=machine.steps,
        copies=machine.engines.finished,
        trace=observer.trace(kernel.name, policy) if observer is not None else None,
    )


def _kernel(module: Module, launch: Launch) -> Kernel:
    if launch.kernel is not None:
        if launch.kernel not in module.kernels:
            raise InputError(f"kernel {launch.kernel!r:.60} is not in the module; it has {', '.join(module.kernels)}")
        return module.kernels[launch.kernel]
    if len(module.kernels) != 1:
        raise InputError(f"the module has {len(module.kernels)} kernels, the launch does not say which")
    return next(iter(module.kernels.values()))


def _check_launch(kernel: Kernel, launch: Launch) -> None:
    for what, required, given in (
        ("block", kernel.required_block, launch.block),
        ("cluster", kernel.required_cluster, launch.cluster),
    ):
        if required is not None and required != given:
            raise InputError(f"{what}={list(given)}, but kernel {kernel.name} requires {list(required)}")
    if len(kernel.params) != len(launch.params):
        raise InputError(f"kernel {kernel.name} has {len(kernel.params)} parameters, the launch {len(launch.params)}")


def _memory(launch: Launch, kernel: Kernel, variables: list[Variable]) -> int:
    """Bytes that a run holds: arrays, variables, and of the resident CTAs shared memory and registers.

    Every byte of memory has a state beside it; a register of a warp is an array of 32 words with its overhead.
    """
    arrays = sum(array.size for array in launch.arrays.values())
    static = sum(variable.size for variable in variables)
    resident = min(prod(launch.grid), launch.sm_count * launch.ctas_per_sm)
    warps = -(-prod(launch.block) // LANES)
    per_cta = 2 * (SHARED_FIRST + static + launch.dynamic_smem) + warps * (kernel.registers + 40) * _REGISTER
    return 2 * (arrays + static) + resident * per_cta


class _Layout:
    """Where everything lies: arrays, module variables, parameters, shared memory."""

    def __init__(self, module: Module, kernel: Kernel, launch: Launch) -> None:
        self.heap = Heap()
        self.addresses: dict[str, tuple[str, int]] = {}
        self.shared_names: list[tuple[int, str]] = []
        self.arrays: dict[str, Region] = {}
        self._sm = module.sm
        self._launch = launch
        for name, array in launch.arrays.items():
            self.arrays[name] = self.heap.add(f"array {name}", array.size)
            first = array.first_contents()
            if first is not None:
                self.fill(name, to_bytes(first, array, name))
        variables = [*module.variables, *kernel.shared]
        for variable in variables:
            if variable.space in ("global", "const") and variable.initial is not None:
                self._place_global(variable)
        self.shared_size = self._place_shared([one for one in variables if one.space == "shared"])
        size = max((param.offset + param.size for param in kernel.params), default=0)
        self.params = Region("the parameters", 0, size, written=True)
        for param, value in zip(kernel.params, launch.params, strict=True):
            self.addresses[param.name] = "param", param.offset
            self.params.data[param.offset : param.offset + param.size] = np.frombuffer(
                self._value(param, value), np.uint8
            )

    def fill(self, name: str, values: npt.NDArray[np.uint8]) -> None:
        """Write an array's contents."""
        region = self.arrays[name]
        region.data[: region.size] = values
        region.state[: region.size] = 1

    def contents(self) -> dict[str, npt.NDArray[Any]]:
        """All arrays as they are now."""
        described = self._launch.arrays
        return {
            name: region.data[: region.size].view(DTYPES_BY_NAME[described[name].dtype]).reshape(described[name].shape)
            for name, region in self.arrays.items()
        }

    def observer(self, ctas: int) -> Observer | None:
        """Who watches the output, if the launch asks for it."""
        observe = self._launch.observe
        if observe is None:
            return None
        return Observer(observe, self.arrays[observe.array], self._launch.arrays[observe.array].dtype, ctas)

    def _place_global(self, variable: Variable) -> None:
        region = self.heap.add(f"variable {variable.name}", max(variable.size, 1), align=variable.align, written=True)
        initial = variable.initial or b""
        region.data[: len(initial)] = np.frombuffer(initial, np.uint8)
        self.addresses[variable.name] = "global", region.base

    def _place_shared(self, variables: list[Variable]) -> int:
        """Static variables, then the dynamic memory, which all variables without a size share. Bytes in all."""
        offset = SHARED_FIRST
        for variable in sorted(variables, key=lambda one: one.size == 0):
            offset = -(-offset // variable.align) * variable.align
            self.addresses[variable.name] = "shared", offset
            self.shared_names.append((offset, variable.name))
            offset += variable.size
        size = offset - SHARED_FIRST + self._launch.dynamic_smem
        if size > _MAX_SHARED:
            raise InputError(f"shared memory of {size} bytes is more than the {_MAX_SHARED} that a CTA can have")
        return size

    def _value(self, param: Param, value: ArrayParam | ScalarParam | TensorMapParam) -> bytes:
        """The bytes of a parameter."""
        if isinstance(value, ArrayParam):
            if param.size != 8:
                raise InputError(f"parameter {param.name} has {param.size} bytes: no pointer to an array")
            return int(self.arrays[value.array].base + value.offset).to_bytes(8, "little")
        if isinstance(value, TensorMapParam):
            return self._tensor_map(param, value)
        return _scalar(param, value.value)

    def _tensor_map(self, param: Param, value: TensorMapParam) -> bytes:
        """The 128 bytes of a map, or the address of a place that holds them."""
        body = make_map(value, self.arrays[value.array].base, self._sm)
        if param.size == len(body):
            return body
        if param.size != 8:
            raise InputError(f"parameter {param.name} has {param.size} bytes: no tensor map and no pointer to one")
        region = self.heap.add(f"tensor map {param.name}", len(body), written=True)
        region.data[:] = np.frombuffer(body, np.uint8)
        return region.base.to_bytes(8, "little")


def _scalar(param: Param, value: int | float) -> bytes:
    floats = {"f32": "<f", "f64": "<d"}
    if param.type in floats:
        try:
            return struct.pack(floats[param.type], value)
        except OverflowError:
            raise InputError(f"parameter {param.name}={value} is outside .{param.type}") from None
    bits: int = 8 * param.size
    if not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2**bits:
        raise InputError(f"parameter {param.name}={value} is no integer of {bits} bits")
    return int(value % 2**bits).to_bytes(param.size, "little")


# -- findings ---------------------------------------------------------------------------------------------------------


def _execute(machine: Machine, kernel: Kernel) -> list[Finding]:
    findings = []
    try:
        with np.errstate(all="ignore"):
            machine.run()
    except Stop as stop:
        findings.append(_of_stop(stop, machine, kernel))
    for kind, text, facts in machine.notes:
        severity = Severity.ERROR if facts["tx"] else Severity.NOTE
        findings.append(Finding(kind=kind, message=text, severity=severity, facts=facts))
    return findings


def _finding(kind: MachineKind, text: str, facts: Mapping[str, object]) -> Finding:
    severity = Severity.INCOMPLETE if kind in _INCOMPLETE else Severity.ERROR
    return Finding(kind=kind, message=text, severity=severity, facts=facts)


def _unsupported(i: Instruction, why: str) -> Finding:
    text = f"{_where(i)}: {i.opcode}: {why} is not supported, and control flow can reach it"
    return _finding(MachineKind.UNSUPPORTED, text, _line_facts(i))


def _where(i: Instruction) -> str:
    return f"line {i.line}" + (f" ({i.source})" if i.source else "")


def _line_facts(i: Instruction) -> dict[str, object]:
    return {"line": i.line, "source": i.source, "opcode": i.opcode}


def _of_stop(stop: Stop, machine: Machine, kernel: Kernel) -> Finding:
    facts = dict(stop.facts)
    i = facts.pop("instruction", None)
    text = str(stop)
    if stop.kind in (MachineKind.DEADLOCK, MachineKind.LIVELOCK, MachineKind.NOT_RESIDENT, MachineKind.LIMIT):
        waiting = [one for cta in machine.resident for warp in cta.warps for one in _threads(warp, kernel)]
        facts |= {"threads": len(waiting), "waiting": waiting[:_LISTED]}
        if waiting:
            text += f": {waiting[0]['who']} {waiting[0]['text']}"
            text += f", and {len(waiting) - 1} more" if len(waiting) > 1 else ""
        return _finding(stop.kind, text, facts)
    if not isinstance(i, Instruction) and stop.fragment is not None:
        i = kernel.code[min(stop.fragment.pc, len(kernel.code) - 1)]
    if isinstance(i, Instruction):
        facts |= _line_facts(i)
        text = f"{_where(i)}: {text}"
    if stop.warp is not None and stop.fragment is not None:
        facts |= {"cta": stop.warp.cta.index, "warp": stop.warp.index}
        text = f"{_who(stop.warp, stop.fragment)}, {text}"
    return _finding(stop.kind, text, facts)


def _who(warp: Warp, fragment: Fragment) -> str:
    lanes = np.flatnonzero(fragment.mask).tolist()
    which = "" if fragment.count == warp.live_count else f" lane{'s' if len(lanes) > 1 else ''} {_range(lanes)}"
    return f"CTA {warp.cta.index} warp {warp.index}{which}"


def _range(lanes: list[int]) -> str:
    return str(lanes[0]) if len(lanes) == 1 else f"{lanes[0]}-{lanes[-1]}"


def _threads(warp: Warp, kernel: Kernel) -> list[dict[str, object]]:
    """Where the threads of a warp are, and what they wait for."""
    found = []
    for fragment in warp.fragments:
        i = kernel.code[min(fragment.pc, len(kernel.code) - 1)]
        blocked = fragment.blocked
        found.append(
            {
                "who": _who(warp, fragment),
                "cta": warp.cta.index,
                "warp": warp.index,
                "lanes": np.flatnonzero(fragment.mask).tolist(),
                **_line_facts(i),
                "text": f"at {_where(i)} " + (blocked.text if blocked is not None else "runs"),
                **(blocked.facts if blocked is not None else {}),
            }
        )
    return found
