"""What benchmarks make of their samples."""

from __future__ import annotations

import pytest

from tests.benchmarks import record, table
from tests.benchmarks.report import Result, at_least, at_most, compare, faster, within
from tests.benchmarks.stats import summarise


def _result(product: float, reference: float, **more: object) -> Result:
    taken = {"ours": summarise([product]), "theirs": summarise([reference])}
    references, ratios = compare(taken, "ours")
    return Result(
        id="G1",
        metric="a metric",
        unit="ms",
        product=taken["ours"],
        references=references,
        ratios=ratios,
        **more,  # type: ignore[arg-type]  # (options of each test)
    )


def test_percentiles_are_values_that_were_measured() -> None:
    summary = summarise(range(1, 101))
    assert (summary.min, summary.p50, summary.p99, summary.n) == (1, 50, 100, 100)
    assert summarise([3, 1, 2]).p50 == 2
    with pytest.raises(ValueError, match="no samples"):
        summarise([])


def test_a_bound_holds_on_the_right_side_of_its_limit() -> None:
    assert _result(10, 10, bounds=[at_most("theirs", 1)]).met is True
    assert _result(11, 10, bounds=[at_most("theirs", 1)]).met is False
    assert _result(7, 10, bounds=[at_least("theirs", 0.7)]).met is True
    assert _result(6, 10, bounds=[at_least("theirs", 0.7)]).met is False
    assert _result(1, 3, bounds=[faster("theirs", 3)]).met is True
    assert _result(2, 3, bounds=[faster("theirs", 3)]).met is False
    assert _result(500, 1, bounds=[within(500, "KiB")]).met is True
    assert _result(501, 1, bounds=[within(500, "KiB")]).met is False


def test_a_missing_reference_is_not_a_target_that_is_met() -> None:
    result = _result(1, 10, bounds=[faster("docker", 150)], missing={"docker": "no engine"})
    assert result.met is None
    both = _result(1, 10, bounds=[faster("theirs", 3), faster("docker", 150)])
    assert both.met is True
    assert both.verdict(both.bounds[1]) is None


def test_a_missing_reference_is_shown_with_its_reason() -> None:
    result = _result(1, 10, bounds=[faster("docker", 150)], missing={"docker": "no engine"})
    for shown in (table.for_terminal([result.record()]), table.for_document([result.record()])):
        assert "docker: missing, no engine" in shown
        assert "150" in shown


def test_a_new_run_of_one_goal_keeps_the_others_in_their_order() -> None:
    old = _result(1, 10).record()
    ten, two = old.copy(), old.copy()
    ten["id"], two["id"] = "G10", "G2"
    new = ten.copy()
    new["metric"] = "new"
    merged = record.merge([old, ten, two], [new])
    assert [entry["id"] for entry in merged] == ["G1", "G2", "G10"]
    assert merged[-1]["metric"] == "new"


def test_a_new_run_of_half_a_goal_keeps_the_other_half() -> None:
    files = _result(1, 10, source="g1_files").record()
    streams = _result(1, 10, source="g1_streams").record()
    new = streams.copy()
    new["metric"] = "new"
    merged = record.merge([streams, files], [new])
    assert [(entry["source"], entry["metric"]) for entry in merged] == [
        ("g1_files", "a metric"),
        ("g1_streams", "new"),
    ]


def test_each_id_links_to_the_benchmark_that_measured_it() -> None:
    shown = table.for_document([_result(1, 10, source="g1_streams").record()])
    assert "[G1](../tests/benchmarks/g1_streams.py)" in shown
