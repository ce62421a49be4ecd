"""The rule finder: it finds the shortest rule, tests it on more cases, and states none where none fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import combinations, permutations
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tilesched.verify.predicates import simple
from tilesched.verify.rules import MAX_PREDICATES, Case, Params, RuleReport, explain_failures, find_rule

GRID = [{"k": k, "s": s, "t": t} for k in range(1, 7) for s in range(1, 5) for t in range(1, 4)]


def more(count: int = 500) -> list[dict[str, int]]:
    draw = Random(0)
    return [{"k": draw.randint(1, 99), "s": draw.randint(1, 9), "t": draw.randint(1, 9)} for _ in range(count)]


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda p: True, "always"),
        (lambda p: p["t"] >= 2, "t >= 2"),
        (lambda p: p["k"] % p["s"] != 0, "k % s != 0"),
        (lambda p: p["k"] % 2 != 0, "k % 2 != 0"),
        (lambda p: p["k"] % p["s"] != 0 and p["t"] >= 2, "k % s != 0 and t >= 2"),
        (lambda p: p["k"] > p["s"] or p["t"] == 3, "k > s or t >= 3"),
        (lambda p: p["k"] % 2 != 0 and p["t"] >= 2 and p["s"] >= 3, "k % 2 != 0 and s >= 3 and t >= 2"),
        (lambda p: (p["k"] % 3 == 0 or p["s"] >= 4) and p["t"] >= 2, "(k % 3 == 0 or s >= 4) and t >= 2"),
    ],
)
def test_finds_the_shortest_rule(fails: Callable[[Params], bool], text: str) -> None:
    rule = find_rule([(case, fails(case)) for case in GRID])
    assert rule is not None
    assert rule.text == text
    assert all(rule.holds(case) == fails(case) for case in GRID)


def test_no_rule_where_nothing_fails_or_none_fits() -> None:
    assert find_rule([(case, False) for case in GRID]) is None
    assert find_rule([]) is None
    noise = Random(3)
    assert find_rule([(case, noise.random() < 0.5) for case in GRID]) is None


def explain(fails: Callable[[Params], bool], *samples: list[dict[str, int]]) -> RuleReport:
    first, *later = ([(params, fails(params)) for params in sample] for sample in samples)
    return explain_failures(first, later)


def test_a_rule_that_the_second_sample_contradicts_is_not_stated() -> None:
    report = explain(lambda p: p["t"] >= 2 and p["k"] < 50, GRID, more())
    assert report.candidate is not None
    assert report.candidate.text == "t >= 2"
    assert report.rule is None
    assert report.counterexample is not None
    assert report.counterexample["k"] >= 50


def test_a_rule_that_holds_on_both_is_stated_with_the_sizes_of_the_samples() -> None:
    report = explain(lambda p: p["k"] % p["s"] != 0 and p["t"] >= 2, GRID, more())
    assert report.rule is not None
    assert (report.rule.text, report.fitted, report.tested) == ("k % s != 0 and t >= 2", len(GRID), 500)


@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_found_rule_always_fits(labels: list[bool]) -> None:
    cases = [({"a": place % 4, "b": place // 4}, label) for place, label in enumerate(labels)]
    rule = find_rule(cases)
    if rule is not None:
        assert rule.size <= MAX_PREDICATES
        assert all(rule.holds(params) == label for params, label in cases)


def test_a_contradicted_rule_is_fitted_anew_and_tested_on_a_sample_that_it_has_not_met() -> None:
    report = explain(lambda p: p["t"] >= 2 and p["k"] < 9, GRID, more(), more(900))
    assert report.rule is not None
    assert (report.fitted, report.tested) == (len(GRID) + 500, 900)
    never = explain(lambda p: p["t"] >= 2 and p["k"] * p["k"] % 7 < 2, GRID, more(), more(900))
    assert never.rule is None


def test_a_product_is_found_where_nothing_simple_fits() -> None:
    cases = [{**case, "u": case["k"] * 5 % 7} for case in GRID]

    def fails(p: Params) -> bool:
        return (p["k"] - 1) * p["u"] > p["s"] + p["t"]

    with_sum: list[Case] = [({**p, "sum": p["s"] + p["t"]}, fails(p)) for p in cases]
    rule = find_rule(with_sum, derived={"sum"})
    assert rule is not None
    assert rule.text == "(k - 1) * u > sum"
    assert find_rule([(p, fails(p)) for p in cases]) is None


def test_what_is_derived_stands_only_beside_constants_and_in_products() -> None:
    cases: list[Case] = [({**p, "twice": 2 * p["k"]}, 2 * p["k"] > p["s"]) for p in GRID]
    plain, derived = find_rule(cases), find_rule(cases, derived={"twice"})
    assert plain is not None
    assert derived is not None
    assert plain.text == "twice > s"
    assert "twice >" not in derived.text


def test_a_case_in_a_hundred_thousand_decides() -> None:
    """The search begins with few cases; the last one must still be heard."""
    draw = Random(5)
    cases: list[Case] = []
    for _ in range(20_000):
        params = {"a": draw.randint(1, 50), "b": draw.randint(1, 50)}
        cases.append((params, params["a"] > params["b"]))
    rule = find_rule(cases)
    assert rule is not None
    assert rule.text == "a > b"
    odd = ({"a": 1, "b": 50}, True)
    other = find_rule([*cases, odd])
    assert other is None or bool(other.holds(odd[0]))


def shortest_by_hand(cases: list[Case]) -> int | None:
    """The naive twin: every combination of simple predicates, on all cases."""
    columns = {name: np.array([params[name] for params, _ in cases]) for name in cases[0][0]}
    wanted = np.array([failed for _, failed in cases])
    masks = {np.asarray(p.holds(columns)).tobytes(): np.asarray(p.holds(columns)) for p in simple(columns)}
    tables = list(masks.values())
    for size in (1, 2, 3):
        for chosen in combinations(tables, size):
            forms = [reduce(np.logical_and, chosen), reduce(np.logical_or, chosen)]
            if size == 3:
                forms += [form for a, b, c in permutations(chosen) for form in ((a | b) & c, (a & b) | c)]
            if any((form == wanted).all() for form in forms):
                return size
    return None


@given(st.data())
def test_no_shorter_rule_exists(data: st.DataObject) -> None:
    values = st.integers(0, 3)
    params = data.draw(st.lists(st.tuples(values, values), min_size=4, max_size=9, unique=True))
    labels = data.draw(st.lists(st.booleans(), min_size=len(params), max_size=len(params)))
    cases: list[Case] = [({"a": a, "b": b}, label) for (a, b), label in zip(params, labels, strict=True)]
    assume(any(labels) and not all(labels))
    assume(len({a for a, _ in params}) > 1 and len({b for _, b in params}) > 1 and any(a != b for a, b in params))
    rule, size = find_rule(cases), shortest_by_hand(cases)
    if size is None:
        assert rule is None or ("*" in rule.text)
    else:
        assert rule is not None
        assert rule.size == size or "*" in rule.text
