"""How a kernel is launched: the description `tilesched/launch/1` (docs/ptx.md), and the values it stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..problem import Problem
from .floats import FORMATS

__all__ = [
    "DTYPES_BY_NAME",
    "MAX_ARRAY",
    "SCHEMA",
    "Array",
    "ArrayParam",
    "Launch",
    "Observe",
    "ScalarParam",
    "TensorMapParam",
    "to_bytes",
]

SCHEMA = "tilesched/launch/1"
MAX_ARRAY = 2**32
"""Largest array, in bytes."""

_MAX_GRID = 2**31 - 1
_MAX_THREADS = 1024
_MAX_CLUSTER = 16
_MAX_DRAWN = 1e30  # of drawn and filled values

DTYPES_BY_NAME: dict[str, Any] = {
    **{f"u{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"s{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    "f16": np.dtype("<f2"),
    "bf16": np.dtype("<u2"),  # NumPy has no bf16: the bits
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
}
"""NumPy's type for each of the description's element types."""

Three: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """An array in global memory.

    Its first contents: `file` (.npy, read by the caller), drawn by `seed` in [low, high), `fill`, or nothing yet, so
    that to read it before it is written is a finding. Raises InputError for a shape or type that is not usable.
    """

    shape: tuple[int, ...]
    dtype: str
    file: str | None = None
    seed: int | None = None
    low: float = -1.0
    high: float = 1.0
    fill: float | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES_BY_NAME:
            raise InputError(f"dtype={self.dtype!r:.40} is not one of {', '.join(DTYPES_BY_NAME)}")
        if not self.shape or min(self.shape) < 1 or self.size > MAX_ARRAY:
            raise InputError(f"shape={list(self.shape)} of {self.dtype} is empty or larger than {MAX_ARRAY} bytes")
        if (self.file is not None) + (self.seed is not None) + (self.fill is not None) > 1:
            raise InputError("an array has more than one of file, seed and fill")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise InputError(f"seed={self.seed} is outside [0, 2^63 - 1]")
        if not -_MAX_DRAWN <= self.low < self.high <= _MAX_DRAWN:
            raise InputError(f"low={self.low}, high={self.high} is no range within ±{_MAX_DRAWN:g}")
        if self.fill is not None:
            self._check_fill(self.fill)

    def _check_fill(self, fill: float) -> None:
        kind = DTYPES_BY_NAME[self.dtype]
        if kind.kind in "iu" and self.dtype != "bf16":
            limits = np.iinfo(kind)
            if fill != int(fill) or not int(limits.min) <= fill <= int(limits.max):
                raise InputError(f"fill={fill} is no {self.dtype}")
        elif not abs(fill) <= _MAX_DRAWN:
            raise InputError(f"fill={fill} is outside ±{_MAX_DRAWN:g}")

    @property
    def size(self) -> int:
        """Bytes."""
        return prod(self.shape) * int(DTYPES_BY_NAME[self.dtype].itemsize)

    def first_contents(self) -> npt.NDArray[Any] | None:
        """Drawn or filled values of the array's shape and NumPy type; None where nothing is written yet."""
        kind = DTYPES_BY_NAME[self.dtype]
        if self.fill is not None:
            return _as_dtype(np.full(self.shape, self.fill), self.dtype)
        if self.seed is None:
            return None
        draw = np.random.default_rng(self.seed)
        if kind.kind in "iu" and self.dtype != "bf16":
            limits = np.iinfo(kind)
            low, high = max(int(self.low), int(limits.min)), min(int(self.high), int(limits.max) + 1)
            if low >= high:
                raise InputError(f"low={self.low}, high={self.high} leave nothing of {self.dtype}")
            return draw.integers(low, high, self.shape, kind)
        return _as_dtype(draw.uniform(self.low, self.high, self.shape), self.dtype)


def _as_dtype(values: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    if dtype == "bf16":
        return FORMATS["bf16"].rounded(values.astype(np.float64).reshape(-1), "rn").reshape(values.shape)
    return values.astype(DTYPES_BY_NAME[dtype])


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """A pointer to an array, plus bytes."""

    array: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A number of the parameter's own type."""

    value: int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMapParam:
    """A tensor map over an array: dims and box innermost first, `strides` in bytes of all dims but the first.

    By value where the parameter has 128 bytes, by pointer where it has 8. The field names are those of
    cuTensorMapEncodeTiled.
    """

    array: str
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle: str = "none"
    fill: str = "zero"
    offset: int = 0


Parameter: TypeAlias = ArrayParam | ScalarParam | TensorMapParam


@dataclass(frozen=True, slots=True)
class Observe:
    """What to derive the observed schedule from: stores to `array`, a row-major matrix of the problem's M and N."""

    array: str
    problem: Problem
    scheduler: str | None = None
    params: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch. Sizes in CTAs and threads along x, y, z; `dynamic_smem` in bytes.

    `sm_count` times `ctas_per_sm` CTAs are resident at once, in whole clusters; the others wait for room.
    Raises InputError for what CUDA would refuse.
    """

    grid: Three
    block: Three
    cluster: Three = (1, 1, 1)
    dynamic_smem: int = 0
    sm_count: int = 148
    ctas_per_sm: int = 1
    arrays: Mapping[str, Array] = field(default_factory=dict)
    params: tuple[Parameter, ...] = ()
    kernel: str | None = None
    observe: Observe | None = None

    def __post_init__(self) -> None:
        for name, sizes, bound in (
            ("grid", self.grid, _MAX_GRID),
            ("block", self.block, _MAX_THREADS),
            ("cluster", self.cluster, _MAX_CLUSTER),
        ):
            if min(sizes) < 1 or prod(sizes) > bound:
                raise InputError(f"{name}={list(sizes)} is not positive, or more than {bound} in all")
        for axis, (ctas, width) in enumerate(zip(self.grid, self.cluster, strict=True)):
            if ctas % width:
                raise InputError(f"grid={ctas} along {'xyz'[axis]} is not a multiple of cluster={width}")
        for name, value, low, high in (
            ("sm_count", self.sm_count, 1, 2**16),
            ("ctas_per_sm", self.ctas_per_sm, 1, 32),
            ("dynamic_smem", self.dynamic_smem, 0, 232448),
        ):
            if not low <= value <= high:
                raise InputError(f"{name}={value} is outside [{low}, {high}]")
        if self.sm_count * self.ctas_per_sm < prod(self.cluster):
            raise InputError(f"cluster={list(self.cluster)} does not fit on {self.sm_count} SMs")
        for param in self.params:
            if not isinstance(param, ScalarParam):
                if param.array not in self.arrays:
                    raise InputError(f"a parameter means array {param.array!r:.40}, which is not described")
                if not 0 <= param.offset <= self.arrays[param.array].size:
                    raise InputError(f"offset={param.offset} is outside array {param.array}")
        if self.observe is not None:
            self._check_observe(self.observe)

    def _check_observe(self, observe: Observe) -> None:
        array = self.arrays.get(observe.array)
        if array is None:
            raise InputError(f"observe means array {observe.array!r:.40}, which is not described")
        want = observe.problem.m, observe.problem.n
        if array.shape != want:
            raise InputError(f"observe: array {observe.array} has shape {list(array.shape)}, not {list(want)} (M, N)")

    @staticmethod
    def from_json(body: object) -> Launch:
        """The launch that a parsed description means. Raises InputError with the field that is wrong."""
        return _Reader(body, "launch").launch()


def to_bytes(values: npt.NDArray[Any], array: Array, name: str) -> npt.NDArray[np.uint8]:
    """The bytes of an array's contents. Raises InputError where they are not of its shape and type."""
    kind = DTYPES_BY_NAME[array.dtype]
    if values.shape != array.shape or values.dtype != kind:
        raise InputError(f"array {name}: {values.dtype} {list(values.shape)} is given, not {kind} {list(array.shape)}")
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


class _Reader:
    """Takes fields of a JSON object, and refuses those that nobody took."""

    def __init__(self, body: object, what: str) -> None:
        if not isinstance(body, dict):
            raise InputError(f"{what} is a {type(body).__name__}, not an object")
        self._body = dict(body)
        self._what = what

    def take(self, name: str, kind: type | tuple[type, ...], default: object = ...) -> Any:
        value = self._body.pop(name, default)
        if value is ...:
            raise InputError(f"{self._what} has no {name}")
        if value is default and default is None:
            return None
        if not isinstance(value, kind) or isinstance(value, bool):
            raise InputError(f"{self._what}: {name}={value!r:.60} is of the wrong type")
        return value

    def integers(self, name: str, default: object = ..., count: int | None = None) -> tuple[int, ...]:
        values = self.take(name, list, default)
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            raise InputError(f"{self._what}: {name}={values!r:.60} is not a list of integers")
        if not 1 <= len(values) <= (count or 8):
            raise InputError(f"{self._what}: {name} has {len(values)} entries, not 1 to {count or 8}")
        return tuple(values)

    def three(self, name: str, default: object = ...) -> Three:
        x, y, z = (*self.integers(name, default, 3), 1, 1)[:3]
        return x, y, z

    def finish(self) -> None:
        if self._body:
            raise InputError(f"{self._what}: field {next(iter(self._body))!r:.40} is unknown")

    def launch(self) -> Launch:
        schema = self.take("schema", str)
        if schema != SCHEMA:
            raise InputError(f"schema={schema!r:.60} is not {SCHEMA!r}")
        arrays = {
            str(name): _array(body, f"array {name!r:.40}") for name, body in self.take("arrays", dict, {}).items()
        }
        params = tuple(
            _parameter(body, f"parameter {index}", arrays) for index, body in enumerate(self.take("params", list, []))
        )
        observe = self.take("observe", dict, None)
        launch = Launch(
            kernel=self.take("kernel", str, None),
            grid=self.three("grid"),
            block=self.three("block"),
            cluster=self.three("cluster", [1]),
            dynamic_smem=self.take("dynamic_smem", int, 0),
            sm_count=self.take("sm_count", int, 148),
            ctas_per_sm=self.take("ctas_per_sm", int, 1),
            arrays=arrays,
            params=params,
            observe=None if observe is None else _observe(observe),
        )
        self.finish()
        return launch


def _array(body: object, what: str) -> Array:
    reader = _Reader(body, what)
    array = Array(
        shape=reader.integers("shape"),
        dtype=reader.take("dtype", str),
        file=reader.take("file", str, None),
        seed=reader.take("seed", int, None),
        low=reader.take("low", (int, float), -1.0),
        high=reader.take("high", (int, float), 1.0),
        fill=reader.take("fill", (int, float), None),
    )
    reader.finish()
    return array


def _parameter(body: object, what: str, arrays: Mapping[str, Array]) -> Parameter:
    reader = _Reader(body, what)
    makers: dict[str, Callable[[_Reader, Mapping[str, Array]], Parameter]] = {
        "tensor_map": _tensor_map,
        "scalar": lambda r, _: ScalarParam(r.take("scalar", (int, float))),
        "array": lambda r, _: ArrayParam(r.take("array", str), r.take("offset", int, 0)),
    }
    for name, make in makers.items():
        if isinstance(body, dict) and name in body:
            parameter = make(reader, arrays)
            reader.finish()
            return parameter
    raise InputError(f"{what} is none of {', '.join(makers)}")


def _tensor_map(reader: _Reader, arrays: Mapping[str, Array]) -> Parameter:
    inner = _Reader(reader.take("tensor_map", dict), "tensor_map")
    array = inner.take("array", str)
    if array not in arrays:
        raise InputError(f"tensor_map means array {array!r:.40}, which is not described")
    of = arrays[array]
    dims = inner.integers("dims", list(reversed(of.shape)), 5)
    itemsize = int(DTYPES_BY_NAME[of.dtype].itemsize)
    natural = [itemsize * prod(dims[: index + 1]) for index in range(len(dims) - 1)]
    strides = inner.take("strides", list, natural)
    if not all(isinstance(one, int) for one in strides):
        raise InputError(f"tensor_map: strides={strides!r:.60} is not a list of integers")
    parameter = TensorMapParam(
        array=array,
        dtype=inner.take("dtype", str, of.dtype),
        dims=dims,
        strides=tuple(strides),
        box=inner.integers("box", count=5),
        element_strides=inner.integers("element_strides", [1] * len(dims), 5),
        swizzle=inner.take("swizzle", str, "none"),
        fill=inner.take("fill", str, "zero"),
        offset=inner.take("offset", int, 0),
    )
    inner.finish()
    return parameter


def _observe(body: object) -> Observe:
    reader = _Reader(body, "observe")
    problem = _Reader(reader.take("problem", dict), "observe.problem")
    sizes = {str(name): problem.take(str(name), int) for name in list(problem._body)}
    try:
        made = Problem(**sizes)
    except TypeError:
        raise InputError("observe.problem lacks one of m, n, k, or has a field that is unknown") from None
    params = reader.take("params", dict, {})
    if not all(isinstance(value, (int, str)) for value in params.values()):
        raise InputError("observe.params has a value that is neither integer nor text")
    observe = Observe(reader.take("array", str), made, reader.take("scheduler", str, None), params)
    reader.finish()
    return observe
