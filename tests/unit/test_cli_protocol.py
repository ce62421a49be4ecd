"""`tilesched-sim protocol` and `protocols`: what is printed, exit codes, and answers to mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilesched.cli.main import main

RING = """
from tilesched.simulator.protocol.ops import Access, Agent, Arrive, Barrier, Complete, Launch, Mode, Slot, Touch, Wait
from tilesched.simulator.protocol.program import Protocol, thread


def ring(k_blocks, stages=2, wrong=0):
    full = [Barrier(f"full[{s}]", 1) for s in range(stages)]
    empty = [Barrier(f"empty[{s}]", 1) for s in range(stages)]
    slots = [Slot(f"x[{s}]") for s in range(stages)]

    def produce():
        for count in range(sum(k_blocks)):
            s, phase = count % stages, count // stages
            yield Wait(empty[s], phase - 1, (phase & 1) ^ 1)
            yield Arrive(full[s], tx=16)
            yield Launch(Agent("load", (Access(slots[s], Mode.WRITE, phase),), (Complete(full[s], 16),)))

    def consume():
        for count in range(sum(k_blocks)):
            s, phase = count % stages, count // stages
            yield Wait(full[s], phase, 0 if wrong else phase & 1)
            yield Touch(Access(slots[s], Mode.READ, phase))
            yield Arrive(empty[s])

    return Protocol("ring", (thread("produce", produce()), thread("consume", consume())))


def raises(k_blocks, stages=2):
    raise RuntimeError("two\\nlines")


def nothing(k_blocks, stages=2):
    return None


def no_stages(k_blocks):
    return None
"""


@pytest.fixture
def ring(tmp_path: Path) -> str:
    path = tmp_path / "ring.py"
    path.write_text(RING)
    return str(path)


def test_a_right_protocol_is_clean_for_every_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "hopper-cooperative", "--set", "stages=2", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "clean: every k_blocks >= 1, every tile count, every interleaving" in out
    assert "k_blocks = 6 + 2i: the state after" in out


def test_the_seed_fails_and_the_rule_says_when(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "seed-1cta", "--set", "epilogue_warps=1", "--set", "subtiles=1"]) == 1
    out = capsys.readouterr().out
    assert "fails; the first failing shape: k_blocks = 1, tiles = 2" in out
    assert "fails iff k_blocks % stages != 0 and tiles >= 2 (fits 128 shapes, and 200 random ones)" in out
    assert "error wrong-phase: " in out


def test_one_shape(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "seed-1cta", "--k-blocks", "8", "--tiles", "3"]) == 0
    assert "clean: k_blocks = 8, tiles = 3, every interleaving" in capsys.readouterr().out
    assert main(["protocol", "seed-1cta", "--k-blocks", "7", "--tiles", "3", "--format", "markdown"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("## seed-1cta (")
    assert "- fails: k_blocks = 7, tiles = 3" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "clc-scheduler", "--set", "finished_count=7", "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tilesched/protocol/1"
    assert document["verdict"] == "findings"
    assert document["rule"]["fails_iff"] == "always"
    assert document["first_failure"] == {"k_blocks": 1, "tiles": 0}
    assert document["findings"][0]["severity"] == "error"
    assert main(["protocol", "clc-scheduler", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["findings"] == []
    assert document["certificates"] == [{"k_blocks": 1, "period": 0, "tiles_from": 2, "tiles_to": 3}]


def test_quiet_says_nothing_of_what_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "seed-1cta", "--k-blocks", "4", "--tiles", "1", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_explain_shows_the_smallest_shape_and_an_interleaving(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["protocol", "seed-1cta", "--set", "stages=3", "--k-blocks", "5", "--tiles", "4", "--explain"]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert "k_blocks = 2, stages = 3, tiles = 3: a shortest way to deadlock" in out
    assert "step | tma@CTA0 " in out
    assert "1    | passes the wait for phase  |" in out


def test_a_period_above_the_limit_is_incomplete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "gemm-1cta", "--set", "stages=33"]) == 3
    assert "incomplete undecided" in capsys.readouterr().out


def test_protocols_lists_names_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocols"]) == 0
    assert "gemm-2cta: " in capsys.readouterr().out
    assert main(["protocols", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["protocols"]
    assert "stages" in {param["name"] for param in rows[0]["params"]}


def test_a_protocol_of_the_user(ring: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "--protocol", f"{ring}:ring", "--set", "stages=3"]) == 0
    assert "clean: every k_blocks >= 1, every tile count" in capsys.readouterr().out
    assert main(["protocol", "--protocol", f"{ring}:ring", "--set", "wrong=1"]) == 1
    assert "wrong-parity" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gemm-3cta"], "protocol='gemm-3cta' is unknown; did you mean"),
        (["gemm-1cta", "--k-blocks", "99999", "--tiles", "9"], "more than 1000000 operations"),
        (["gemm-1cta", "--set", "stages=0"], "stages=0 is outside [1, 512]"),
        (["gemm-1cta", "--set", "depth=2"], "depth=2 is no parameter of gemm-1cta"),
        (["gemm-1cta", "--set", "stages"], "set='stages' is not NAME=N"),
        (["gemm-1cta", "--set", "tma_store=2", "--tiles", "1"], "tma_store=2 is outside [0, 1]"),
        (["gemm-1cta", "--k-blocks", "few"], "k-blocks: 'few' is not an integer"),
        (["gemm-1cta", "--k-blocks", "0"], "k-blocks=0 is outside [1, "),
        (["gemm-1cta", "--tiles", "-1"], "tiles=-1 is outside [0, "),
        (["clc-scheduler", "--k-blocks", "2"], "k-blocks=2 means nothing to clc-scheduler"),
        (["--protocol", "missing.py:f"], "protocol file 'missing.py' does not exist"),
        (["--protocol", "missing.py"], "is neither a built-in nor FILE.py:FUNCTION"),
    ],
)
def test_mistakes_are_answered_in_one_line(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", *arguments]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("raises", "RuntimeError: two lines"),
        ("nothing", "the function returned NoneType, not a Protocol"),
        ("no_stages", "the function takes k_blocks, not k_blocks and stages"),
        ("absent", "has no function 'absent'"),
    ],
)
def test_mistakes_in_a_users_file(ring: str, name: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "--protocol", f"{ring}:{name}"]) == 2
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


WRAPS = """
from tilesched.simulator.protocol.ops import Arrive, AwaitOwn, Barrier, BarrierKind, Init, Inval, Wait
from tilesched.simulator.protocol.program import Protocol, thread


def wraps(k_blocks, stages=3, at=256):
    "The parity comes from a counter of 8 bits."
    full = [Barrier(f"full[{s}]", 1) for s in range(stages)]
    empty = [Barrier(f"empty[{s}]", 1) for s in range(stages)]

    def produce():
        for count in range(sum(k_blocks)):
            s, phase = count % stages, count // stages
            yield Wait(empty[s], phase - 1, (count % at // stages & 1) ^ 1)
            yield Arrive(full[s])

    def consume():
        for count in range(sum(k_blocks)):
            s, phase = count % stages, count // stages
            yield Wait(full[s], phase, phase & 1)
            yield Arrive(empty[s])

    return Protocol("wraps", (thread("produce", produce()), thread("consume", consume())))


def lives(k_blocks, stages=1, early=0):
    "Barriers are made at the start and end at the end, as at the entry and exit of a kernel."
    full, empty = Barrier("full", 1), Barrier("empty", 1)
    sync = Barrier("bar.sync", 2, 0, BarrierKind.HARDWARE)
    both = (Arrive(sync), AwaitOwn(sync))

    def produce():
        yield from (Init(full), Init(empty), *both)
        for count in range(sum(k_blocks)):
            yield Wait(empty, count - 1, (count & 1) ^ 1)
            yield Arrive(full)
        yield from () if early else both
        yield from (Inval(full), Inval(empty))
        yield from both if early else ()

    def consume():
        yield from both
        for count in range(sum(k_blocks)):
            yield Wait(full, count, count & 1)
            yield Arrive(empty)
        yield from both

    return Protocol("lives", (thread("produce", produce()), thread("consume", consume())))
"""


def test_a_counter_that_wraps_is_found_beyond_the_recurrence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wraps.py"
    path.write_text(WRAPS)
    assert main(["protocol", "--protocol", f"{path}:wraps"]) == 1
    out = capsys.readouterr().out
    assert "fails; a failing shape, perhaps not the smallest: k_blocks = 301, tiles = 1" in out
    assert (
        "but means phase 84" in out
    )  # the first use after 256 of a stage: count 256 is phase 85, meant by its wait - 1
    assert main(["protocol", "--protocol", f"{path}:wraps", "--set", "at=258"]) == 0  # a multiple of 2 * stages


def test_barriers_that_are_made_and_end_are_decided_for_every_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "lives.py"
    path.write_text(WRAPS)
    assert main(["protocol", "--protocol", f"{path}:lives"]) == 0
    assert "clean: every k_blocks >= 1, every tile count" in capsys.readouterr().out
    assert main(["protocol", "--protocol", f"{path}:lives", "--set", "early=1"]) == 1
    assert "error dead-barrier: " in capsys.readouterr().out


IRREGULAR = """
from tilesched.simulator.protocol.ops import Access, Arrive, Barrier, Mode, Slot, Touch, Wait
from tilesched.simulator.protocol.program import Protocol, thread


def named(k_blocks, stages=1):
    barrier = Barrier(f"b{sum(k_blocks)}", 1)
    return Protocol("named", (thread("t", [Arrive(barrier), Wait(barrier, 0, 0)]),))


def threads(k_blocks, stages=1):
    return Protocol("threads", tuple(thread(f"t{n}", []) for n in range(len(k_blocks) + 1)))


def slots(k_blocks, stages=1):
    slot = Slot(f"C{len(k_blocks)}")
    return Protocol("slots", (thread("t", [Touch(Access(slot, Mode.WRITE)), Touch(Access(slot, Mode.READ))]),))


def prints(k_blocks, stages=1):
    print("hello")
    return Protocol("prints", (thread("t", []),))


def forgotten(k_blocks, stages=1):
    def role():
        yield (one for one in ())  # `yield from`, without `from`
    return Protocol("forgotten", (thread("t", role()),))


def escapes(k_blocks, stages=1):
    raise ValueError("\\x1b[31mred")


kind = type
"""


@pytest.fixture
def irregular(tmp_path: Path) -> Path:
    path = tmp_path / "irregular.py"
    path.write_text(IRREGULAR)
    return path


@pytest.mark.parametrize("name", ["named", "threads", "slots"])
def test_shapes_that_cannot_be_compared_are_incomplete(
    name: str, irregular: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["protocol", "--protocol", f"{irregular}:{name}"]) == 3
    assert "incomplete undecided: " in capsys.readouterr().out
    assert main(["protocol", "--protocol", f"{irregular}:{name}", "--k-blocks", "2", "--tiles", "2"]) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("forgotten", "number 0 of what it yields is no operation, but generator"),
        ("escapes", r"ValueError: \x1b[31mred"),
        ("kind", "is no function whose parameters are known"),
    ],
)
def test_what_the_users_code_does_wrong_is_one_line(
    name: str, message: str, irregular: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["protocol", "--protocol", f"{irregular}:{name}"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_what_the_users_code_prints_is_not_in_the_report(irregular: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["protocol", "--protocol", f"{irregular}:prints", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "clean"


def test_a_rule_does_not_name_what_is_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--set", "stages=3", "--set", "epilogue_warps=1", "--set", "subtiles=1"]
    assert main(["protocol", "seed-1cta", *arguments]) == 1
    assert "fails iff k_blocks % 3 != 0 and tiles >= 2" in capsys.readouterr().out
