"""The command that runs the suites of others: its tables, and what it counts as a surprise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import conformance_a2a, conformance_acp, conformance_bfcl, conformance_phoenix, conformance_responses
from tools.conformance import Row, Unavailable, surprises, table, write_section

ROWS = [Row("server", "a", "passed", "2 of 2"), Row("server", "b", "failed"), Row("client", "a", "skipped")]


def test_each_part_has_a_table_with_the_reasons_of_its_failures() -> None:
    text = table(ROWS, {"server: b": "it is new"})
    assert text.count("| scenario | outcome | checks | why |") == 2
    assert "| a | passed | 2 of 2 |  |" in text
    assert "| b | failed |  | it is new |" in text


def test_a_failure_without_a_reason_and_a_reason_without_a_failure_are_surprises() -> None:
    assert surprises(ROWS, {"server: b": "it is new", "client: a": "not here"}) == []
    assert surprises(ROWS, {"server: a": "it is new", "server: b": "too"}) == [
        "server: a passes; remove its reason from EXPECTED",
        "client: a skipped",
    ]


def test_a_table_replaces_the_one_before_it() -> None:
    page = "# Page\n<!-- begin x -->\nold\n<!-- end x -->\nrest\n"
    assert write_section(page, "x", "new\n") == "# Page\n<!-- begin x -->\nnew\n<!-- end x -->\nrest\n"
    with pytest.raises(SystemExit, match="no section"):
        write_section(page, "y", "new\n")


REPORT = """<testsuites><testsuite>
<testcase classname="tests.compatibility.core_operations.test_artifacts.TestText" name="test_a[jsonrpc]"/>
<testcase classname="tests.compatibility.core_operations.test_artifacts.TestMessageResponse"
  name="test_returns_message_with_text_part[jsonrpc]"><failure/></testcase>
<testcase classname="tests.compatibility.core_operations.test_artifacts.TestOther" name="test_b"><failure/></testcase>
<testcase classname="tests.compatibility.grpc.test_streaming" name="test_c"><skipped/></testcase>
</testsuite></testsuites>"""


def test_each_failure_of_the_kit_of_a2a_needs_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "report.xml"
    file.write_text(REPORT)
    rows = list(conformance_a2a.rows_of("must", file))
    assert [(row.scenario, row.outcome) for row in rows] == [
        ("core_operations.test_artifacts", "passed"),
        ("artifacts.TestMessageResponse.test_returns_message_with_text_part[jsonrpc]", "failed"),
        ("artifacts.TestOther.test_b", "failed"),
    ]
    assert rows[0].checks == "1 passed, 2 failed: see below"
    assert surprises(rows, conformance_a2a.EXPECTED) == ["must: artifacts.TestOther.test_b failed"]


def test_the_checks_of_the_linter_of_acp_are_counted_by_category_and_each_failure_is_a_row() -> None:
    checks = [("streaming", "a", "PASS"), ("streaming", "prompt_stop_reason", "FAIL"), ("plans", "b", "ERROR")]
    results = [dict(zip(("category", "name", "status"), one, strict=True)) for one in checks]
    rows = list(conformance_acp.rows_of("acplint 0.1.0", {"results": results}))
    assert [(row.scenario, row.outcome, row.checks) for row in rows] == [
        ("streaming", "passed", "1 of 2: see below"),
        ("streaming.prompt_stop_reason", "failed", ""),
        ("plans.b", "failed", ""),
    ]
    assert surprises(rows, conformance_acp.EXPECTED)[:1] == ["acplint 0.1.0: plans.b failed"]


def test_our_spans_of_a_call_have_the_names_of_the_conventions() -> None:
    ours = {one["name"]: one for one in conformance_phoenix._own_spans()}
    kinds = {name: one["kind"] for name, one in ours.items() if not name.startswith("run ")}
    assert kinds.pop("chat m") == "CLIENT"
    assert kinds == dict.fromkeys(("invoke_workflow t", "invoke_agent a", "execute_tool lookup"), "INTERNAL")
    assert ours["chat m"]["attributes"]["gen_ai.usage.cache_read.input_tokens"] == 40


def test_without_its_checkout_the_kit_of_a2a_can_not_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(conformance_a2a.KIT, raising=False)
    with pytest.raises(Unavailable, match="a2a-tck"):
        list(conformance_a2a.run(""))


def test_each_failure_of_the_compliance_tests_needs_a_reason() -> None:
    found = [("basic-response", "passed"), ("streaming-response", "failed"), ("tool-calling", "failed")]
    report = {"results": [{"id": name, "status": status} for name, status in found]}
    rows = list(conformance_responses.rows_of(report))
    assert [(row.scenario, row.outcome) for row in rows] == found
    expected = conformance_responses.EXPECTED
    assert surprises(rows, expected) == [f"{conformance_responses.PART}: streaming-response failed"]


def test_without_their_checkout_the_compliance_tests_can_not_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(conformance_responses.CHECKOUT, raising=False)
    with pytest.raises(Unavailable, match="openresponses"):
        list(conformance_responses.run(""))


def test_a_task_of_bfcl_with_a_problem_is_a_row_that_needs_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    known, new = "multi_turn_miss_func_49", "multi_turn_miss_func_7"
    problems = {known: ["results: …"], new: ["state: …"], "other": []}
    rows = list(conformance_bfcl.rows_of(conformance_bfcl.PART, "miss_func", "tasks", problems))
    assert [(row.scenario, row.outcome) for row in rows] == [
        ("miss_func", "passed"),
        (known, "failed"),
        (new, "failed"),
    ]
    assert rows[0].checks == "1 of 3 tasks: see below"
    assert surprises(rows, conformance_bfcl.EXPECTED) == [f"{conformance_bfcl.PART}: {new} failed"]
    assert f"{new}: state: …" in capsys.readouterr().err


def test_a_harness_that_kills_nothing_does_not_pass() -> None:
    rows = conformance_bfcl.rows_of(conformance_bfcl.KILLED, "base", "kills of 5 tasks", {})
    assert [(row.outcome, row.checks) for row in rows] == [("failed", "0 of 0 kills of 5 tasks")]
