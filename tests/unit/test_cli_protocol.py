"""`tilesched-sim protocol` and `protocols`."""

from __future__ import annotations

import json

import pytest

from tilesched.cli.main import main

Capture = pytest.CaptureFixture[str]


def test_clean_and_findings(capsys: Capture) -> None:
    assert main(["protocol", "gemm-1cta"]) == 0
    assert "every interleaving of this shape" in capsys.readouterr().out
    assert main(["protocol", "seed-1cta", "--set", "stages=3"]) == 1
    out = capsys.readouterr().out
    assert "stale: MMA@CTA0's MMA of k-block 2 reads A[2] and means version 2, but it is version 1" in out
    assert main(["protocol", "seed-1cta", "--set", "stages=3", "--tiles", "1", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_explain_shrinks_and_shows_an_interleaving(capsys: Capture) -> None:
    assert main(["protocol", "seed-1cta", "--set", "stages=3", "--k-blocks", "5", "--tiles", "4", "--explain"]) == 1
    out = capsys.readouterr().out
    assert "smallest failing shape: stages 2, k-blocks 1, tiles 2" in out
    assert "\n   1. " in out


def test_json(capsys: Capture) -> None:
    assert main(["protocol", "seed-1cta", "--set", "stages=3", "--format", "json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], body["verdict"], body["tiles"]) == ("tilesched/protocol/1", "findings", 2)
    assert body["findings"][0]["kind"] == "stale"
    assert main(["protocols", "--format", "json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in body["protocols"]] == ["gemm-1cta", "gemm-2cta", "seed-1cta"]
    assert main(["protocols"]) == 0


MISTAKES = {
    "unknown": (["gemm-3cta"], "protocol='gemm-3cta' is unknown; did you mean"),
    "unknown parameter": (["gemm-1cta", "--set", "stage=3"], "'stage' is not a parameter; did you mean 'stages'?"),
    "no value": (["gemm-1cta", "--set", "stages"], "set='stages': '' is not an integer"),
    "no stages": (["gemm-1cta", "--set", "stages=0"], "stages=0 is outside [1, 1048576]"),
    "negative tiles": (["gemm-1cta", "--tiles", "-1"], "tiles=-1 is outside"),
    "negative k-blocks": (["gemm-1cta", "--k-blocks", "-1"], "k_blocks=-1 is outside"),
    "half a store": (["gemm-1cta", "--set", "tma_store=2"], "tma_store=2 is outside [0, 1]"),
    "too large": (["gemm-1cta", "--k-blocks", "1048576", "--tiles", "9"], "operations"),
}


@pytest.mark.parametrize(("arguments", "text"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(arguments: list[str], text: str, capsys: Capture) -> None:
    assert main(["protocol", *arguments]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert text in error
