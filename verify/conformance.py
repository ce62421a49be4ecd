"""Conformance: whether a trace agrees with the model, its roles with each other, and the output is covered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from tilesched.simulator.errors import InputError, NoScheduleError, TraceError
from tilesched.simulator.findings import Finding, Severity, Verdict, verdict_of
from tilesched.simulator.raster import RasterOrder
from tilesched.simulator.schedule import PhaseClock, Schedule, TableSchedule, cta_tiles
from tilesched.simulator.schedulers import Options, get
from tilesched.simulator.trace import Column, Trace, TraceHeader

from .coverage import check_coverage
from .divergence import explain
from .records import COMPARED, NOTHING, Records, SlotRecords, first_difference, model_records
from .schedule_report import coverage_findings

__all__ = ["TraceKind", "TraceReport", "check_trace"]

_OPTIONS = ("panel_width", "num_workers", "launched")


class TraceKind(StrEnum):
    """Kinds of findings about a trace, beside those of coverage."""

    OVERFLOW = "overflow"  # a slot wanted to write more records than it could hold
    GRID = "grid"  # other CTAs were launched than the model's
    DIVERGENCE = "divergence"  # a role took another tile than the model, or more, or fewer
    ROLES = "roles"  # roles of a CTA took different tiles
    UNKNOWN_SCHEDULER = "unknown-scheduler"  # there is no model to compare with


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReport:
    """What a trace shows. `schedule` is the model's, None where the scheduler is not ours."""

    trace: Trace
    schedule: Schedule | None
    findings: Sequence[Finding]

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.findings)


def check_trace(trace: Trace) -> TraceReport:
    """Check a trace. Raises TraceError when its header asks for a schedule that does not exist."""
    slots = _Slots(trace)
    schedule = _model(trace.header)
    findings = _overflow(slots)
    if schedule is None:
        findings.append(_no_model(trace.header))
    else:
        findings += _grid(trace.header, schedule)
        findings += _divergence(slots, schedule)
    findings += _roles(slots)
    findings += _coverage(slots, schedule)
    return TraceReport(trace=trace, schedule=schedule, findings=findings)


class _Slots:
    """The records of a trace by CTA and role, in the order of writing."""

    def __init__(self, trace: Trace) -> None:
        self.header = trace.header
        order, self._starts = trace.by_slot()
        self.columns = {name: trace.columns[name][order] for name in COMPARED if name in trace.columns}
        self.stored = trace.stored()
        self.wanted = self.stored if trace.wanted is None else trace.wanted
        self.complete = not (self.wanted > self.stored).any()

    def records(self, cta: int, role: int) -> dict[str, Column]:
        """The columns of a slot."""
        slot = cta * len(self.header.roles) + role
        return {name: column[self._starts[slot] : self._starts[slot + 1]] for name, column in self.columns.items()}

    def against(self, schedule: Schedule) -> Iterator[SlotRecords]:
        """Every slot, beside what the model has it record."""
        roles = range(len(self.header.roles))
        for cta in range(self.header.ctas):
            expected = model_records(schedule, cta, int(self.stored[cta].max()) + 1)
            for role in roles:
                runs = self.runs(cta, role)
                recorded = self.records(cta, role)
                yield SlotRecords(cta, role, expected if runs else NOTHING, recorded, runs, self.cut_off(cta, role))

    def runs(self, cta: int, role: int) -> bool:
        """Whether the CTA has the role: leader roles are those of a cluster's first CTA."""
        leads = cta % self.header.problem.cluster_size == 0
        return leads or self.header.roles[role] not in self.header.leader_roles

    def cut_off(self, cta: int, role: int) -> bool:
        """Whether the slot lost records."""
        return bool(self.wanted[cta, role] > self.stored[cta, role])


def _model(header: TraceHeader) -> Schedule | None:
    if header.scheduler is None:
        return None
    try:
        spec = get(header.scheduler)
    except InputError:
        return None
    for name, value in header.params.items():
        if name != "raster" and (name not in _OPTIONS or not isinstance(value, int)):
            raise TraceError(f"header field params: {name}={value!r} is not one of raster, {', '.join(_OPTIONS)}")
    try:
        raster = header.params.get("raster")
        numbers = {name: int(header.params[name]) for name in _OPTIONS if name in header.params}
        options = Options(raster=None if raster is None else RasterOrder.parse(str(raster)), **numbers)
        return spec.build(header.problem, options)
    except NoScheduleError as error:
        raise TraceError(f"{header.scheduler} has no schedule: {error}") from None


def _no_model(header: TraceHeader) -> Finding:
    named = header.scheduler is not None
    name = f"{header.scheduler!r} is not in the registry" if named else "none is named"
    return Finding(
        kind=TraceKind.UNKNOWN_SCHEDULER,
        message=f"no scheduler to compare with ({name}): only coverage and the roles' agreement were checked",
        severity=Severity.INCOMPLETE if named else Severity.NOTE,
        facts={"scheduler": header.scheduler},
    )


def _overflow(slots: _Slots) -> list[Finding]:
    lost = np.argwhere(slots.wanted > slots.stored)
    if not len(lost):
        return []
    cta, role = (int(index) for index in lost[0])
    name, wanted, held = slots.header.roles[role], int(slots.wanted[cta, role]), int(slots.stored[cta, role])
    return [
        Finding(
            kind=TraceKind.OVERFLOW,
            message=f"the trace is cut off: {len(lost)} of {slots.stored.size} slots overflowed, first CTA {cta} role "
            f"{name}, which took {wanted} tiles and holds {held} records",
            severity=Severity.INCOMPLETE,
            facts={"slots": len(lost), "cta": cta, "role": name, "wanted": wanted, "stored": held},
        )
    ]


def _grid(header: TraceHeader, schedule: Schedule) -> list[Finding]:
    expected = schedule.num_workers * header.problem.cluster_size
    if header.ctas == expected:
        return []
    return [
        Finding(
            kind=TraceKind.GRID,
            message=f"{header.ctas} CTAs were launched, the model has {expected}: {schedule.num_workers} workers of "
            f"{header.problem.cluster_size}",
            facts={"ctas": header.ctas, "expected": expected},
        )
    ]


def _divergence(slots: _Slots, schedule: Schedule) -> list[Finding]:
    """The first slot that leaves the model, how many do, and what would explain all of them."""
    compared = list(slots.against(schedule))
    diverging = [slot for slot in compared if slot.leaves(slot.expected) is not None]
    if not diverging:
        return []
    first, cause = diverging[0], explain(schedule, compared)
    position = first.leaves(first.expected)
    assert position is not None
    facts = {
        "slots": len(diverging),
        "cta": first.cta,
        "role": slots.header.roles[first.role],
        "position": position,
        "expected": _at(first.expected, position, first.recorded),
        "recorded": _at(first.recorded, position, first.recorded),
        "cause": cause,
    }
    message = (
        f"CTA {first.cta} role {facts['role']} position {position}: expected {_show(facts['expected'])}, "
        f"recorded {_show(facts['recorded'])}; {len(diverging)} of {slots.stored.size} slots diverge"
    )
    return [
        Finding(kind=TraceKind.DIVERGENCE, message=f"{message}; {cause}" if cause else message, facts=facts),
    ]


def _at(records: Records, position: int, recorded: Records) -> dict[str, int] | None:
    """The record at a position, in the columns that were recorded; None past the end."""
    if position >= len(records["m"]):
        return None
    return {name: int(records[name][position]) for name in recorded}


def _show(record: object) -> str:
    if not isinstance(record, dict):
        return "nothing"
    rest = ", ".join(f"{name} {record[name]}" for name in ("linear", "wave", "worker") if name in record)
    return f"({record['m']},{record['n']})" + (f" [{rest}]" if rest else "")


def _roles(slots: _Slots) -> list[Finding]:
    """Roles of a CTA must take the same tiles in the same order."""
    names = slots.header.roles
    for cta in range(slots.header.ctas):
        reference, *others = [role for role in range(len(names)) if slots.runs(cta, role)] or [0]
        one = {name: slots.records(cta, reference)[name] for name in ("m", "n")}
        for role in others:
            other = {name: slots.records(cta, role)[name] for name in ("m", "n")}
            position = first_difference(one, other)
            end = position is not None and position == min(len(one["m"]), len(other["m"]))
            if position is None or (end and (slots.cut_off(cta, reference) or slots.cut_off(cta, role))):
                continue
            tiles = [
                (int(records["m"][position]), int(records["n"][position])) if position < len(records["m"]) else None
                for records in (one, other)
            ]
            pair = [names[reference], names[role]]
            took = ", ".join(
                f"{name} took {f'({tile[0]},{tile[1]})' if tile else 'nothing'}"
                for name, tile in zip(pair, tiles, strict=True)
            )
            return [
                Finding(
                    kind=TraceKind.ROLES,
                    message=f"roles disagree, first in CTA {cta} position {position}: {took}",
                    facts={"cta": cta, "position": position, "roles": pair, "tiles": tiles},
                )
            ]
    return []


def _coverage(slots: _Slots, schedule: Schedule | None) -> list[Finding]:
    """Each role must take every tile of the output exactly once; nothing is said of a trace that is cut off."""
    findings: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    if not slots.complete:
        return []
    for role, name in enumerate(slots.header.roles):
        coverage = check_coverage(_as_schedule(slots, role, schedule))
        for finding in coverage_findings(coverage, PhaseClock.TILE):
            key = str(finding.kind), repr(finding.facts["first"])
            findings.setdefault(key, (finding, []))[1].append(name)
    return [
        replace(finding, message=f"{_role_text(names)}: {finding.message}", facts={**finding.facts, "roles": names})
        for finding, names in findings.values()
    ]


def _role_text(names: Sequence[str]) -> str:
    return f"role{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _as_schedule(slots: _Slots, role: int, schedule: Schedule | None) -> TableSchedule:
    """What a role did, as a schedule of single CTAs, so that the one coverage checker judges it.

    A leader's record stands for all CTA tiles of its cluster.
    """
    problem = slots.header.problem
    records = [slots.records(cta, role) for cta in range(slots.header.ctas)]
    m, n = (np.concatenate([record[axis] for record in records]) for axis in ("m", "n"))
    size = 1
    if slots.header.roles[role] in slots.header.leader_roles:
        size = problem.cluster_size
        ranks = list(cta_tiles(problem, np.zeros(1, np.int64), np.zeros(1, np.int64)))
        m, n = (
            np.stack([axis + rank[which] for rank in ranks], axis=1).reshape(-1) for which, axis in enumerate((m, n))
        )
    return TableSchedule(
        name=slots.header.kernel,
        problem=replace(problem, cluster_m=1, cluster_n=1),
        num_workers=slots.header.ctas,
        params={},
        padded_m=schedule.padded_m if schedule else problem.clusters_m * problem.cluster_m,
        padded_n=schedule.padded_n if schedule else problem.clusters_n * problem.cluster_n,
        clock=PhaseClock.TILE,
        offsets=np.cumsum([0, *(size * len(record["m"]) for record in records)]),
        linear=np.arange(len(m)),
        m=m,
        n=n,
        emitted=np.ones(len(m), np.bool_),
    )
