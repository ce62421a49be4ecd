"""Golden vectors from outside, and what the golden command says of those that do not match."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tilesched.cli.main import main
from tilesched.simulator.errors import InputError
from tilesched.verify.golden import VectorStatus, check_vectors

DATA = Path(__file__).parents[1] / "data" / "scheduler_golden.json"
VECTORS: list[dict[str, Any]] = json.loads(DATA.read_text())
ORDINARY = [v for v in VECTORS if v["scheduler"].startswith(("tilelang.Persistent", "tilelang.manual"))]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['scheduler']}-{list(v['params'].values())}")
def test_vector_matches(vector: dict[str, Any]) -> None:
    (result,) = check_vectors([vector])
    assert (result.status, result.difference) == (VectorStatus.MATCH, "")


def test_the_vectors_are_there() -> None:
    assert (len(ORDINARY), len(VECTORS)) == (9, 50)


def test_our_own_names_are_accepted() -> None:
    params = {"tiles_m": 4, "tiles_n": 3, "num_workers": 3, "panel_width": 2, "raster": "panel-n"}
    vector = {**ORDINARY[0], "scheduler": "tilelang.persistent", "params": params}
    assert check_vectors([vector])[0].status is VectorStatus.MATCH


def test_all_ghosts_of_a_wide_cluster_are_compared() -> None:
    """One tile in a cluster of four has three ghosts, more than twice the tiles of the problem."""
    params = {"num_m_tiles": 1, "num_n_tiles": 1, "num_workers": 1, "cluster_size": 4}
    vector = {"scheduler": "tilelang.PersistentTileScheduler", "params": params, "workers": [[[0, 0]]]}
    assert check_vectors([{**vector, "ghosts": [[1, 0], [2, 0], [3, 0]]}])[0].status is VectorStatus.MATCH
    assert check_vectors([{**vector, "ghosts": [[1, 0], [2, 0]]}])[0].status is VectorStatus.MISMATCH


def edited(**changes: Any) -> dict[str, Any]:
    return {**copy.deepcopy(ORDINARY[2]), **changes}


def with_tile(tile: object) -> dict[str, Any]:
    vector = edited()
    vector["workers"][1][2] = tile
    return vector


MISMATCHES = {
    "a tile": (with_tile([9, 9]), "workers[1][2]: the vector has [9, 9], the model [2, 1]"),
    "not a tile": (with_tile("x"), "workers[1][2]: the vector has 'x'"),
    "a worker too few": (
        edited(workers=ORDINARY[2]["workers"][:1]),
        "workers: the vector has 1 workers, the model 2",
    ),
    "a tile too few": (
        edited(workers=[ORDINARY[2]["workers"][0][:-1], []]),
        "workers[0]: the vector has 4 tiles",
    ),
    "workers of the wrong type": (edited(workers=3), "workers: the vector has a int"),
    "a worker of the wrong type": (edited(workers=[3]), "workers[0]: the vector has 3, not a list"),
    "CTA tiles": (edited(cta_tiles=[]), "cta_tiles: the vector has 0 workers, the model 4"),
    "ghosts": (edited(ghosts=[[5, 0]]), "ghosts: the vector has [[5, 0]]"),
    "lost": (edited(lost=[[0, 0]]), "lost: the vector has [[0, 0]], the model []"),
    "lost of the wrong type": (edited(lost="none"), "lost: the vector has 'none'"),
    "a parameter out of bounds": (
        edited(params={**ORDINARY[2]["params"], "num_workers": 0}),
        "cannot be built: sm_count=0",
    ),
    "an unknown parameter": (edited(params={**ORDINARY[2]["params"], "waves": 1}), "'waves' is not a parameter"),
    "a text parameter": (
        edited(params={**ORDINARY[2]["params"], "swizzle_size": "2"}),
        "panel_width='2' is not an",
    ),
    "no tiles": (edited(params={"num_workers": 1}), "tiles_m and tiles_n are needed"),
    "too large": (edited(params={**ORDINARY[2]["params"], "num_m_tiles": 10**6}), "more than 1048576 tiles"),
    "undefined": (
        {**ORDINARY[6], "params": {"m_blocks": 1, "n_blocks": 4, "group_size": 2, "sm_num": 4}},
        "by which the mapping divides",
    ),
}


@pytest.mark.parametrize(("vector", "text"), MISMATCHES.values(), ids=MISMATCHES.keys())
def test_the_first_difference_is_named(vector: dict[str, Any], text: str) -> None:
    (result,) = check_vectors([vector])
    assert result.status is VectorStatus.MISMATCH
    assert text in result.difference


def spoilt(entry: Any) -> Any:
    """The entry of a worker's list with one number more, or with a tile where there is none."""
    if isinstance(entry, dict):
        return {**entry, "k": entry["k"] + 1}
    return [0, 0] if entry is None else [entry[0] + 1, *entry[1:]]


@pytest.mark.parametrize("index", range(len(VECTORS)), ids=lambda index: f"{index}-{VECTORS[index]['scheduler']}")
def test_every_entry_and_every_fact_of_a_vector_is_compared(index: int) -> None:
    vector = VECTORS[index]
    edits = [("workers", [*vector["workers"], []])]
    for worker, work in enumerate(vector["workers"]):
        for position, entry in enumerate(work):
            changed = copy.deepcopy(vector["workers"])
            changed[worker][position] = spoilt(entry)
            edits.append(("workers", changed))
    others = vector.keys() - {"scheduler", "params", "workers", "repo", "commit", "path", "entry"}
    edits += [(name, "something else") for name in others]
    results = check_vectors([{**vector, name: value} for name, value in edits])
    assert [edit for edit, one in zip(edits, results, strict=True) if one.status is not VectorStatus.MISMATCH] == []


@pytest.mark.parametrize("vectors", [{}, [3], [{}], [{"scheduler": "x", "params": []}], None])
def test_other_files_are_refused(vectors: object) -> None:
    with pytest.raises(InputError):
        check_vectors(vectors)


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(vectors: object) -> int:
        path = tmp_path / "v.json"
        path.write_text(vectors if isinstance(vectors, str) else json.dumps(vectors))
        return main(["golden", str(path)])

    stranger = {**ORDINARY[0], "scheduler": "nobody.normal"}
    assert run(VECTORS) == 0
    assert run([ORDINARY[0], with_tile([9, 9])]) == 1
    assert run([ORDINARY[0], stranger, stranger]) == 3
    assert run([stranger, with_tile([9, 9])]) == 1
    assert run([]) == 3
    assert "not known yet: nobody.normal (2)" in capsys.readouterr().out
    for broken in ("{", "[" * 100000, "\udcff".encode("utf-8", "surrogateescape").decode("latin-1") + "["):
        assert run(broken) == 2
    assert main(["golden", str(tmp_path / "absent.json")]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 4
    assert main(["golden", str(DATA), "--format", "json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["schema"], body["match"], body["mismatch"], body["unknown"]) == ("tilesched/golden/1", 50, 0, 0)
