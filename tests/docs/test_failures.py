"""`docs/reference/failures.md` is true: its kinds are those of the code, and its policies do what its table says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from teamwright import FunctionAgent, RetryPolicy, RunResult, Team, run_sync
from teamwright.errors import AgentError, ServiceError
from teamwright.strategies.part_results import FailurePolicy
from teamwright.strategies.plan.options import RUNGS, PlanOptions
from teamwright.strategies.registry import find_strategy, strategy_names
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "reference" / "failures.md").read_text(encoding="utf-8")
NOT_RETRIED = RetryPolicy(times=0)


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, cell by cell."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`([a-z_]+)`", cell)


def errors(kind: type[AgentError] = AgentError) -> Iterator[type[AgentError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from errors(one)


def test_every_kind_of_error_is_listed_and_retried_as_it_says() -> None:  # P-10
    listed = {name: row[2] for row in rows("Kinds of failures") for name in names(row[0])}
    ours = [one for one in errors() if one.__module__ == "teamwright.errors"]
    assert {one.kind for one in ours} - set(listed) == set()
    assert {one.kind for one in ours if one.retryable} == {name for name, retried in listed.items() if retried == "yes"}


@pytest.mark.experts
def test_every_strategy_with_a_policy_is_listed_with_its_words() -> None:
    listed = {name: row[1] for row in rows("What a failed ask does to the team") for name in names(row[0])}
    policies = get_args(FailurePolicy.model_fields["on_failure"].annotation)
    for name in strategy_names():
        options = find_strategy(name).options
        field = None if options is None else options.model_fields.get("on_failure")
        words = listed.get(name, "")
        if field is None:
            assert words == "", name
        else:
            assert set(policies) <= {*names(words)}, name
            assert issubclass(options or object, PlanOptions) == ("a ladder" in words), name
            if isinstance(field.default, tuple):
                assert words.startswith("a ladder (default)"), name
                assert all(rung in words for rung in RUNGS), name
            else:
                assert words.startswith(f"`{field.default}` (default)"), name


def failing(turn: object) -> str:
    raise ServiceError("no connection")


def run(strategy: str, options: dict[str, Any]) -> RunResult:
    """Run a team of this strategy, in which the first member fails and the second one does not."""
    members = [FunctionAgent("bad", failing, retry=NOT_RETRIED), FunctionAgent("good", lambda turn: "fine")]
    asked = iter(
        [
            {"action": "delegate", "delegations": [{"specialist": "bad", "task": "x"}]},
            {"action": "synthesize", "synthesis": "done"},
            {"action": "synthesize", "synthesis": "done"},
        ]
    )
    helpers = [FunctionAgent("lead", lambda turn: next(asked))] if strategy == "hierarchical" else []
    team = Team("t", members=members, helpers=helpers, strategy=strategy, options=options)
    return run_sync(team, "Go.", journal="memory")


OPTIONS: dict[str, dict[str, Any]] = {
    "fan_out": {"chunks": ["x", "y"]},
    "dag": {"steps": [{"id": "one", "agent": "bad", "task": "x"}, {"id": "two", "agent": "good", "task": "y"}]},
    "hierarchical": {"lead": "lead"},
    "reactive": {"subscriptions": [{"agent": name, "on": "workflow.started"} for name in ("bad", "good")]},
}


@pytest.mark.parametrize("strategy", OPTIONS)
@pytest.mark.parametrize(("policy", "status"), [("fail", "failed"), ("skip", "degraded"), ("collect", "degraded")])
def test_a_failure_ends_a_team_or_is_a_warning_as_the_table_says(strategy: str, policy: str, status: str) -> None:
    result = run(strategy, {**OPTIONS[strategy], "on_failure": policy})
    assert result.status == status, (result.output, result.warnings)
    assert (status == "failed") or any("bad" in warning for warning in result.warnings)


def test_without_a_policy_the_team_fails_and_keeps_its_messages() -> None:
    members = [FunctionAgent("good", lambda turn: "fine"), FunctionAgent("bad", failing, retry=NOT_RETRIED)]
    result = run_sync(Team("t", members=members), "Go.", journal="memory")
    assert (result.status, [message.content for message in result.messages]) == ("failed", ["fine"])


@pytest.mark.experts
def test_while_a_server_is_down_a_step_makes_as_many_calls_as_the_page_says() -> None:
    calls: list[object] = []

    def down(turn: object) -> str:
        calls.append(turn)
        raise ServiceError("no connection")

    patient = FunctionAgent("a", down, retry=RetryPolicy(times=3, backoff=0.001))
    options: dict[str, Any] = {"steps": [{"id": "one", "agent": "a", "task": "x"}]}
    result = run_sync(Team("t", members=[patient], strategy="expert", options=options), "Go.", journal="memory")
    said = re.search(r"\+ 1 with the economy model: (\d+) calls by default", " ".join(PAGE.split()))
    assert said is not None
    assert result.status == "failed"
    assert len(calls) == int(said[1]) - 2, "a function has neither a stronger nor an economy model"
