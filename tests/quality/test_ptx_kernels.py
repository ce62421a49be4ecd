"""Whole kernels from NVRTC: right under every ordering, and every one of their planted faults is found.

tests/data/ptx holds source, PTX and launch of each. The PTX was made by
`compile_source(Path("NAME.cu"), ARCH, Output.PTX)` of tilesched.kernels.build with NVRTC 13.5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from assemble import assembler_error, can_assemble
from tilesched.cli.main import main
from tilesched.simulator.findings import Verdict, verdict_of
from tilesched.simulator.ptx.engines import Ordering, Policy
from tilesched.simulator.ptx.kinds import MachineKind as K
from tilesched.simulator.ptx.launch import Launch
from tilesched.simulator.ptx.run import Result, run

DATA = Path(__file__).parents[1] / "data" / "ptx"
ARCHITECTURES = {
    "copy_tiles": "sm_90a",
    "gemm_sm90": "sm_90a",
    "gemm_sm100": "sm_100a",
    "gemm_pair_sm100": "sm_100a",
}
ORDER = [Policy.LATE, Policy.EARLY, Policy.EARLY_REVERSED, Policy.NATURAL, Policy.RANDOM]


def text_of(name: str) -> str:
    return (DATA / f"{name}.ptx").read_text()


def launch_of(name: str) -> Launch:
    return Launch.from_json(json.loads((DATA / f"{name}.json").read_text()))


def run_kernel(name: str, text: str, policy: Policy, seed: int = 0) -> Result:
    return run(text, launch_of(name), ordering=Ordering(policy, seed))


@pytest.mark.skipif(not can_assemble(), reason="nvJitLink is not installed")
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_kernel_assembles(name: str) -> None:
    assert assembler_error(text_of(name), ARCHITECTURES[name]) == ""


def as_float(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def check_copy(result: Result) -> None:
    assert np.array_equal(result.arrays["out"], result.arrays["in"] + 1)


def check_gemm(result: Result) -> None:
    a, b, c = (as_float(result.arrays[name]) for name in "abc")
    exact, most = a @ b.T, np.abs(a) @ np.abs(b).T
    assert (np.abs(c - exact) <= np.abs(exact) * 2.0**-8 + most * 2.0**-16).all()  # bf16, and the f32 sums


CHECKS: dict[str, Callable[[Result], None]] = {
    "copy_tiles": check_copy,
    "gemm_sm90": check_gemm,
    "gemm_sm100": check_gemm,
    "gemm_pair_sm100": check_gemm,
}
OWNERS: dict[str, Callable[[int, int], int]] = {  # of a tile (m, n), the CTA
    "copy_tiles": lambda m, n: (3 * m + n) % 3,
    "gemm_sm90": lambda m, n: (2 * m + n) % 3,
    "gemm_sm100": lambda m, n: (3 * m + n) % 2,
    "gemm_pair_sm100": lambda m, n: 2 * n + m,
}


@pytest.mark.parametrize("policy", list(Policy))
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_kernel_is_clean_and_right(name: str, policy: Policy) -> None:
    result = run_kernel(name, text_of(name), policy, seed=3)
    assert result.findings == []
    CHECKS[name](result)
    assert result.trace is not None
    problem = result.trace.header.problem
    tiles = sorted(zip(result.trace.columns["m"].tolist(), result.trace.columns["n"].tolist(), strict=True))
    assert tiles == [(m, n) for m in range(problem.tiles_m) for n in range(problem.tiles_n)]
    for cta, m, n in zip(*(result.trace.columns[column].tolist() for column in ("cta", "m", "n")), strict=True):
        assert OWNERS[name](m, n) == cta


def without(pattern: str, which: int) -> Callable[[str], str]:
    """Leave out the instruction that is the which-th match."""

    def mutate(text: str) -> str:
        place = list(re.finditer(pattern + "[^;]*;", text))[which]
        return text[: place.start()] + text[place.end() :]

    return mutate


def no_wait(*which: int) -> Callable[[str], str]:
    """Let the which-th waits pass without looking."""

    def mutate(text: str) -> str:
        waits = list(re.finditer(r"mbarrier\.try_wait[^;]*;", text))
        for index in sorted(which, reverse=True):
            place = waits[index]
            text = text[: place.start()] + "setp.eq.u32 P1, 0, 0;" + text[place.end() :]
        return text

    return mutate


def no_loop(which: int) -> Callable[[str], str]:
    """Ask once and go on, whatever the answer."""

    def mutate(text: str) -> str:
        place = list(re.finditer(r"bra LAB_WAIT;", text))[which]
        return text[: place.start()] + text[place.end() :]

    return mutate


def replaced(old: str, new: str) -> Callable[[str], str]:
    def mutate(text: str) -> str:
        assert re.search(old, text)
        return re.sub(old, new, text)

    return mutate


ILLEGAL_SWIZZLE = str(0x4000404000010000 | 1 << 61)
DESCRIPTOR = str(0x4000404000010000)

MUTANTS: dict[str, tuple[str, Callable[[str], str], set[K]]] = {
    "copy: stages are not released": ("copy_tiles", without("mbarrier.arrive.shared", 0), {K.DEADLOCK}),
    "copy: a stage is released before it is read": (
        "copy_tiles",
        without("cp.async.bulk.wait_group.read", 0),
        {K.IN_FLIGHT},
    ),
    "copy: the load does not wait": ("copy_tiles", no_wait(1), {K.IN_FLIGHT, K.ARRIVE_OVERFLOW}),
    "copy: the add does not wait": ("copy_tiles", no_wait(0), {K.IN_FLIGHT, K.UNWRITTEN}),
    "copy: the add asks once": ("copy_tiles", no_loop(0), {K.IN_FLIGHT, K.UNWRITTEN}),
    "copy: too few bytes announced": (
        "copy_tiles",
        replaced(r"(mov\.u32 \t%r\d+, )8192;", r"\g<1>4096;"),
        {K.DEADLOCK},
    ),
    "copy: too many bytes announced": (
        "copy_tiles",
        replaced(r"(mov\.u32 \t%r\d+, )8192;", r"\g<1>8208;"),
        {K.DEADLOCK},
    ),
    "copy: empty barriers want two arrivals": (
        "copy_tiles",
        replaced(r"(mov\.u32 \t%r\d+, )1;\n\t// begin", r"\g<1>2;\n\t// begin"),
        {K.DEADLOCK},
    ),
    "gemm: the load does not wait": ("gemm_sm100", no_wait(*range(7)), {K.IN_FLIGHT, K.ARRIVE_OVERFLOW}),
    "gemm: the mma does not wait for its operands": ("gemm_sm100", no_wait(8, 9, 10), {K.IN_FLIGHT, K.UNWRITTEN}),
    "gemm: the mma asks once": ("gemm_sm100", no_loop(8), {K.IN_FLIGHT, K.UNWRITTEN}),
    "gemm: the mma does not wait for the epilogue": ("gemm_sm100", no_wait(7), {K.OVERWRITTEN}),
    "gemm: the epilogue does not wait": ("gemm_sm100", no_wait(11), {K.IN_FLIGHT, K.UNWRITTEN}),
    "gemm: the last wait::ld is missing": ("gemm_sm100", without("tcgen05.wait::ld", -1), {K.IN_FLIGHT}),
    "gemm: stages are not released": ("gemm_sm100", without("tcgen05.commit", 0), {K.DEADLOCK}),
    "gemm: the accumulator is not handed over": ("gemm_sm100", without("tcgen05.commit", -1), {K.DEADLOCK}),
    "gemm: the accumulator is not handed back": ("gemm_sm100", without("mbarrier.arrive.shared", -1), {K.DEADLOCK}),
    "gemm: tensor memory is kept": ("gemm_sm100", without("tcgen05.dealloc", 0), {K.TENSOR_MEMORY}),
    "gemm: too few columns": ("gemm_sm100", replaced(", 256;", ", 128;"), {K.TENSOR_MEMORY}),
    "gemm: a swizzle that does not exist": ("gemm_sm100", replaced(DESCRIPTOR, ILLEGAL_SWIZZLE), {K.DESCRIPTOR}),
    "hopper: the products are not awaited": (
        "gemm_sm90",
        replaced(r"wgmma\.wait_group\.sync\.aligned 0;", ""),
        {K.IN_FLIGHT},
    ),
    "hopper: the operands are not awaited": ("gemm_sm90", no_wait(7, 8, 9), {K.IN_FLIGHT, K.UNWRITTEN}),
    "hopper: the store's buffer is written too early": (
        "gemm_sm90",
        without("cp.async.bulk.wait_group.read", 0),
        {K.IN_FLIGHT},
    ),
    "pair: the odd CTA signals itself": ("gemm_pair_sm100", replaced(", -16777224;", ", -8;"), {K.DEADLOCK}),
    "pair: bytes of one CTA announced": ("gemm_pair_sm100", replaced(", 49152;", ", 24576;"), {K.IN_FLIGHT}),
    "pair: the commits do not reach the peer": (
        "gemm_pair_sm100",
        replaced(r"(mov\.b16 \t%rs\d, )3;", r"\g<1>1;"),
        {K.DEADLOCK},
    ),
    "gemm: the wrong quarter of tensor memory": (
        "gemm_sm100",
        replaced(r"(shl\.b32 \t%r\d+, %r\d+, )21;", r"\g<1>20;"),
        {K.TENSOR_MEMORY},
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_planted_fault_is_found(mutant: str) -> None:
    name, mutate, expected = MUTANTS[mutant]
    text = mutate(text_of(name))
    assert text != text_of(name)
    for policy in ORDER:
        result = run_kernel(name, text, policy)
        if verdict_of(result.findings) is not Verdict.CLEAN:
            assert result.findings[0].kind in expected, result.findings
            return
    pytest.fail("no ordering shows the fault")


def test_lost_tiles_are_seen_in_the_observed_schedule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = text_of("gemm_sm100").replace("%nctaid.x", "3")
    (tmp_path / "k.ptx").write_text(text)
    trace = str(tmp_path / "t.npz")
    arguments = ["run", str(tmp_path / "k.ptx"), "--launch", str(DATA / "gemm_sm100.json"), "--policy", "early"]
    assert main([*arguments, "--observe", trace]) == 0
    capsys.readouterr()
    assert main(["verify", trace]) == 1
    assert "missing" in capsys.readouterr().out


def test_the_command_reports_a_hang_as_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.ptx").write_text(MUTANTS["copy: stages are not released"][1](text_of("copy_tiles")))
    arguments = ["run", str(tmp_path / "k.ptx"), "--launch", str(DATA / "copy_tiles.json")]
    assert main(arguments) == 1
    shown = capsys.readouterr().out
    assert "verdict: findings (deadlock)" in shown
    assert "CTA 0 warp 0 at line" in shown
    assert main([*arguments, "--format", "json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert body["schema"] == "tilesched/run/1"
    assert body["verdict"] == "findings"
    (finding,) = [one for one in body["findings"] if one["kind"] == "deadlock"]
    assert finding["threads"] == 9
    assert finding["waiting"][0]["meant"] == 0


def test_the_command_is_clean_quiet_and_reads_arrays_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = json.loads((DATA / "copy_tiles.json").read_text())
    body["arrays"]["in"] = {"shape": [256, 192], "dtype": "u16", "file": "in.npy"}
    (tmp_path / "l.json").write_text(json.dumps(body))
    np.save(tmp_path / "in.npy", np.ones((256, 192), np.uint16))
    arguments = ["run", str(DATA / "copy_tiles.ptx"), "--launch", str(tmp_path / "l.json"), "--quiet"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == ""
    np.save(tmp_path / "in.npy", np.array([object()] * 4), allow_pickle=True)
    assert main(arguments) == 2
    assert "array in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--launch", "absent.json"], "absent.json: No such file"),
        (["--delay", "x"], "delay='x' is not CTA:OFFSET"),
        (["--policy", "never"], "invalid choice"),
    ],
)
def test_mistakes_are_one_line(extra: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", str(DATA / "copy_tiles.ptx"), "--launch", str(DATA / "copy_tiles.json"), *extra]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_limits_and_delays(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", str(DATA / "copy_tiles.ptx"), "--launch", str(DATA / "copy_tiles.json"), "--policy", "natural"]
    assert main([*arguments, "--max-steps", "100"]) == 3
    assert "incomplete (limit)" in capsys.readouterr().out
    assert main([*arguments, "--delay", "0:0x400", "--delay", "1:0x408"]) == 0
