"""What is said of libraries' schedulers: public bug reports, with the tiles that they name, and planted faults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesched.cli.main import main
from tilesched.simulator.originals import ORIGINALS, Fixup, Listing, Pairs, Piece
from tilesched.verify.listing_report import ListingReport, check_original, listing_findings
from tilesched.verify.listings import cover
from tilesched.verify.residency import run_resident

Capture = pytest.CaptureFixture[str]


def report(name: str, **params: Any) -> ListingReport:
    return check_original(ORIGINALS[name], params)


def kinds(findings: Any) -> list[str]:
    return [str(finding.kind) for finding in findings]


def found(one: ListingReport) -> dict[str, Mapping[str, Any]]:
    return {str(finding.kind): finding.facts for finding in one.findings}


# -- Public reports: ../shared/reference/bugs.md ------------------------------------------------------------------


@pytest.mark.parametrize("workers", [3, 36])
def test_a1_t_persistent_drops_a_band(workers: int) -> None:
    """tilelang#2433: 4 × 9 tiles in groups of 8, for every number of workers."""
    before = found(report("tilelang.T.Persistent(before #2455)", domain=[4, 9], wave_size=workers))
    assert before["missing"]["tiles"] == [[1, 8], [2, 8], [3, 8]]
    assert before["out-of-range"]["tiles"] == [[0, 9], [0, 10], [0, 11]]
    assert "repeated" not in before
    lost = {1: 0, 2: 0, 4: 0, 8: 0, 9: 3, 10: 6, 11: 6, 12: 8}
    for n, number in lost.items():
        one = found(report("tilelang.T.Persistent(before #2455)", domain=[4, n], wave_size=workers))
        assert one.get("missing", {"count": 0})["count"] == number
        assert not report("tilelang.T.Persistent", domain=[4, n], wave_size=workers).findings


def test_a1_smallest() -> None:
    before = found(report("tilelang.T.Persistent(before #2455)", domain=[2, 9], wave_size=1))
    assert (before["missing"]["tiles"], before["out-of-range"]["tiles"]) == ([[1, 8]], [[0, 9]])


def test_a2_swizzle_that_falls_back_on_owned_tiles() -> None:
    """hip-ep#207: rows first."""
    name = "hip_ep.matmul_nbits(before #207)"
    reported = found(report(name, m_tiles=2, n_tiles=45, sw=8))
    assert reported["missing"]["tiles"] == [[1, 43], [1, 44]]
    assert reported["repeated"]["tiles"] == [[1, 40], [1, 41]]
    assert [found(report(name, m_tiles=m, n_tiles=45, sw=8))["missing"]["count"] for m in (4, 8)] == [5, 12]
    smallest = found(report(name, m_tiles=3, n_tiles=3, sw=2))
    assert (smallest["missing"]["tiles"], smallest["repeated"]["tiles"]) == ([[2, 2]], [[2, 1]])


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 9))
def test_a2_safe_shapes_and_the_mended_form(m: int, n: int, width: int) -> None:
    assert not report("hip_ep.matmul_nbits", m_tiles=m, n_tiles=n, sw=width).findings
    if m == 1 or n % min(width, n) == 0:
        assert not report("hip_ep.matmul_nbits(before #207)", m_tiles=m, n_tiles=n, sw=width).findings


def test_a3_a_tile_that_straddles_groups() -> None:
    """TileOPs#1952: rows 96 to 127 are rows 0 to 31 of group 1."""
    before = report("tileops.grouped_gemm(before #1952)", sizes=[96, 160], block_m=128)
    (finding,) = before.findings
    assert finding.message.endswith("(1)[0:32]")
    assert before.launched == 2
    assert report("tileops.grouped_gemm", sizes=[96, 160], block_m=128).launched == 3
    (one,) = report("tileops.grouped_gemm(before #1952)", sizes=[1, 1], block_m=2).findings
    assert one.message.endswith("(1)[0:1]")
    (one,) = report("tileops.grouped_gemm(before #1952)", sizes=[1, 127], block_m=128).findings
    assert one.facts["tiles"] == [[1]]
    assert not report("tileops.grouped_gemm(before #1952)", sizes=[128, 128], block_m=128).findings


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(1, 7))
def test_a3_row_by_row(sizes: list[int], block: int) -> None:
    """Lost rows, counted on the concatenated rows: those of a tile that are not of its first row's group."""
    group = [g for g, size in enumerate(sizes) for _ in range(size)]
    lost = [row for row in range(len(group)) if group[row] != group[row // block * block]]
    before = report("tileops.grouped_gemm(before #1952)", sizes=sizes, block_m=block)
    assert bool(before.findings) == bool(lost)
    assert {tile[0] for tile in before.covered.lost} == {group[row] for row in lost}
    assert not report("tileops.grouped_gemm", sizes=sizes, block_m=block).findings


@pytest.mark.parametrize(
    ("lengths", "heads", "launched", "valid"),
    [([128, 128], 1, 3, 2), ([128] * 8, 1, 15, 8), ([0, 0], 1, 1, 0), ([128], 1, 1, 1), ([100], 2, 2, 2)],
)
def test_a4_surplus_items(lengths: list[int], heads: int, launched: int, valid: int) -> None:
    """flash-attention#2862: the surplus is of a batch that does not exist."""
    ignored = report("fa.varlen_forward", seqlens=lengths, tile=128, num_head=heads, checks_valid=False)
    assert (ignored.launched, len(ignored.listing.real)) == (launched, valid)
    surplus = launched - valid
    wrong = found(ignored).get("out-of-range", {"count": 0, "tiles": []})
    assert wrong["count"] == surplus
    assert all(batch == len(lengths) for _, batch, _ in wrong["tiles"])
    tested = report("fa.varlen_forward", seqlens=lengths, tile=128, num_head=heads)
    assert tested.verdict == 0
    assert found(tested) == ({"surplus": {"count": surplus, "launched": launched}} if surplus else {})


K_GROUPED = {"num_1d_blocks_per_group": 8, "num_multicast": 2, "num_sms": 132}


@pytest.mark.parametrize(
    ("m", "n", "on_a", "pair", "workers", "apart"),
    [
        (3, 43, False, "(0,2,42)+(1,0,0)", 128, 42),
        (11, 11, False, "(0,10,10)+(1,0,0)", 120, 21),
        (1, 3, True, "(0,0,2)+(1,0,0)", 2, 0),
    ],
)
def test_a6_pairs_across_groups(m: int, n: int, on_a: bool, pair: str, workers: int, apart: int) -> None:
    """DeepGEMM#415, #429, and the smallest: which pair, with what of its CTAs, and how many of the later ones."""
    params = {**K_GROUPED, "multicast_on_a": on_a, "k_blocks_per_group": [1, 2]}
    one = report("deepgemm.k_grouped", m_blocks=m, n_blocks=n, **params)
    (group,) = (finding for finding in one.findings if finding.kind == "pair-group")
    details = f"[workers {workers}, {workers + 1}; multicast off/on; k-blocks 1/2]"
    assert group.message.endswith(f": {pair} {details}")
    assert found(one)["pair-group"]["count"] == 1
    assert found(one).get("pair-operand", {"count": 0})["count"] == apart


@given(st.integers(1, 9), st.integers(1, 9), st.lists(st.integers(0, 3), min_size=1, max_size=4), st.booleans())
def test_a6_even_groups_are_clean(m: int, n: int, lengths: list[int], on_a: bool) -> None:
    one = report(
        "deepgemm.k_grouped", m_blocks=m, n_blocks=n, k_blocks_per_group=lengths, multicast_on_a=on_a, **K_GROUPED
    )
    groups = sum(length > 0 for length in lengths)
    assert ("pair-group" in found(one)) == (m * n % 2 == 1 and groups > 1)
    if m * n % 2 == 0:
        assert not one.findings


@given(st.integers(1, 20), st.integers(1, 20), st.sampled_from([8, 16]), st.booleans(), st.sampled_from([4, 10, 132]))
def test_pairs_of_the_dense_scheduler_share_their_operand_on_sm90(
    m: int, n: int, width: int, on_a: bool, sms: int
) -> None:
    """schedulers.md 4: ids 2i and 2i + 1 share the multicast operand, or both are without."""
    params: dict[str, Any] = {"m_blocks": m, "n_blocks": n, "num_sms": sms, "num_1d_blocks_per_group": width}
    params |= {"num_multicast": 2, "multicast_on_a": on_a}
    assert not report("deepgemm.normal", **params).findings
    sm100 = report("deepgemm.normal", **params, arch="sm100")
    if (n if on_a else m) % 2 == 0:  # where the host offers clusters
        assert not sm100.findings


def test_pairs_of_sm100_straddle_odd_blocks() -> None:
    """schedulers.md 4: M=1, N=2 grouped on M: id 0 is (0,0), its peer (0,1)."""
    params = {"m_blocks": 1, "n_blocks": 2, "num_sms": 2, "num_1d_blocks_per_group": 8, "num_multicast": 2}
    assert found(report("deepgemm.normal", **params, arch="sm100"))["pair-operand"]["pairs"][0]["tiles"] == [
        [0, 0],
        [0, 1],
    ]


def test_a7_pairs_in_grouped_order() -> None:
    """TLX#1071: coverage is fine, and only pairs are not."""
    name = "tlx.grouped_pairs(before #1071)"
    wrong = {}
    for m, n, group in ((2, 2, 1), (4, 4, 1), (4, 4, 2), (4, 4, 8), (4, 4, 3), (3, 2, 2)):
        one = report(name, num_pid_m=m, num_pid_n=n, GROUP_SIZE_M=group, NUM_SMS=148)
        assert set(found(one)) <= {"pair-operand"}
        wrong[m, n, group] = [pair["tiles"] for pair in found(one).get("pair-operand", {}).get("pairs", [])]
    assert [len(pairs) for pairs in wrong.values()][:4] == [2, 8, 0, 0]
    assert wrong[4, 4, 3][0] == [[2, 0], [0, 1]]
    assert [[2, 0], [2, 1]] in wrong[3, 2, 2]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 5))
def test_a7_the_rule_and_the_mended_form(m: int, n: int, group: int) -> None:
    params = {"num_pid_m": m, "num_pid_n": n, "GROUP_SIZE_M": group, "NUM_SMS": 148}
    if group % 2 == 0 and m % 2 == 0:
        assert not report("tlx.grouped_pairs(before #1071)", **params).findings
    mended = report("tlx.grouped_pairs", **params)
    assert mended.verdict == 0
    assert kinds(mended.findings) == (["ghost"] if m % 2 else [])


# -- Residency ----------------------------------------------------------------------------------------------------


def streamed(ctas: int) -> Listing:
    """One tile in as many pieces as CTAs: the first CTA ends it, and waits for all others."""
    work = [[Piece((0,), ctas - 1 - cta, 1)] for cta in range(ctas)]
    return Listing(work, frozenset({(0,)}), k_blocks=ctas, fixup=Fixup.LAST)


@pytest.mark.parametrize("ctas", [2, 3, 49])
def test_a14_waiting_for_a_cta_that_cannot_start(ctas: int) -> None:
    """A CTA that waits keeps its SM: alone the first waits for ever; with a second place all others pass."""
    listing = streamed(ctas)
    (stuck,) = run_resident(listing, 1)
    assert (stuck.worker, stuck.tile, stuck.awaited) == (0, (0,), tuple(range(1, ctas)))
    assert run_resident(listing, 2) == []
    (finding,) = listing_findings(listing, cover(listing), 1)
    assert (str(finding.kind), finding.facts["resident"]) == ("residency", 1)


def test_turnstile_in_launch_order_needs_one_place() -> None:
    work = [[Piece((0,), cta, 1)] for cta in range(5)]
    listing = Listing(work, frozenset({(0,)}), k_blocks=5, fixup=Fixup.TURNSTILE)
    assert run_resident(listing, 1) == []
    backwards = Listing(work[::-1], frozenset({(0,)}), k_blocks=5, fixup=Fixup.TURNSTILE)
    assert len(run_resident(backwards, 4)) == 4
    assert run_resident(backwards, 5) == []


@st.composite
def split_work(draw: st.DrawFn) -> Listing:
    """Tiles in pieces, dealt out at random."""
    k_blocks, tiles = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    workers: list[list[Any]] = [[] for _ in range(draw(st.integers(1, 5)))]
    pieces = []
    for tile in range(tiles):
        cuts = sorted({0, k_blocks, *draw(st.lists(st.integers(0, k_blocks), max_size=3))})
        pieces += [Piece((tile,), a, b - a) for a, b in pairwise(cuts)]
    for piece in draw(st.permutations(pieces)):
        workers[draw(st.integers(0, len(workers) - 1))].append(piece)
    real = frozenset((tile,) for tile in range(tiles))
    return Listing(workers, real, k_blocks=k_blocks, fixup=draw(st.sampled_from(Fixup)))


def naive_stuck(listing: Listing, places: int, random: Random) -> set[int]:
    """One piece at a time, of any worker that can go on."""
    done: set[Any] = set()
    at = [0] * len(listing.workers)
    pieces = [piece for work in listing.workers for piece in work if isinstance(piece, Piece)]

    def blocked(worker: int) -> bool:
        piece = listing.workers[worker][at[worker]]
        assert isinstance(piece, Piece)
        lower = [one for one in pieces if one.tile == piece.tile and one.k_begin < piece.k_begin and one not in done]
        ends = piece.k_begin + piece.k_count == listing.length(piece.tile)
        return bool(lower) and (listing.fixup is Fixup.TURNSTILE or ends)

    while True:
        left = [worker for worker, work in enumerate(listing.workers) if at[worker] < len(work)]
        # A worker without work ends as soon as it starts: the places go to the first that are not done.
        able = [worker for worker in left[:places] if not blocked(worker)]
        if not able:
            return set(left[:places])
        worker = random.choice(able)
        done.add(listing.workers[worker][at[worker]])
        at[worker] += 1


@given(split_work(), st.integers(1, 5), st.integers(0, 2**32))
def test_residency_against_steps_in_any_order(listing: Listing, places: int, seed: int) -> None:
    assert {one.worker for one in run_resident(listing, places)} == naive_stuck(listing, places, Random(seed))


@given(st.integers(1, 4), st.integers(1, 5), st.integers(9, 40), st.sampled_from([4, 7, 18]), st.booleans())
def test_stream_k_ends_where_all_ctas_are_resident(m: int, n: int, k: int, sms: int, forced: bool) -> None:
    one = report(
        "cutlass.sm90.stream_k",
        cta_tiles_m=m,
        cta_tiles_n=n,
        k_tiles=k,
        cluster=[1, 1],
        sm_count=sms,
        decomposition="StreamK" if forced else "Heuristic",
    )
    assert run_resident(one.listing, len(one.listing.workers)) == []


def test_stream_k_with_a_place_too_few_can_hang() -> None:
    """The pair example of TileLang: the cluster that ends a tile waits for the one before it."""
    params = {"m_clusters": 1, "n_blocks": 3, "k_blocks": 4, "num_clusters": 5}
    listing = ORIGINALS["tilelang.streamk_2cta"].build(params)
    order = [list(reversed(listing.workers)), list(listing.workers)]
    reversed_, in_order = (Listing(work, listing.real, k_blocks=4, fixup=listing.fixup) for work in order)
    assert run_resident(in_order, 1) == []
    assert run_resident(reversed_, 1)


# -- Planted faults -----------------------------------------------------------------------------------------------


def test_k_blocks_that_are_lost_or_repeated_are_named() -> None:
    work = [[Piece((0, 0), 0, 4), Piece((0, 0), 3, 2), (0, 1)]]
    listing = Listing(work, frozenset({(0, 0), (0, 1)}), k_blocks=8)
    missing, repeated = listing_findings(listing, cover(listing))
    assert missing.message.endswith("1 of 2 tiles are never computed, wholly or in part: (0,0)[5:8]")
    assert repeated.message.endswith("(0,0)[3:4]")


def test_work_past_the_last_k_block_is_out_of_range() -> None:
    listing = Listing([[Piece((0,), 0, 9)]], frozenset({(0,)}), k_blocks=8)
    assert kinds(listing_findings(listing, cover(listing))) == ["out-of-range"]


def test_a_grid_that_is_no_multiple_of_the_cluster() -> None:
    params = {"cta_tiles_m": 9, "cta_tiles_n": 9, "cluster": [2, 2], "sm_count": 10, "raster": "N"}
    one = report("cutlass.sm90.static_persistent", **params)
    assert found(one)["launch"]["grid"] == [2, 5]


@pytest.mark.parametrize(
    ("right", "kind"),
    [
        ((0, 1, 4), None),
        ((1, 1, 4), "pair-group"),
        ((0, 1, 5), "pair-operand"),
        ((0, 3, 4), "pair-operand"),
        ((0, 7, 7), "pair-multicast"),
    ],
)
def test_each_thing_that_a_pair_can_disagree_on(right: tuple[int, ...], kind: str | None) -> None:
    rule = Pairs(shared=-1, alone=frozenset({(0, 7, 7)}), neighbours=True)
    listing = Listing([[(0, 0, 4)], [right]], frozenset({(0, 0, 4), right}), pairs=rule)
    assert kinds(listing_findings(listing, cover(listing))) == ([kind] if kind else [])


def test_a_pair_with_different_k_blocks() -> None:
    def pair(right: Piece) -> list[str]:
        work = [[Piece((0, 0), 0, 4)], [right]]
        listing = Listing(work, frozenset({(0, 0), (1, 0)}), k_blocks={(0, 0): 4, (1, 0): 4}, pairs=Pairs(shared=-1))
        return [kind for kind in kinds(listing_findings(listing, cover(listing))) if kind.startswith("pair")]

    assert pair(Piece((1, 0), 0, 3)) == ["pair-k-blocks"]
    assert pair(Piece((1, 0), 0, 4)) == []


@pytest.mark.parametrize("workers", [[[(0, 0)], []], [[(0, 0)]], [[(0, 0)], [None]]])
def test_a_pair_with_work_for_one_cta(workers: list[list[Any]]) -> None:
    def wrong(rule: Pairs) -> list[str]:
        listing = Listing(workers, frozenset({(0, 0)}), pairs=rule)
        return [kind for kind in kinds(listing_findings(listing, cover(listing))) if kind.startswith("pair")]

    assert wrong(Pairs(shared=-1)) == ["pair-validity"]
    assert wrong(Pairs(shared=-1, lone=True)) == []


# -- The command --------------------------------------------------------------------------------------------------


WRONG = {name for name in ORIGINALS if "before" in name} | {
    "cutlass.sm90.group",
    "cutedsl.clc_dynamic",
    "deepgemm.k_grouped",
    "fa.varlen_forward",
}


@pytest.mark.parametrize("name", ORIGINALS)
def test_every_example(name: str, capsys: Capture) -> None:
    assert main(["original", name]) == (1 if name in WRONG else 0)
    assert capsys.readouterr().out.startswith(f"{name} (")


def test_the_command_in_all_forms(capsys: Capture) -> None:
    arguments = ["original", "cutlass.sm90.group", "--set", "groups_cta_mn=[[2,2],[3,3]]", "--set", "cluster=[1,1]"]
    arguments += [
        "--set",
        "sm_count=4",
        "--set",
        "max_swizzle=4",
        "--set",
        "host_shapes=true",
        "--set",
        "raster=AlongM",
    ]
    assert main(arguments) == 1
    assert "missing: 2 of 13 tiles are never computed: (2,1,1) (2,2,1)" in capsys.readouterr().out
    assert main([*arguments, "--format", "markdown"]) == 1
    assert "**verdict: findings (missing)**" in capsys.readouterr().out
    assert main([*arguments, "--format", "json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], body["verdict"], body["tiles"]) == ("tilesched/original/1", "findings", 13)
    assert body["workers"][0][0] == [0, 0, 0]
    assert main(["original", "tilelang.streamk_2cta", "--resident", "4", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert main(["originals"]) == 0
    assert capsys.readouterr().out.count("example: ") == len(ORIGINALS)
    assert main(["originals", "--format", "json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["originals"]] == list(ORIGINALS)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nobody"], "original='nobody' is unknown"),
        (["quack.dense_static", "--set", "x"], "set='x' is not NAME=VALUE"),
        (["quack.dense_static", "--set", "nclusters_m=1"], "nclusters_n is missing"),
        (["quack.dense_static", "--set", f"nclusters_m={'[' * 9999}"], "is not an integer"),
        (["quack.dense_static", "--resident", "0"], "resident=0 is below 1"),
        (
            ["tilelang.use_swizzle", "--set", "gridDim_x=99999", "--set", "gridDim_y=99", "--set", "panel_width=1"],
            "work=",
        ),
    ],
)
def test_mistakes_are_said_in_one_line(arguments: list[str], text: str, capsys: Capture) -> None:
    assert main(["original", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1
