"""What can be said of an original's listing: coverage down to k-blocks, ids without work, pairs of CTAs, residency."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tilesched.simulator.errors import InputError
from tilesched.simulator.findings import Finding, Severity, Verdict, verdict_of
from tilesched.simulator.originals import Coordinates, Listing, Original, Pairs, Piece

from .listings import ListingCoverage, cover, ranges_of
from .pairs import PairKind, PairWork, disagreements, tile_of
from .residency import Stuck, run_resident

__all__ = ["ListingKind", "ListingReport", "check_original", "listing_findings"]

_SHOWN = 20  # tiles, pairs or workers that a message lists


class ListingKind(StrEnum):
    """Kinds of findings about a listing."""

    MISSING = "missing"  # a tile, or some of its k-blocks, that nobody computes
    LAUNCH = "launch"  # CUDA refuses the grid
    REPEATED = "repeated"  # a tile, or some of its k-blocks, that is computed more than once
    OUT_OF_RANGE = "out-of-range"  # work that is no tile of the problem, beyond any padding that is meant
    GHOST = "ghost"  # the same where the scheduler pads on purpose
    SURPLUS = "surplus"  # ids that are handed out and have no work
    RESIDENCY = "residency"  # a CTA waits for one that cannot start


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingReport:
    """A listing and what is wrong with it. `covered`: what of the problem it computes."""

    original: Original
    params: Mapping[str, object]
    listing: Listing
    covered: ListingCoverage
    findings: Sequence[Finding]

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.findings)

    @property
    def launched(self) -> int:
        """Work tiles, or pieces of them, that are handed out, ids without work included."""
        return sum(map(len, self.listing.workers))

    @property
    def partial(self) -> int:
        """Tiles that are computed in several pieces."""
        pieces = Counter(one.tile for work in self.listing.workers for one in work if isinstance(one, Piece))
        return sum(number > 1 for number in pieces.values())


def check_original(original: Original, params: Mapping[str, object], resident: int | None = None) -> ListingReport:
    """Write the original out and judge it; with `resident`, for so many CTAs on the device at once.

    Raises InputError for parameters that it does not take.
    """
    if resident is not None and resident < 1:
        raise InputError(f"resident={resident} is below 1")
    listing = original.build(params)
    covered = cover(listing)
    return ListingReport(
        original=original,
        params=params,
        listing=listing,
        covered=covered,
        findings=listing_findings(listing, covered, resident),
    )


def listing_findings(listing: Listing, covered: ListingCoverage, resident: int | None = None) -> list[Finding]:
    """Errors first, then notes. Residency is looked at where every k-block is computed once."""
    findings = [*_launch(listing), *_coverage(listing, covered)]
    if listing.pairs is not None:
        findings += _pairs(listing, listing.pairs)
    if resident is not None and not covered.lost and not covered.repeated:
        findings += _residency(run_resident(listing, resident), resident)
    findings += _surplus(listing)
    return sorted(findings, key=lambda finding: finding.severity is Severity.NOTE)


def _launch(listing: Listing) -> Iterator[Finding]:
    for axis, length, cluster in zip("xy", listing.grid, listing.cluster, strict=False):
        if length % cluster or not length:
            message = f"the grid of {length} CTAs in {axis} is no multiple of the cluster {cluster}, or empty"
            message += ": CUDA refuses the launch"
            facts = {"grid": list(listing.grid), "cluster": list(listing.cluster)}
            yield Finding(kind=ListingKind.LAUNCH, message=message, facts=facts)


def _coverage(listing: Listing, covered: ListingCoverage) -> Iterator[Finding]:
    of = f"of {len(listing.real)} tiles are"
    parts = "" if not listing.k_blocks else ", wholly or in part"
    yield from _tiles(ListingKind.MISSING, covered.lost, f"{of} never computed{parts}", listing, wanted=0)
    yield from _tiles(ListingKind.REPEATED, covered.repeated, f"{of} computed more than once{parts}", listing, wanted=2)
    if listing.pads:
        text = "tiles outside the problem are handed out by padding"
        yield from _tiles(ListingKind.GHOST, covered.ghosts, text, severity=Severity.NOTE)
    else:
        yield from _tiles(ListingKind.OUT_OF_RANGE, covered.ghosts, "tiles outside the problem are handed out")


def _tiles(
    kind: ListingKind,
    tiles: Sequence[Coordinates],
    text: str,
    listing: Listing | None = None,
    *,
    wanted: int = 0,
    severity: Severity = Severity.ERROR,
) -> Iterator[Finding]:
    """A finding of some tiles; with `listing`, and with the k-blocks that are computed never (0) or twice (2)."""
    if not tiles:
        return
    shown = []
    for tile in tiles[:_SHOWN]:
        ranges = ranges_of(listing, tile, wanted) if listing is not None and listing.k_blocks else []
        shown.append(_name(tile) + "".join(f"[{begin}:{end}]" for begin, end in ranges))
    facts = {"count": len(tiles), "tiles": [list(tile) for tile in tiles[:_SHOWN]]}
    message = f"{len(tiles)} {text}: {_listed(shown, len(tiles))}"
    yield Finding(kind=kind, message=message, facts=facts, severity=severity)


def _listed(shown: Sequence[str], count: int) -> str:
    return " ".join(shown) + (f" … {count - len(shown)} more" if count > len(shown) else "")


def _name(tile: Coordinates) -> str:
    return f"({','.join(map(str, tile))})"


def _surplus(listing: Listing) -> Iterator[Finding]:
    surplus = sum(one is None for work in listing.workers for one in work)
    if not surplus:
        return
    launched = sum(map(len, listing.workers))
    message = (
        f"{surplus} of {launched} ids are handed out without work ({launched} for {launched - surplus} needed): every "
        "role must test the flag that says so before it reads or writes anything"
    )
    facts = {"count": surplus, "launched": launched}
    yield Finding(kind=ListingKind.SURPLUS, severity=Severity.NOTE, message=message, facts=facts)


def _pairs(listing: Listing, rule: Pairs) -> Iterator[Finding]:
    """What the two CTAs of each cluster disagree on."""
    number = 0
    found: dict[PairKind, list[PairWork]] = {}
    for kind, pair in disagreements(listing, rule):
        number += 1
        if kind is not None:
            found.setdefault(kind, []).append(pair)
    shared, neighbours = "n" if rule.shared == -1 else "m", ", or are no neighbours" if rule.neighbours else ""
    reasons = {
        PairKind.VALIDITY: "have work for one CTA only, which waits for a peer that has left",
        PairKind.GROUP: "are in two groups: a CTA waits for bytes that its peer never sends, or takes those of "
        "another group",
        PairKind.MULTICAST: "have multicast on in one CTA and off in the other: one waits for bytes that never come",
        PairKind.OPERAND: f"do not share {shared}{neighbours}: the CTAs load parts of different operand tiles",
        PairKind.K_BLOCKS: "go through different numbers of k-blocks: one waits for bytes that its peer never sends",
    }
    for kind, text in reasons.items():
        if pairs := found.get(kind):
            message = f"{len(pairs)} of {number} pairs {text}: {_listed(list(map(str, pairs[:_SHOWN])), len(pairs))}"
            facts = {"count": len(pairs), "pairs": list(map(_pair, pairs[:_SHOWN]))}
            yield Finding(kind=kind, message=message, facts=facts)


def _pair(pair: PairWork) -> dict[str, object]:
    return {
        "workers": list(pair.workers),
        "tiles": [None if one is None else list(tile_of(one)) for one in pair.work],
        "multicast": list(pair.multicast),
        "k_blocks": list(pair.k_blocks),
    }


def _residency(stuck: Sequence[Stuck], resident: int) -> Iterator[Finding]:
    if not stuck:
        return
    shown = [
        f"worker {one.worker} at {_name(one.tile)} for {', '.join(map(str, one.awaited[:4]))}" for one in stuck[:_SHOWN]
    ]
    message = (
        f"{len(stuck)} CTAs wait for ever: they keep the {resident} places that the CTAs they wait for would need: "
        + _listed([f"{text};" for text in shown], len(stuck))
    )
    yield Finding(
        kind=ListingKind.RESIDENCY,
        message=message,
        facts={
            "count": len(stuck),
            "resident": resident,
            "waits": [
                {"worker": one.worker, "tile": list(one.tile), "awaited": list(one.awaited)} for one in stuck[:_SHOWN]
            ],
        },
    )
