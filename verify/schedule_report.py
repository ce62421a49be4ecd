"""What can be said of a schedule: its coverage as findings, a sentence on why, and the verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tilesched.simulator.findings import Finding, Severity, Verdict, verdict_of
from tilesched.simulator.schedule import PhaseClock, Schedule, StridedSchedule

from .certificate import certify
from .coverage import Coverage, Hole, Progress, Repeat, Tally, Visit, check_coverage
from .grid import Tile
from .schedule_protocol import ProtocolCheck

T = TypeVar("T")

__all__ = ["CoverageKind", "ScheduleReport", "check_schedule", "coverage_findings"]


class CoverageKind(StrEnum):
    """Kinds of findings about a schedule."""

    MISSING = "missing"  # a tile of the output that no worker computes
    REPEATED = "repeated"  # a tile of the output that is computed more than once
    OUT_OF_RANGE = "out-of-range"  # a tile outside the output, beyond any padding that is meant
    GHOST = "ghost"  # a tile outside the output that the scheduler's padding hands out on purpose
    HOLE = "hole"  # a wave that a worker skips before a tile of a later wave
    OVERFLOW = "overflow"  # ids that do not fit the kernel's integers


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleReport:
    """A schedule, what it covers, and what is wrong with it."""

    schedule: Schedule
    coverage: Coverage
    findings: Sequence[Finding]
    certified: bool = False
    """Whether the coverage was decided from the schedule's structure, not by looking at each tile."""
    protocol: ProtocolCheck | None = None
    """The verdict of a barrier protocol on the workers' tile lists, if one was asked for."""
    why: str
    """One sentence on the cause of missing, repeated, ghost and out-of-range tiles; empty without any."""

    @property
    def verdict(self) -> Verdict:
        return verdict_of([*self.findings, *(self.protocol.findings if self.protocol else ())])

    @property
    def last_wave_utilisation(self) -> float:
        """Share of the workers that compute a tile in the last wave, 0 to 1."""
        return self.coverage.last_wave_work_tiles / self.schedule.num_workers


def check_schedule(
    schedule: Schedule, *, progress: Progress | None = None, enumerate_all: bool = False
) -> ScheduleReport:
    """Judge the schedule: from its structure where that decides, else, or with `enumerate_all`, tile by tile.

    Raises InputError when there are too many tiles to enumerate.
    """
    certificate = None if enumerate_all else certify(schedule)
    coverage = certificate or check_coverage(schedule, progress=progress)
    findings = [*schedule.remarks, *_overflow(schedule), *coverage_findings(coverage, schedule.clock)]
    explained = any(
        tally.count for tally in (coverage.missing, coverage.repeated, coverage.ghosts, coverage.out_of_range)
    )
    return ScheduleReport(
        schedule=schedule,
        coverage=coverage,
        findings=findings,
        certified=certificate is not None,
        why=(schedule.cause or _generic_cause(schedule, coverage)) if explained else "",
    )


def _overflow(schedule: Schedule) -> list[Finding]:
    if not isinstance(schedule, StridedSchedule) or not schedule.overflows:
        return []
    last, bits = schedule.num_ids - 1, schedule.id_bits
    message = (
        f"ids run to {last} and a worker's next one beyond it, but the kernel holds them in {bits} bits: they wrap "
        "round, and what is said of coverage holds for wider ids only"
    )
    facts = {"last_id": last, "id_bits": bits}
    return [Finding(kind=CoverageKind.OVERFLOW, message=message, facts=facts)]


def coverage_findings(coverage: Coverage, clock: PhaseClock) -> list[Finding]:
    """Coverage as findings, worst first. Ghosts are notes; holes are too where no phase counts waves."""
    of_tiles = f"of {coverage.tiles} tiles are"
    skipped = "waves are skipped by a worker that computes a later tile"
    hole = Severity.NOTE
    if clock is PhaseClock.WAVE:
        hole = Severity.ERROR
        skipped += ": a phase derived from the wave number advances there without any arrival"
    error, note = Severity.ERROR, Severity.NOTE
    rows: list[tuple[CoverageKind, Severity, str, int, list[dict[str, object]]]] = [
        (CoverageKind.MISSING, error, f"{of_tiles} never computed", *_entries(coverage.missing, _tile)),
        (CoverageKind.REPEATED, error, f"{of_tiles} computed more than once", *_entries(coverage.repeated, _repeat)),
        (
            CoverageKind.OUT_OF_RANGE,
            error,
            "tiles outside the output are handed out",
            *_entries(coverage.out_of_range, _visit),
        ),
        (CoverageKind.HOLE, hole, skipped, *_entries(coverage.holes, _hole)),
        (
            CoverageKind.GHOST,
            note,
            "ghost tiles outside the output are handed out by padding",
            *_entries(coverage.ghosts, _visit),
        ),
    ]
    return [
        Finding(kind=kind, severity=severity, message=f"{count} {text}", facts={"count": count, "first": first})
        for kind, severity, text, count, first in rows
        if count
    ]


def _entries(tally: Tally[T], entry: Callable[[T], dict[str, object]]) -> tuple[int, list[dict[str, object]]]:
    return tally.count, [entry(item) for item in tally.first]


def _hole(hole: Hole) -> dict[str, object]:
    return {"worker": hole.worker, "wave": hole.wave, "linear": hole.linear}


def _tile(tile: Tile) -> dict[str, object]:
    return {"m": tile.m, "n": tile.n}


def _visit(visit: Visit) -> dict[str, object]:
    return {**_tile(visit.tile), "worker": visit.worker, "wave": visit.wave}


def _repeat(repeat: Repeat) -> dict[str, object]:
    visits = [{"worker": visit.worker, "wave": visit.wave} for visit in repeat.visits]
    return {**_tile(repeat.tile), "times": repeat.times, "visits": visits}


def _generic_cause(schedule: Schedule, coverage: Coverage) -> str:
    """What the numbers alone say, for a scheduler that does not know its own failure modes."""
    problem = schedule.problem
    needed = problem.clusters_m * problem.clusters_n
    outside, again = coverage.out_of_range.count, coverage.repeated.count
    handed = f"{coverage.work_tiles} work tiles are handed out for the {needed} of the grid"
    if coverage.missing.count and coverage.work_tiles < needed:
        return f"{handed}: the ids end too early"
    if coverage.missing.count:
        wrong = " and ".join(
            text for text, count in (("outside the output", outside), ("on tiles already taken", again)) if count
        )
        return f"{handed}: the mapping puts ids {wrong} that should reach the missing tiles"
    if again:
        return f"{handed}: different ids are mapped to the same tile"
    if outside:
        return f"{handed}: ids run past the output's edge"
    return f"clusters of {problem.cluster_m}x{problem.cluster_n} do not divide the tile grid"
