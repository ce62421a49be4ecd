"""Traces: which CTA and role took which tile, as a kernel recorded it. The file forms are in trace_codec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import InputError, TraceError
from .problem import Problem, require_int32

__all__ = ["OPTIONAL_COLUMNS", "REQUIRED_COLUMNS", "SCHEMA", "Column", "Trace", "TraceHeader"]

SCHEMA = "tilesched/trace/1"

REQUIRED_COLUMNS = ("cta", "role", "m", "n")
OPTIONAL_COLUMNS = ("worker", "wave", "linear", "sm", "begin_ns", "end_ns")

Column = npt.NDArray[np.int64]

_MAX_ROLES = 64
_MAX_TEXT = 10_000
_MAX_SLOTS = 2**20  # (CTA, role) pairs: a count is held for each
_MAX_TILES = 2**28  # of the output: a bit or two are held for each, and no file holds as many records
_RANGES = {"m": 2**31, "n": 2**31}  # kernels hold coordinates in 32 bits
_MAX_VALUE = 2**62  # of other columns: differences and sums of two stay within 64 bits
_PROBLEM_FIELDS = [item.name for item in fields(Problem)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHeader:
    """What was run. Raises TraceError for values that contradict each other.

    roles: names of a CTA's roles; records refer to them by index. leader_roles: those that only the first CTA of a
    cluster runs, for the whole cluster tile; it records its own CTA tile. ctas: CTAs in the grid, those of a cluster
    one after the other.
    scheduler, params: a name of the registry and its options (panel_width, raster, num_workers, launched), or None
    for a scheduler that is not ours. capacity: records that a (CTA, role) slot could hold, None for unlimited.
    """

    kernel: str
    source: str
    roles: tuple[str, ...]
    ctas: int
    problem: Problem
    leader_roles: tuple[str, ...] = ()
    scheduler: str | None = None
    params: Mapping[str, int | str] = field(default_factory=dict)
    capacity: int | None = None
    device: Mapping[str, str] = field(default_factory=dict)
    provenance: str = ""

    def __post_init__(self) -> None:
        if not 1 <= len(self.roles) <= _MAX_ROLES or len(set(self.roles)) != len(self.roles):
            raise TraceError(f"roles={list(self.roles)[:8]} are not 1 to {_MAX_ROLES} different names")
        if self.problem.clusters_m * self.problem.clusters_n * self.problem.cluster_size > _MAX_TILES:
            raise TraceError(f"tiles={self.problem.tiles} of the problem are more than {_MAX_TILES}")
        if strangers := set(self.leader_roles) - set(self.roles):
            raise TraceError(f"leader_roles has {sorted(strangers)[0][:40]!r}, which is not in roles")
        try:
            require_int32("ctas", self.ctas)
            if self.ctas * len(self.roles) > _MAX_SLOTS:
                raise InputError(f"ctas*roles={self.ctas * len(self.roles)} is outside [1, {_MAX_SLOTS}]")
            if self.capacity is not None:
                require_int32("capacity", self.capacity)
        except InputError as error:
            raise TraceError(str(error)) from None

    def to_json(self) -> dict[str, object]:
        """The header as the file holds it."""
        return {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "source": self.source,
            "roles": list(self.roles),
            "leader_roles": list(self.leader_roles),
            "ctas": self.ctas,
            "problem": {name: getattr(self.problem, name) for name in _PROBLEM_FIELDS},
            "scheduler": self.scheduler,
            "params": dict(self.params),
            "capacity": self.capacity,
            "device": dict(self.device),
            "provenance": self.provenance,
        }

    @staticmethod
    def from_json(body: object) -> TraceHeader:
        """The header of a parsed file; fields that are not known are passed over. Raises TraceError."""
        if not isinstance(body, dict):
            raise TraceError(f"the header is a {type(body).__name__}, not an object")
        if body.get("schema") != SCHEMA:
            raise TraceError(f"schema={_short(body.get('schema'))} is not {SCHEMA!r}")
        device = _typed(body, "device", dict, {})
        return TraceHeader(
            kernel=_text(body, "kernel"),
            source=_text(body, "source"),
            roles=_names(body, "roles"),
            leader_roles=_names(body, "leader_roles"),
            ctas=_typed(body, "ctas", int, None),
            problem=_problem(_typed(body, "problem", dict, None)),
            scheduler=None if body.get("scheduler") is None else _text(body, "scheduler"),
            params=_params(_typed(body, "params", dict, {})),
            capacity=_typed(body, "capacity", (int, type(None)), None),
            device={_printable("device", name): _printable("device", str(value)) for name, value in device.items()},
            provenance=_text(body, "provenance"),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Records in columns of one length; those of a (CTA, role) stand in the order in which they were written.

    `columns` has all of REQUIRED_COLUMNS and some of OPTIONAL_COLUMNS: `m`, `n` in CTA tiles, `sm` an SM id,
    `begin_ns`, `end_ns` of one clock. `wanted[cta, role]` is how many records the slot wanted to write, None if
    the kernel does not count; more than it holds means that the trace is cut off there.
    Raises TraceError when columns, lengths or ranges are wrong.
    """

    header: TraceHeader
    columns: Mapping[str, Column]
    wanted: Column | None = None

    def __post_init__(self) -> None:
        known = REQUIRED_COLUMNS + OPTIONAL_COLUMNS
        for name in REQUIRED_COLUMNS:
            if name not in self.columns:
                raise TraceError(f"column {name!r} is absent")
        if self.columns["cta"].ndim != 1:
            raise TraceError(f"column 'cta' has shape {self.columns['cta'].shape}, not one axis")
        length = len(self.columns["cta"])
        for name, column in self.columns.items():
            if name not in known:
                raise TraceError(f"column {name!r} is unknown; known: {', '.join(known)}")
            if column.shape != (length,):
                raise TraceError(f"column {name!r} has shape {column.shape}, column 'cta' has ({length},)")
        for name, column in self.columns.items():
            most = _RANGES.get(name, _MAX_VALUE)
            if length and not -most <= int(column.min()) <= int(column.max()) < most:
                wrong = int(np.flatnonzero((column < -most) | (column >= most))[0])
                raise TraceError(f"record {wrong}: {name}={column[wrong]} is outside [{-most}, {most - 1}]")
        for name, bound in (("cta", self.header.ctas), ("role", len(self.header.roles))):
            column = self.columns[name]
            if length and not 0 <= int(column.min()) <= int(column.max()) < bound:
                wrong = int(np.flatnonzero((column < 0) | (column >= bound))[0])
                raise TraceError(f"record {wrong}: {name}={column[wrong]} is outside [0, {bound - 1}]")
        if self.wanted is not None:
            self._check_wanted(self.wanted)

    def _check_wanted(self, wanted: Column) -> None:
        shape = self.header.ctas, len(self.header.roles)
        if wanted.shape != shape:
            raise TraceError(f"'wanted' has shape {wanted.shape}, not {shape} (ctas, roles)")
        short = np.argwhere(wanted < self.stored())
        if len(short):
            cta, role = (int(index) for index in short[0])
            raise TraceError(
                f"CTA {cta} role {self.header.roles[role]!r}: {self.stored()[cta, role]} records stand in the file, "
                f"wanted={wanted[cta, role]}"
            )

    def stored(self) -> Column:
        """Records of every (CTA, role): shape (ctas, roles)."""
        roles = len(self.header.roles)
        slot = self.columns["cta"] * roles + self.columns["role"]
        return np.bincount(slot, minlength=self.header.ctas * roles).reshape(self.header.ctas, roles)

    def by_slot(self) -> tuple[npt.NDArray[np.int64], Column]:
        """Row numbers sorted by (CTA, role) in the order of writing, and where each slot begins in them."""
        order = np.lexsort((self.columns["role"], self.columns["cta"]))
        return order, np.concatenate([np.zeros(1, np.int64), np.cumsum(self.stored().reshape(-1))])


def _short(value: object) -> str:
    return repr(value)[:60]


def _typed(body: Mapping[str, object], name: str, kind: type | tuple[type, ...], default: object) -> Any:
    value = body.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TraceError(f"header field {name}={_short(value)} is of the wrong type")
    return value


def _names(body: Mapping[str, object], name: str) -> tuple[str, ...]:
    values = _typed(body, name, list, [])
    if not all(isinstance(value, str) for value in values):
        raise TraceError(f"{name} are not names")
    return tuple(_printable(name, value) for value in values)


def _text(body: Mapping[str, object], name: str) -> str:
    return _printable(name, _typed(body, name, str, ""))


def _printable(name: str, text: str) -> str:
    """Text that goes to a terminal as it is: no control characters, no halves of surrogate pairs, no end."""
    if len(text) > _MAX_TEXT or not text.isprintable():
        raise TraceError(f"header field {name}={_short(text)} is not printable text of at most {_MAX_TEXT} characters")
    return text


def _problem(body: Mapping[str, object]) -> Problem:
    sizes: dict[str, int] = {}
    for name in _PROBLEM_FIELDS:
        if name in body:
            sizes[name] = _typed(body, name, int, None)
    try:
        return Problem(**sizes)
    except TypeError:
        raise TraceError("header field problem lacks one of m, n, k") from None
    except InputError as error:
        raise TraceError(f"header field problem: {error}") from None


def _params(body: Mapping[str, object]) -> dict[str, int | str]:
    params: dict[str, int | str] = {}
    for name, value in body.items():
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise TraceError(f"header field params: {name}={_short(value)} is neither integer nor text")
        params[_printable("params", name)] = _printable("params", value) if isinstance(value, str) else value
    return params
