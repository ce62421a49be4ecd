"""The PTX machine beyond single instructions: parser traps, memory, warps, barriers, clusters, tensor copies."""

from __future__ import annotations

import numpy as np
import pytest

from ptx_kit import assemble, kernel, kinds, launch, simulate
from tilesched.simulator.errors import InputError
from tilesched.simulator.ptx.engines import Ordering, Policy
from tilesched.simulator.ptx.isa import OPERATIONS
from tilesched.simulator.ptx.launch import Array, ArrayParam, Launch, ScalarParam, TensorMapParam
from tilesched.simulator.ptx.lexer import MAX_TEXT
from tilesched.simulator.ptx.parser import parse
from tilesched.simulator.ptx.run import run
from tilesched.simulator.ptx.semantics import BRANCH, SEMANTICS

MINE = "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;"
LANES = list(range(32))


def result_of(body: str, *, block: int = 32, grid: int = 1, cluster: int = 1) -> list[int]:
    """What the kernel leaves in `out`, a word for every thread of the grid's CTAs."""
    done = simulate(body, launch(out=block * grid, block=block, grid=grid, cluster=cluster))
    assert done.findings == []
    return [int(word) for word in done.arrays["out"]]


def test_the_tables_name_the_same_operations() -> None:
    assert SEMANTICS.keys() | {BRANCH} == OPERATIONS.keys()


# -- the parser's traps (toolchain sheet, section 6) ------------------------------------------------------------------


def test_names_and_labels_belong_to_their_scope() -> None:
    scope = "{ .reg .pred p; .reg .b32 x; mov.u32 x, %r1; LOOP: add.u32 x, x, 1; setp.lt.u32 p, x, 40; @p bra LOOP;"
    body = MINE + "mov.u32 %r5, 0;" + 2 * (scope + "add.u32 %r5, %r5, x; }") + "st.global.u32 [%rd2], %r5; ret;"
    assert result_of(body) == [80] * 32


def test_white_space_inside_an_opcode_and_around_operands() -> None:
    body = MINE + "mov .u32 %r5 , 7 ; st .global\n.u32 [ %rd2 + 0 ] , %r5 ; ret;"
    assert result_of(body) == [7] * 32
    body = MINE + "st.global.v2.b32[%rd1+8],{%r1,%r1}; st.global.u32 [%rd2], %r1; ret;"
    assert result_of(body) == LANES


def test_branch_targets() -> None:
    body = MINE + (
        "and.b32 %r2, %r1, 3; T: .branchtargets A, B, C, B; brx.idx %r2, T; A: mov.u32 %r3, 10; bra E;"
        "B: mov.u32 %r3, 20; bra E; C: mov.u32 %r3, 30; E: st.global.u32 [%rd2], %r3; ret;"
    )
    assert result_of(body) == [10, 20, 30, 20] * 8


def test_sinks_and_second_results() -> None:
    body = MINE + "setp.lt.u32 %p1|%p2, %r1, 5; elect.sync _|%p3, -1; selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 2, 0, %p3;"
    assert result_of(body + "add.u32 %r2, %r2, %r3; st.global.u32 [%rd2], %r2; ret;") == [2, *[0] * 4, *[1] * 27]


def test_dynamic_and_static_shared_memory_do_not_overlap() -> None:
    outer = ".extern .shared .align 1024 .b8 dynamic[];"
    body = MINE + (
        ".shared .align 4 .b8 fixed[128]; mov.u32 %r2, fixed; mov.u32 %r3, dynamic; shl.b32 %r4, %r1, 2;"
        "add.u32 %r2, %r2, %r4; add.u32 %r5, %r3, %r4; st.shared.u32 [%r2], 1; st.shared.u32 [%r5], 2;"
        "ld.shared.u32 %r6, [%r2]; and.b32 %r7, %r3, 1023; mad.lo.u32 %r6, %r7, 100, %r6;"
        "st.global.u32 [%rd2], %r6; ret;"
    )
    done = simulate(body, launch(out=32, smem=128), outer=outer)
    assert done.findings == []
    assert done.arrays["out"].tolist() == [1] * 32


def test_lines_of_the_source_are_kept() -> None:
    text = kernel(".loc 1 42 7\nld.param.u64 %rd1, [out];\nst.global.u32 [%rd1+512], 1; ret;") + '.file 1 "gemm.cu"\n'
    (finding,) = run(assemble(text), launch(out=32)).findings
    assert finding.facts["source"] == "gemm.cu:42"
    assert "(gemm.cu:42)" in finding.message


def test_module_variables_have_their_first_values() -> None:
    outer = ".global .align 4 .u32 table[4] = {1, 2, 0xFF, -1}; .const .align 1 .b8 bytes[2] = {7, 8};"
    body = MINE + (
        "mov.u64 %rd3, table; cvta.global.u64 %rd3, %rd3; ld.u32 %r2, [%rd3+8]; ld.global.u32 %r3, [table+12];"
        "ld.const.u8 %r4, [bytes+1]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; st.global.u32 [%rd2], %r2; ret;"
    )
    done = simulate(body, launch(out=32), outer=outer)
    assert done.arrays["out"].tolist() == [255 - 1 + 8] * 32


ENTRY = ".version 8.8 .target sm_90a .visible .entry k() { "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no .version"),
        (".version 8.8 .target sm_90a .visible .entry k() { bra NOWHERE; }", "line 1: 'NOWHERE' is not declared"),
        (".version 8.8 .target sm_90a .visible .entry k() {", "ends in the middle"),
        (".version 8.8 .target sm_90a .visible .entry k() { mov.u32 %r1 § 2; }", "'§' is not PTX"),
        (".version 8.8 .target sm_90a .visible .entry k() { .reg .b32 a; @a ret; }", "guard is not a predicate"),
        (".version 8.8 .target sm_90a .visible .entry k() " + "{" * 100, "nested deeper than 64"),
        (".version 8.8 .target sm_90a .visible .entry k() { L: L: ret; }", "label L is declared twice"),
        (".version 8.8 .target sm_90a .shared .b8 big[999999999999];", "more than"),
        (" " * (MAX_TEXT + 1), "more than 16777216"),
        (ENTRY + "mov.u32 " + "{" * 5000, "operands are nested deeper than 8"),
        (ENTRY + "mov.u32 " + "!" * 5000, "operands are nested deeper than 8"),
        (ENTRY + "mov.u32 %r1, " + "9" * 5000, "a number of 5000 characters"),
        (ENTRY + ".shared .align 3 .b8 x[4];", "align 3 is not a power of two"),
        (ENTRY + ".shared .align -8 .b8 x[4];", "align -8 is not a power of two"),
        (ENTRY + ".shared .b8 x[-4];", "has -4 bytes"),
    ],
)
def test_text_that_is_not_ptx_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


def test_an_operation_that_the_target_does_not_have_is_refused() -> None:
    text = kernel("barrier.cluster.arrive.aligned; ret;").replace("sm_90a", "sm_80")
    assert run(text.replace("barrier.cluster.arrive.aligned;", ""), launch(out=32)).findings == []
    with pytest.raises(InputError, match="mapa needs sm_90, the target is sm_80"):
        run(text.replace("barrier.cluster.arrive.aligned", "mapa.shared::cluster.u32 %r1, %r2, 0"), launch(out=32))


# -- memory -----------------------------------------------------------------------------------------------------------


def test_narrow_loads_fill_wider_registers() -> None:
    body = MINE + (
        ".shared .align 4 .b8 buf[8]; mov.u32 %r2, buf; mov.u32 %r3, 0x80FF; st.shared.u16 [%r2], %r3;"
        "ld.shared.s8 %r4, [%r2]; ld.shared.u16 %r5, [%r2]; ld.shared.s16 %r6, [%r2]; sub.u32 %r5, %r5, %r4;"
        "add.u32 %r5, %r5, %r6; st.global.u32 [%rd2], %r5; ret;"
    )
    assert result_of(body) == [(0x80FF + 1 + 0x80FF - 0x10000) % 2**32] * 32


def test_generic_addresses_reach_shared_global_and_parameters() -> None:
    body = MINE + (
        ".shared .align 4 .b8 buf[128]; mov.u64 %rd3, buf; cvta.shared.u64 %rd3, %rd3; mul.wide.u32 %rd4, %r1, 4;"
        "add.u64 %rd3, %rd3, %rd4; st.u32 [%rd3], 5; ld.u32 %r2, [%rd3]; mov.u64 %rd5, out; cvta.param.u64 %rd5, %rd5;"
        "ld.u64 %rd6, [%rd5]; isspacep.shared %p1, %rd3; isspacep.global %p2, %rd6; selp.u32 %r3, 10, 0, %p1;"
        "selp.u32 %r4, 100, 0, %p2; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; cvta.to.shared.u64 %rd7, %rd3;"
        "ld.shared.u32 %r5, [%rd7]; add.u32 %r2, %r2, %r5; st.u32 [%rd2], %r2; ret;"
    )
    assert result_of(body) == [120] * 32


def test_atomics_give_each_lane_another_value() -> None:
    body = (
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2;"
        "atom.global.add.u32 %r2, [%rd1], 3; st.global.u32 [%rd2+4], %r2; atom.global.cas.b32 %r3, [%rd1+256], 0, %r1;"
        "atom.global.max.s32 %r4, [%rd1+260], -5; atom.global.inc.u32 %r5, [%rd1+264], 9;"
        "atom.global.exch.b32 %r6, [%rd1+268], %r1; red.global.add.f32 [%rd1+272], 0f3F800000; ret;"
    )
    done = simulate(body, launch(arrays={"out": Array(shape=(96,), dtype="u32", fill=0)}))
    out = done.arrays["out"].tolist()
    assert sorted(out[1:33]) == [3 * lane for lane in range(32)]
    assert out[0] == 96
    assert out[64] == 1  # lane 0 stored 0, so that lane 1 found 0 once more
    assert out[65] == 0
    assert out[66] == 32 % 10
    assert out[67] == 31
    assert np.array(out[68], np.uint32).view(np.float32) == 32.0


# -- warps ------------------------------------------------------------------------------------------------------------


def test_shuffles_stay_in_their_segment() -> None:
    body = MINE + "shfl.sync.down.b32 %r2|%p1, %r1, 2, 0x1807, -1; selp.u32 %r3, 100, 0, %p1; add.u32 %r2, %r2, %r3;"
    want = [lane + 102 if lane % 8 + 2 < 8 else lane for lane in LANES]  # segments of 8: c = (24 << 8) | 7
    assert result_of(body + "st.global.u32 [%rd2], %r2; ret;") == want


def test_votes_matches_and_reductions() -> None:
    body = MINE + (
        "setp.lt.u32 %p1, %r1, 7; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1;"
        "vote.sync.ballot.b32 %r2, %p1, -1; selp.u32 %r3, 1000, 0, %p2; selp.u32 %r4, 2000, 0, %p3;"
        "and.b32 %r5, %r1, 1; match.any.sync.b32 %r6, %r5, -1; setp.eq.u32 %p4, %r6, 0x55555555;"
        "selp.u32 %r7, 4000, 0, %p4; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4; add.u32 %r2, %r2, %r7;"
        "st.global.u32 [%rd2], %r2; ret;"
    )
    assert result_of(body) == [127 + 1000 + (0 if lane % 2 else 4000) for lane in LANES]


def test_lanes_that_spin_on_each_other_make_progress() -> None:
    """Lane 0 waits in a loop for lane 1, whose code stands behind the loop: independent thread scheduling."""
    body = MINE + (
        ".shared .align 4 .b8 flag[4]; mov.u32 %r2, flag; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], 0;"
        "bar.warp.sync -1; @!%p1 bra SET; L: ld.volatile.shared.u32 %r3, [%r2]; setp.eq.u32 %p2, %r3, 0; @%p2 bra L;"
        "bra E; SET: setp.eq.u32 %p3, %r1, 1; @%p3 st.volatile.shared.u32 [%r2], 1;"
        "E: bar.warp.sync -1; ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd2], %r4; ret;"
    )
    assert result_of(body) == [1] * 32


def test_syncwarp_in_both_arms_of_a_branch() -> None:
    body = MINE + (
        "setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.warp.sync -1; mov.u32 %r2, 1; bra E;"
        "A: mov.u32 %r2, 2; bar.warp.sync -1; E: st.global.u32 [%rd2], %r2; ret;"
    )
    assert result_of(body) == [2] * 16 + [1] * 16


def test_a_bounded_wait_ends_by_the_clock() -> None:
    body = MINE + (
        ".shared .align 8 .b64 bar; mov.u32 %r2, bar; setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [%r2], 1;"
        "bar.sync 0; mov.u64 %rd3, %globaltimer; L: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @%p2 bra E;"
        "mov.u64 %rd4, %globaltimer; sub.u64 %rd4, %rd4, %rd3; setp.lt.u64 %p3, %rd4, 2000000000; @%p3 bra L;"
        "E: selp.u32 %r3, 1, 2, %p2; st.global.u32 [%rd2], %r3; ret;"
    )
    assert result_of(body) == [2] * 32


def test_special_registers_of_a_grid() -> None:
    body = (
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ntid.x;"
        "mov.u32 %r4, %ctaid.y;"
        "mad.lo.u32 %r5, %r2, %r3, %r1; mov.u32 %r6, %ntid.y; mul.lo.u32 %r7, %r3, %r6; mov.u32 %r8, %nctaid.x;"
        "mov.u32 %r9, %ctaid.x; mad.lo.u32 %r10, %r4, %r8, %r9; mad.lo.u32 %r11, %r10, %r7, %r5;"
        "mul.wide.u32 %rd2, %r11, 4; add.u64 %rd2, %rd1, %rd2; mov.u32 %r12, %laneid; mov.u32 %r13, %warpid;"
        "mov.u32 %r15, %lanemask_lt; popc.b32 %r15, %r15; sub.u32 %r15, %r15, %r12;"
        "mad.lo.u32 %r14, %r13, 32, %r12; mad.lo.u32 %r14, %r10, 1000, %r14; add.u32 %r14, %r14, %r15;"
        "st.global.u32 [%rd2], %r14; ret;"
    )
    where = Launch(
        grid=(2, 3, 1),
        block=(8, 6, 1),
        arrays={"out": Array(shape=(288,), dtype="u32")},
        params=(ArrayParam("out"),),
    )
    done = simulate(body, where)
    assert done.findings == []
    assert done.arrays["out"].tolist() == [1000 * cta + thread for cta in range(6) for thread in range(48)]


# -- barriers ---------------------------------------------------------------------------------------------------------


def test_barriers_with_reductions_and_producers() -> None:
    body = MINE + (
        "setp.lt.u32 %p1, %r1, 40; bar.red.popc.u32 %r2, 0, %p1; bar.red.or.pred %p2, 0, %p1;"
        "bar.red.and.pred %p3, 0, %p1; selp.u32 %r3, 100, 0, %p2; selp.u32 %r4, 1000, 0, %p3;"
        "setp.lt.u32 %p4, %r1, 32; @%p4 bar.arrive 3, 64; @!%p4 bar.sync 3, 64; add.u32 %r2, %r2, %r3;"
        "add.u32 %r2, %r2, %r4; st.global.u32 [%rd2], %r2; ret;"
    )
    assert result_of(body, block=64) == [140] * 64


def test_mbarrier_states_and_dropped_participants() -> None:
    body = MINE + (
        ".shared .align 8 .b64 bar; mov.u32 %r2, bar; setp.eq.u32 %p1, %r1, 0; mov.u32 %r4, 0; @!%p1 bra E;"
        "mbarrier.init.shared.b64 [%r2], 2; mbarrier.arrive.noComplete.shared.b64 %rd3, [%r2], 1;"
        "mbarrier.pending_count.b64 %r4, %rd3; mbarrier.test_wait.shared.b64 %p2, [%r2], %rd3;"
        "mbarrier.arrive_drop.shared.b64 %rd4, [%r2]; mbarrier.test_wait.shared.b64 %p3, [%r2], %rd4;"
        "mbarrier.arrive.shared.b64 %rd5, [%r2]; mbarrier.test_wait.parity.shared.b64 %p4, [%r2], 1;"
        "selp.u32 %r5, 10, 0, %p2; selp.u32 %r6, 100, 0, %p3; selp.u32 %r7, 1000, 0, %p4;"
        "add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7; E: st.global.u32 [%rd2], %r4; ret;"
    )
    assert result_of(body)[0] == 1102  # 2 pending, not done, then done, and one arrival ends the next phase


@pytest.mark.parametrize("policy", list(Policy))
def test_distributed_shared_memory_and_remote_arrivals(policy: Policy) -> None:
    body = (
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1;"
        ".shared .align 8 .b64 bar; .shared .align 4 .b8 buf[128]; mov.u32 %r4, bar; mov.u32 %r5, buf;"
        "setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [%r4], 32; fence.mbarrier_init.release.cluster;"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mapa.shared::cluster.u32 %r6, %r5, %r3;"
        "mapa.shared::cluster.u32 %r7, %r4, %r3; mad.lo.u32 %r8, %r1, 4, %r6; mad.lo.u32 %r9, %r2, 100, %r1;"
        "st.shared::cluster.u32 [%r8], %r9; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];"
        "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra W;"
        "mad.lo.u32 %r10, %r1, 4, %r5; ld.shared.u32 %r11, [%r10]; mad.lo.u32 %r12, %r2, 32, %r1;"
        "mul.wide.u32 %rd2, %r12, 4; add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r11; ret;"
    )
    done = simulate(body, launch(out=64, grid=2, cluster=2), policy=policy)
    assert done.findings == []
    assert done.arrays["out"].tolist() == [100 + lane for lane in LANES] + LANES


# -- tensor copies ----------------------------------------------------------------------------------------------------

SPANS = {"none": 0, "32B": 32, "64B": 64, "128B": 128}


def swizzled(offset: int, swizzle: str) -> int:
    """Rule 61, by the bits: 4-6 (128B), 4-5 (64B), 4 (32B) are XORed with those three above."""
    return offset ^ ((offset >> 3) & {"none": 0, "32B": 0x10, "64B": 0x30, "128B": 0x70}[swizzle])


@pytest.mark.parametrize("policy", [Policy.EARLY, Policy.LATE])
@pytest.mark.parametrize("swizzle", SPANS)
@pytest.mark.parametrize("corner", [(0, 0), (-3, 5), (40, -2)])
def test_a_tensor_load_and_what_it_leaves_in_shared_memory(
    swizzle: str, corner: tuple[int, int], policy: Policy
) -> None:
    words, rows = (SPANS[swizzle] or 64) // 4, 16
    size = words * rows * 4
    body = (
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.b64 %rd5, map; mov.u32 %r6, %r1;"
        ".shared .align 8 .b64 bar; .shared .align 1024 .b8 buf[2048]; mov.u32 %r2, bar; mov.u32 %r3, buf;"
        "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; cvta.param.u64 %rd5, %rd5;"
        f"@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {size};"
        f"mov.u32 %r4, {corner[0]}; mov.u32 %r5, {corner[1]};"
        "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%r3], [%rd5, {%r4, %r5}], [%r2];"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W;"
        f"L: mad.lo.u32 %r7, %r6, 4, %r3; ld.shared.u32 %r8, [%r7]; mul.wide.u32 %rd2, %r6, 4;"
        f"add.u64 %rd2, %rd1, %rd2; st.global.u32 [%rd2], %r8;"
        f"add.u32 %r6, %r6, 32; setp.lt.u32 %p3, %r6, {size // 4}; @%p3 bra L; ret;"
    )
    data = np.arange(20 * 48, dtype=np.uint32).reshape(20, 48) + 1
    where = Launch(
        grid=(1, 1, 1),
        block=(32, 1, 1),
        arrays={"out": Array(shape=(size // 4,), dtype="u32"), "a": Array(shape=(20, 48), dtype="u32", file="a.npy")},
        params=(
            ArrayParam("out"),
            TensorMapParam(
                array="a",
                dtype="u32",
                dims=(48, 20),
                strides=(192,),
                box=(words, rows),
                element_strides=(1, 1),
                swizzle=swizzle,
            ),
        ),
    )
    text = assemble(kernel(body, params=".param .u64 out, .param .align 64 .b8 map[128]"))
    done = run(text, where, {"a": data}, ordering=Ordering(policy))
    assert done.findings == []
    want = np.zeros(size // 4, np.uint32)
    for row in range(rows):
        for column in range(words):
            x, y = corner[0] + column, corner[1] + row
            if 0 <= x < 48 and 0 <= y < 20:
                want[swizzled((row * words + column) * 4, swizzle) // 4] = data[y, x]
    assert done.arrays["out"].tolist() == want.tolist()


@pytest.mark.parametrize("policy", list(Policy))
def test_a_multicast_copy_reaches_and_signals_every_cta_of_its_mask(policy: Policy) -> None:
    body = (
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r9, %cluster_ctarank;"
        ".shared .align 8 .b64 bar; .shared .align 128 .b8 buf[128]; mov.u32 %r2, bar; mov.u32 %r3, buf;"
        "@%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 128;"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; setp.eq.and.u32 %p3, %r9, 1, %p1;"
        "ld.param.u64 %rd3, [src]; mov.b16 %rs1, 3;"
        "@%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%r3], [%rd3], 128, [%r2], %rs1;"
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra W; mad.lo.u32 %r4, %r1, 4, %r3;"
        "ld.shared.u32 %r5, [%r4]; mad.lo.u32 %r6, %r9, 32, %r1; mul.wide.u32 %rd2, %r6, 4; add.u64 %rd2, %rd1, %rd2;"
        "st.global.u32 [%rd2], %r5; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;"
    )
    arrays = {"out": Array(shape=(64,), dtype="u32"), "src": Array(shape=(32,), dtype="u32", seed=4, low=0, high=99)}
    done = simulate(
        body, launch(arrays=arrays, grid=2, cluster=2), policy=policy, params=".param .u64 out, .param .u64 src"
    )
    assert done.findings == []
    assert done.arrays["out"].tolist() == done.arrays["src"].tolist() * 2


CANCEL = """
ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, %ctaid.x;
.shared .align 8 .b64 bar; .shared .align 16 .b8 answer[16]; .reg .b128 q; mov.u32 %r3, bar; mov.u32 %r4, answer;
@%p1 mbarrier.init.shared.b64 [%r3], 1; bar.sync 0; mov.u32 %r5, 0; @!%p1 bra E;
TILE: mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd1, %rd2; red.global.add.u32 [%rd2], 1;
mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r4], [%r3];
W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], %r5; @!%p2 bra W; xor.b32 %r5, %r5, 1;
ld.shared.b128 q, [%r4]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, q; @!%p3 bra E;
clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r2, q;
clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r2, %r6, %r7, _}, q; bra TILE;
E: ret;
"""


@pytest.mark.parametrize("policy", list(Policy))
def test_cancelled_and_launched_clusters_are_the_grid(policy: Policy) -> None:
    """Rule 54: every CTA's work is done exactly once, whoever does it."""
    where = launch(grid=11, sms=2, arrays={"out": Array(shape=(11,), dtype="u32", fill=0)})
    for seed in range(4 if policy is Policy.RANDOM else 1):
        done = simulate(CANCEL, where, policy=policy, seed=seed, arch="sm_100a")
        assert done.findings == []
        assert done.arrays["out"].tolist() == [1] * 11


# -- launches ---------------------------------------------------------------------------------------------------------


def test_one_seed_repeats_a_run_and_another_may_not() -> None:
    body = MINE + "mov.u32 %r2, %ctaid.x; atom.global.add.u32 %r3, [%rd1], 1; mul.wide.u32 %rd3, %r3, 4;"
    body += "add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3+4], %r2; ret;"
    where = launch(grid=8, arrays={"out": Array(shape=(257,), dtype="u32", fill=0)})

    def order(seed: int) -> list[int]:
        return list(simulate(body, where, policy=Policy.RANDOM, seed=seed).arrays["out"].tolist())

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(4)}) > 1


def test_more_ctas_than_room_run_one_after_the_other() -> None:
    body = MINE + "mov.u32 %r2, %smid; mov.u32 %r3, %ctaid.x; mul.wide.u32 %rd3, %r3, 4; add.u64 %rd3, %rd1, %rd3;"
    done = simulate(body + "st.global.u32 [%rd3], %r2; ret;", launch(out=10, grid=10, sms=3))
    assert done.findings == []
    assert set(done.arrays["out"].tolist()) == {0, 1, 2}


BASE = {
    "schema": "tilesched/launch/1",
    "grid": [4],
    "block": [32],
    "arrays": {"a": {"shape": [64, 32], "dtype": "bf16", "seed": 1}},
    "params": [{"array": "a"}, {"scalar": 3}, {"tensor_map": {"array": "a", "box": [32, 8], "swizzle": "64B"}}],
}


def test_a_description_is_read() -> None:
    where = Launch.from_json(BASE)
    assert where.params[1] == ScalarParam(3)
    assert where.params[2] == TensorMapParam(
        array="a",
        dtype="bf16",
        dims=(32, 64),
        strides=(64,),
        box=(32, 8),
        element_strides=(1, 1),
        swizzle="64B",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "tilesched/launch/9"}, "schema='tilesched/launch/9' is not"),
        ({"grid": []}, "grid has 0 entries"),
        ({"grid": [0]}, r"grid=\[0, 1, 1\] is not positive"),
        ({"grid": [3], "cluster": [2]}, "grid=3 along x is not a multiple of cluster=2"),
        ({"block": [2048]}, r"block=\[2048, 1, 1\] is not positive, or more than 1024"),
        ({"block": ["32"]}, "is not a list of integers"),
        ({"cluster": [4], "sm_count": 2}, "does not fit on 2 SMs"),
        ({"sm_count": True}, "sm_count=True is of the wrong type"),
        ({"sizes": 1}, "field 'sizes' is unknown"),
        ({"params": [{"array": "b"}]}, "array 'b', which is not described"),
        ({"params": [{}]}, "parameter 0 is none of"),
        ({"arrays": {"a": {"shape": [4], "dtype": "f8"}}}, "dtype='f8' is not one of"),
        ({"arrays": {"a": {"shape": [2**40], "dtype": "u8"}}}, "larger than"),
        ({"arrays": {"a": {"shape": [4], "dtype": "u8", "fill": 300}}}, "fill=300 is no u8"),
        ({"arrays": {"a": {"shape": [4], "dtype": "f32", "fill": float("nan")}}}, "fill=nan is outside"),
        ({"arrays": {"a": {"shape": [4], "dtype": "f32", "seed": -1}}}, "seed=-1 is outside"),
        ({"arrays": {"a": {"shape": [4], "dtype": "f32", "seed": 1, "high": float("inf")}}}, "is no range"),
        ({"params": [{"array": "a", "offset": 10**30}]}, "is outside array a"),
        ({"observe": {"array": "a", "problem": {"m": 1, "n": 1, "k": 1}}}, r"has shape \[64, 32\], not \[1, 1\]"),
        ({"observe": {"array": "a", "problem": {"m": 1}}}, "lacks one of m, n, k"),
    ],
)
def test_a_description_that_is_wrong_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Launch.from_json({**BASE, **change})


def test_a_launch_that_the_kernel_does_not_take_is_refused() -> None:
    with pytest.raises(InputError, match="has 1 parameters, the launch 0"):
        simulate("ret;", launch())
    text = kernel("ret;").replace("{", ".reqntid 64, 1, 1\n{", 1)
    with pytest.raises(InputError, match=r"block=\[32, 1, 1\], but kernel k requires \[64, 1, 1\]"):
        run(assemble(text), launch(out=32))
    text = kernel("ret;", params=".param .align 64 .b8 map[128]")
    for wrong, message in (
        ({"box": (0, 2)}, r"box_dim\[0\]=0"),
        ({"dims": (2**33, 32)}, r"global_dim\[0\]"),
        ({"swizzle": "96B"}, "swizzle='96B'"),
    ):
        fields = {"dims": (32, 32), "strides": (128,), "box": (32, 2), "element_strides": (1, 1), **wrong}
        param = TensorMapParam(array="a", dtype="u32", **fields)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=message):
            run(text, launch(arrays={"a": Array(shape=(32, 32), dtype="u32")}, params=(param,)))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no pointer to an array"):
        simulate("ret;", launch(out=32), params=".param .u32 out")


def test_what_cannot_be_reached_does_not_make_a_run_incomplete() -> None:
    assert kinds(simulate("bra E; sin.approx.f32 %f1, %f2; E: ret;", launch(out=32))) == []
