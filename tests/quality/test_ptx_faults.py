"""One planted fault for every kind of finding of the PTX machine, each beside the twin without it, which is clean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ptx_kit import kinds, launch, simulate
from tilesched.simulator.findings import Severity, Verdict, verdict_of
from tilesched.simulator.ptx.engines import Policy
from tilesched.simulator.ptx.kinds import MachineKind
from tilesched.simulator.ptx.launch import Array, ArrayParam, Launch, ScalarParam, TensorMapParam
from tilesched.simulator.ptx.machine import Limits

K = MachineKind
BARRIER = ".shared .align 8 .b64 bar; mov.u32 %r1, bar; mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0;"
BUFFER = ".shared .align 128 .b8 buf[256]; mov.u32 %r3, buf; ld.param.u64 %rd1, [out];"
INIT = "@%p1 mbarrier.init.shared.b64 [%r1], {n}; bar.sync 0;"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r1], {parity}; @!%p2 bra W;"
LOAD = (
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 128;"
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 128, [%r1];"
)
STORE = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r3], 128; cp.async.bulk.commit_group;"
FILLED = {"out": Array(shape=(64,), dtype="u32", fill=0)}
TENSOR = ".param .align 64 .b8 map[128]"


def tensor_launch(*, dims: tuple[int, ...] = (32, 32)) -> Launch:
    """One parameter, a tensor map over a filled array of 32 × 32 words with boxes of 32 × 2."""
    box = (32, 2, 1)[: len(dims)]
    strides = tuple(128 * 32**i for i in range(len(dims) - 1))
    param = TensorMapParam(
        array="a", dtype="u32", dims=dims, strides=strides, box=box, element_strides=(1,) * len(dims)
    )
    array = Array(shape=(32, 32), dtype="u32", fill=1)
    return Launch(grid=(1, 1, 1), block=(32, 1, 1), arrays={"a": array}, params=(param,))


TENSOR_LOAD = (
    BARRIER
    + ".shared .align 128 .b8 buf[256]; mov.u32 %r3, buf; mov.b64 %rd1, map; cvta.param.u64 %rd1, %rd1;"
    + INIT.format(n=1)
    + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 256; mov.u32 %r4, 0;"
    + "@%p1 cp.async.bulk.tensor.{dims}d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%r3], [%rd1, {{%r4, {at}}}], [%r1];" + WAIT.format(parity=0) + "ret;"
)


# An mma of 128 x 8 x 16 zeros: operands without a swizzle, 128 and 256 bytes between core matrices.
ALLOC = (
    ".shared .align 4 .b32 place; mov.u32 %r3, place;"
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], 32;"
    "ld.shared.u32 %r4, [%r3];"
)
DEALLOC = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32; ret;"
ZEROS = (
    ".shared .align 128 .b8 zeros[4096]; mov.u32 %r5, zeros; mad.lo.u32 %r6, %r2, 16, %r5; mov.u32 %r7, 0;"
    "Z: st.shared.v4.u32 [%r6], {%r7, %r7, %r7, %r7}; add.u32 %r6, %r6, 512; add.u32 %r8, %r5, 4096;"
    "setp.lt.u32 %p3, %r6, %r8; @%p3 bra Z; bar.sync 0; shr.u32 %r5, %r5, 4; cvt.u64.u32 %rd2, %r5;"
    f"or.b64 %rd2, %rd2, {8 << 16 | 16 << 32 | 1 << 46}; mov.u32 %r9, {1 << 4 | 1 << 7 | 1 << 10 | 1 << 17 | 8 << 24};"
    "setp.ne.u32 %p4, %r7, 0;"
)
MMA = (
    "@%p1 tcgen05.mma.cta_group::1.kind::f16 [%r4], %rd2, %rd2, %r9, %p4;"
    "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1];"
)
READ = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r10, %r11, %r12, %r13}, [%r4]; tcgen05.wait::ld.sync.aligned;"
SM100 = {"arch": "sm_100a"}


@dataclass(frozen=True)
class Planted:
    """`good` with `wrong` put in place of `right`, or launched as `bad_launch` instead of `where`."""

    kind: MachineKind
    good: str
    right: str = ""
    wrong: str = ""
    where: Launch = field(default_factory=lambda: launch(arrays=FILLED))
    bad_launch: Launch | None = None
    policy: Policy = Policy.LATE
    limits: Limits | None = None
    parts: dict[str, Any] = field(default_factory=dict)


TWO = launch(arrays=FILLED, grid=2, cluster=2)

PLANTED = {
    "one arrival too few": Planted(
        K.DEADLOCK,
        BARRIER + INIT.format(n=1) + "@%p1 mbarrier.arrive.shared.b64 _, [%r1];" + WAIT.format(parity=0) + "ret;",
        "init.shared.b64 [%r1], 1",
        "init.shared.b64 [%r1], 2",
    ),
    "a wait with the other parity": Planted(
        K.DEADLOCK,
        BARRIER + INIT.format(n=1) + WAIT.format(parity=1) + "ret;",
        "[%r1], 1; @!%p2",
        "[%r1], 0; @!%p2",
    ),
    "a barrier for a warp that does not come": Planted(
        K.DEADLOCK,
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra L; bar.sync 1, 64; ret; L: bar.sync 1, 64; ret;",
        "L: bar.sync 1, 64;",
        "L: bar.sync 2, 64;",
        where=launch(arrays=FILLED, block=64),
    ),
    "a cluster barrier that one warp does not reach": Planted(
        K.DEADLOCK,
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;",
        "%r1, 32;",
        "%r1, 32; @%p1 bar.sync 1, 64;",
        where=launch(arrays=FILLED, grid=2, cluster=2, block=64),
    ),
    "polling a phase that nobody completes": Planted(
        K.LIVELOCK,
        BARRIER
        + INIT.format(n=1)
        + "@%p1 mbarrier.arrive.shared.b64 _, [%r1];"
        + "W: mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra W; ret;",
        "@%p1 mbarrier.arrive.shared.b64 _, [%r1];",
        "",
    ),
    "a flag that is never set": Planted(
        K.LIVELOCK,
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 st.volatile.global.u32 [%rd1], 1;"
        "L: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra L; ret;",
        "[%rd1], 1;",
        "[%rd1+4], 1;",
    ),
    "waiting for a CTA that has no room": Planted(
        K.NOT_RESIDENT,
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1;"
        "@%p1 st.volatile.global.u32 [%rd1], 1;"
        "L: ld.volatile.global.u32 %r2, [%rd1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra L; ret;",
        where=launch(arrays=FILLED, grid=2, sms=2),
        bad_launch=launch(arrays=FILLED, grid=2, sms=1),
    ),
    "a store behind the array": Planted(
        K.OUT_OF_BOUNDS, "ld.param.u64 %rd1, [out]; st.global.u32 [%rd1+252], 1; ret;", "+252", "+256"
    ),
    "a load across the array's end": Planted(
        K.OUT_OF_BOUNDS,
        "ld.param.u64 %rd1, [out]; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+240]; ret;",
        "+240",
        "+256",
    ),
    "an address of nothing": Planted(
        K.OUT_OF_BOUNDS, "ld.param.u64 %rd1, [out]; ld.u32 %r1, [%rd1]; ret;", "[out];", "[out]; mov.u64 %rd1, 8;"
    ),
    "a vector at a scalar's address": Planted(
        K.MISALIGNED,
        "ld.param.u64 %rd1, [out]; ld.global.v2.u32 {%r1, %r2}, [%rd1+8]; ret;",
        "+8]",
        "+4]",
    ),
    "shared memory read before it is written": Planted(
        K.UNWRITTEN,
        BUFFER + "st.shared.u32 [%r3], 1; ld.shared.u32 %r4, [%r3]; ret;",
        "ld.shared.u32 %r4, [%r3]",
        "ld.shared.u32 %r4, [%r3+4]",
    ),
    "an output read before it is written": Planted(
        K.UNWRITTEN,
        "ld.param.u64 %rd1, [out]; ld.global.u32 %r1, [%rd1]; ret;",
        where=launch(arrays=FILLED),
        bad_launch=launch(out=64),
    ),
    "a stage read before its copy is awaited": Planted(
        K.IN_FLIGHT,
        BARRIER + BUFFER + INIT.format(n=1) + LOAD + WAIT.format(parity=0) + "ld.shared.u32 %r4, [%r3]; ret;",
        WAIT.format(parity=0) + "ld.shared.u32 %r4, [%r3];",
        "ld.shared.u32 %r4, [%r3];" + WAIT.format(parity=0),
    ),
    "a buffer written before its store has read it": Planted(
        K.IN_FLIGHT,
        BARRIER
        + BUFFER
        + "mul.lo.u32 %r4, %r2, 4; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], 1; bar.warp.sync -1; @!%p1 bra E;"
        + STORE
        + "cp.async.bulk.wait_group.read 0; st.shared.u32 [%r3], 2; cp.async.bulk.wait_group 0; E: ret;",
        "cp.async.bulk.wait_group.read 0;",
        "",
    ),
    "an ordinary store to a barrier": Planted(
        K.BARRIER_ACCESS,
        BARRIER + INIT.format(n=1) + "@%p1 mbarrier.inval.shared.b64 [%r1]; @%p1 st.shared.u32 [%r1], 0; ret;",
        "@%p1 mbarrier.inval.shared.b64 [%r1];",
        "",
    ),
    "an arrival at no barrier": Planted(
        K.NOT_A_BARRIER,
        BARRIER + INIT.format(n=1) + "@%p1 mbarrier.arrive.shared.b64 _, [%r1]; ret;",
        "@%p1 mbarrier.init.shared.b64 [%r1], 1;",
        "",
    ),
    "a second init": Planted(
        K.LIVE_BARRIER,
        BARRIER
        + INIT.format(n=1)
        + "@%p1 mbarrier.inval.shared.b64 [%r1]; @%p1 mbarrier.init.shared.b64 [%r1], 1; ret;",
        "@%p1 mbarrier.inval.shared.b64 [%r1];",
        "",
    ),
    "an init by every lane": Planted(
        K.LIVE_BARRIER,
        BARRIER + INIT.format(n=1) + "ret;",
        "@%p1 mbarrier.init",
        "mbarrier.init",
    ),
    "an init with no arrivals": Planted(
        K.BARRIER_COUNT, BARRIER + "mov.u32 %r9, 1;" + INIT.format(n="%r9") + "ret;", "%r9, 1;", "%r9, 0;"
    ),
    "two counts for one barrier": Planted(
        K.BARRIER_COUNT,
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bar.arrive 1, 64; @!%p1 bar.sync 1, 64; ret;",
        "bar.sync 1, 64",
        "bar.sync 1, 32",
        where=launch(arrays=FILLED, block=64),
    ),
    "more arrivals than are pending": Planted(
        K.ARRIVE_OVERFLOW,
        BARRIER + INIT.format(n=2) + "@%p1 mbarrier.arrive.shared.b64 _, [%r1], 2; ret;",
        "_, [%r1], 2",
        "_, [%r1], 3",
    ),
    "too many bytes expected": Planted(
        K.TX_RANGE,
        BARRIER
        + INIT.format(n=1)
        + "@%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 1048575;"
        + "@%p1 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 1048575;"
        + "@%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r1], 16;"
        + "@%p1 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 16; ret;",
        "@%p1 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 1048575;",
        "",
    ),
    "the last participant drops out": Planted(
        K.DROP_ALL,
        BARRIER + INIT.format(n=2) + "@%p1 mbarrier.arrive_drop.shared.b64 %rd1, [%r1];"
        "@%p1 mbarrier.arrive.shared.b64 _, [%r1]; ret;",
        "init.shared.b64 [%r1], 2",
        "init.shared.b64 [%r1], 1",
    ),
    "noComplete that completes": Planted(
        K.COMPLETES,
        BARRIER + INIT.format(n=2) + "@%p1 mbarrier.arrive.noComplete.shared.b64 %rd1, [%r1], 1;"
        "@%p1 mbarrier.arrive.shared.b64 _, [%r1]; ret;",
        "%rd1, [%r1], 1",
        "%rd1, [%r1], 2",
    ),
    "a wait by an old state": Planted(
        K.STATE_TOKEN,
        BARRIER
        + INIT.format(n=1)
        + "@!%p1 bra E; mbarrier.arrive.shared.b64 %rd1, [%r1]; mbarrier.arrive.shared.b64 %rd2, [%r1];"
        + "mbarrier.test_wait.shared.b64 %p3, [%r1], %rd2; E: ret;",
        "[%r1], %rd2;",
        "[%r1], %rd1;",
    ),
    "a shuffle by a lane outside its mask": Planted(
        K.LANES,
        "mov.u32 %r1, %laneid; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; ret;",
        "31, -1",
        "31, 0xffff",
    ),
    "an election by a lane outside its mask": Planted(
        K.LANES,
        "elect.sync %r1|%p1, -1; ret;",
        "%p1, -1",
        "%p1, 1",
    ),
    "a peer that is gone": Planted(
        K.PEER_EXIT,
        BUFFER
        + "mov.u32 %r1, %cluster_ctarank; mapa.shared::cluster.u32 %r4, %r3, 1; setp.eq.u32 %p1, %r1, 0;"
        + "@!%p1 bra E; mov.u32 %r5, 0; L: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3000; @%p2 bra L;"
        + "st.shared::cluster.u32 [%r4], 1;"
        + "E: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "",
        where=TWO,
    ),
    "a CTA that ends under its copy": Planted(
        K.EXIT_IN_FLIGHT,
        BARRIER
        + BUFFER
        + "mul.lo.u32 %r4, %r2, 4; add.u32 %r4, %r4, %r3; st.shared.u32 [%r4], 1; bar.warp.sync -1; @!%p1 bra E;"
        + STORE
        + "cp.async.bulk.wait_group.read 0; E: ret;",
        "cp.async.bulk.wait_group.read 0;",
        "",
    ),
    "bytes that never come": Planted(
        K.LEFTOVER,
        BARRIER + INIT.format(n=1) + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;"
        "@%p1 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r1], 16; ret;",
        "cta.shared.b64 [%r1], 16; ret",
        "cta.shared.b64 [%r1], 8; ret",
    ),
    "a copy that signals the peer": Planted(
        K.BARRIER_CTA,
        BARRIER
        + BUFFER
        + INIT.format(n=1)
        + "mov.u32 %r5, %cluster_ctarank; mapa.shared::cluster.u32 %r6, %r1, %r5;"
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        + LOAD.replace("128, [%r1]", "128, [%r6]")
        + WAIT.format(parity=0)
        + "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;",
        "mov.u32 %r5, %cluster_ctarank;",
        "mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1;",
        where=TWO,
    ),
    "a map of another rank": Planted(
        K.TENSOR_MAP,
        TENSOR_LOAD.format(dims=2, at="%r4"),
        where=tensor_launch(),
        bad_launch=tensor_launch(dims=(32, 32, 1)),
        parts={"params": TENSOR},
    ),
    "a map that is none": Planted(
        K.TENSOR_MAP,
        TENSOR_LOAD.format(dims=2, at="%r4"),
        "cvta.param.u64 %rd1, %rd1;",
        "cvta.param.u64 %rd1, %rd1; ld.param.u64 %rd1, [ptr];",
        where=Launch(
            grid=(1, 1, 1),
            block=(32, 1, 1),
            arrays=tensor_launch().arrays,
            params=(*tensor_launch().params, ArrayParam("a")),
        ),
        parts={"params": TENSOR + ", .param .u64 ptr"},
    ),
    "a stage that a tensor copy cannot reach": Planted(
        K.TENSOR_MAP,
        TENSOR_LOAD.format(dims=2, at="%r4").replace("buf[256]; mov.u32 %r3, buf;", "buf[512]; mov.u32 %r3, buf+128;"),
        "buf+128",
        "buf+64",
        where=tensor_launch(),
        parts={"params": TENSOR},
    ),
    "tensor memory that is kept": Planted(K.TENSOR_MEMORY, ALLOC + DEALLOC, DEALLOC, "ret;", parts=SM100),
    "columns that were not allocated": Planted(
        K.TENSOR_MEMORY,
        ALLOC
        + READ.replace("ld.", "st.", 1)
        .replace("{%r10, %r11, %r12, %r13}, [%r4]", "[%r4], {%r3, %r3, %r3, %r3}")
        .replace("wait::ld", "wait::st")
        + DEALLOC,
        "tcgen05.st.sync.aligned.32x32b.x4.b32 [%r4]",
        "add.u32 %r5, %r4, 32; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r5]",
        parts=SM100,
    ),
    "a shape that does not exist": Planted(
        K.DESCRIPTOR,
        BARRIER + INIT.format(n=1) + ALLOC + ZEROS + MMA + WAIT.format(parity=0) + DEALLOC,
        "setp.ne.u32 %p4",
        "or.b32 %r9, %r9, 16777216; setp.ne.u32 %p4",
        parts=SM100,
    ),
    "a new accumulator over one that nobody read": Planted(
        K.OVERWRITTEN,
        BARRIER
        + INIT.format(n=1)
        + ALLOC
        + ZEROS
        + MMA
        + WAIT.format(parity=0)
        + READ
        + MMA
        + WAIT.format(parity=1).replace("W:", "V:").replace("bra W", "bra V")
        + READ
        + DEALLOC,
        READ,
        "",
        parts=SM100,
    ),
    "an accumulator that is read too early": Planted(
        K.UNWRITTEN,
        BARRIER + INIT.format(n=1) + ALLOC + ZEROS + MMA + WAIT.format(parity=0) + READ + DEALLOC,
        MMA,
        "@%p1 mbarrier.arrive.shared.b64 _, [%r1];",
        parts=SM100,
    ),
    "a failed answer is taken for a CTA": Planted(
        K.CANCEL,
        BARRIER
        + ".shared .align 16 .b8 answer[16]; .reg .b128 q; mov.u32 %r3, answer;"
        + INIT.format(n=1)
        + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 16;"
        + "@%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r3], [%r1];"
        + WAIT.format(parity=0)
        + "ld.shared.b128 q, [%r3]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p4, q; @!%p4 bra E;"
        + "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r4, q; E: ret;",
        "@!%p4 bra E;",
        "",
        parts=SM100,
    ),
    "eight bytes": Planted(
        K.BULK_SIZE,
        BARRIER
        + BUFFER
        + INIT.format(n=1)
        + "mov.u32 %r9, 128;"
        + LOAD.replace("128, [%r1]", "%r9, [%r1]")
        + WAIT.format(parity=0)
        + "ret;",
        "mov.u32 %r9, 128;",
        "mov.u32 %r9, 8;",
    ),
    "trap": Planted(K.TRAP, "mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 31; @%p1 trap; ret;", "%r1, 31", "%r1, 30"),
    "an unknown instruction": Planted(
        K.UNSUPPORTED, "ret; sin.approx.f32 %f1, %f2; ret;", "ret; sin", "mov.u32 %r1, 0; sin"
    ),
    "an unknown instruction that is not executed": Planted(
        K.UNSUPPORTED,
        "mov.u32 %r1, 0; setp.eq.u32 %p1, %r1, 1; bra L; @%p1 sin.approx.f32 %f1, %f2; L: ret;",
        "bra L;",
        "",
    ),
    "more steps than allowed": Planted(
        K.LIMIT,
        "mov.u32 %r1, 0; L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 100; @%p1 bra L; ret;",
        "%r1, 100",
        "%r1, 10000",
        limits=Limits(steps=5000),
    ),
    "more memory than allowed": Planted(
        K.LIMIT,
        "ret;",
        limits=Limits(memory=20_000),
        where=launch(arrays=FILLED),
        bad_launch=launch(arrays=FILLED, smem=4096),
    ),
}


def run_it(planted: Planted, *, bad: bool) -> Any:
    assert planted.right in planted.good
    body = planted.good.replace(planted.right, planted.wrong, 1) if bad and planted.right else planted.good
    where = planted.bad_launch if bad and planted.bad_launch is not None else planted.where
    return simulate(body, where, policy=planted.policy, limits=planted.limits, **planted.parts)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_fault_is_found(name: str) -> None:
    planted = PLANTED[name]
    result = run_it(planted, bad=True)
    assert str(planted.kind) in kinds(result), result.findings
    finding = next(one for one in result.findings if one.kind is planted.kind)
    incomplete = planted.kind in (K.UNSUPPORTED, K.LIMIT)
    assert finding.severity is (Severity.INCOMPLETE if incomplete else Severity.ERROR)
    assert verdict_of(result.findings) is (Verdict.INCOMPLETE if incomplete else Verdict.FINDINGS)


@pytest.mark.parametrize("name", PLANTED)
def test_its_twin_is_clean(name: str) -> None:
    result = run_it(PLANTED[name], bad=False)
    assert verdict_of(result.findings) is Verdict.CLEAN, result.findings


def test_every_kind_has_a_planted_fault() -> None:
    assert {planted.kind for planted in PLANTED.values()} == set(MachineKind)


def test_a_hang_names_warp_line_barrier_phases_and_what_is_pending() -> None:
    body = BARRIER + INIT.format(n=3) + "\n@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 64;\nW: mbarrier"
    body += ".try_wait.parity.shared.b64 %p2, [%r1], 0; @!%p2 bra W; ret;"
    (finding,) = simulate(body, launch(arrays=FILLED)).findings
    (thread,) = finding.facts["waiting"]  # type: ignore[misc]
    assert (thread["cta"], thread["warp"], thread["line"]) == (0, 0, 12)
    assert (thread["name"], thread["barrier"], thread["meant"], thread["phase"]) == ("bar", 0x400, 0, 0)
    assert (thread["pending"], thread["tx"]) == (2, 64)
    assert "line 12" in finding.message
    assert "2 of 3 arrivals and 64 bytes pending" in finding.message


def test_scalars_are_checked_against_their_parameter() -> None:
    from tilesched.simulator.errors import InputError

    where = launch(params=(ScalarParam(2**32),), arrays=FILLED)
    with pytest.raises(InputError, match=r"parameter out=4294967296 is no integer of 32 bits"):
        simulate("ret;", where, params=".param .u32 out")
