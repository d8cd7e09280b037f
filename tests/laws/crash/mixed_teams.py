"""Teams of the crash matrix that combine people, failures, shared values and nested strategies."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from pydantic import JsonValue

from teamwright.teams.team import Team
from teamwright.testing.model_server import ChatRequest
from tests.laws.crash.http_members import FAILED, http_member, http_members, workspace_member
from tests.laws.program import program_team

Says = Callable[[ChatRequest, int], str]
"""The answer of the server to a request, by how often it was received."""

DECISIONS: list[dict[str, JsonValue]] = [
    {"action": "delegate", "delegations": [{"specialist": "a", "task": "one"}, {"specialist": "b", "task": "two"}]},
    {"action": "clarify", "question": "Is that all?"},
    {
        "action": "delegate",
        "delegations": [{"specialist": "pair", "task": "three"}, {"specialist": "a", "task": "four"}],
    },
]


def hierarchical(url: str) -> Team:
    """Two specialists at once, a question to a person, a team and a member at once, and then the synthesis."""
    pair = Team("pair", members=http_members(url, "c d"), share="output")
    members = [*http_members(url, "a b"), pair]
    options: dict[str, JsonValue] = {"lead": "boss", "max_iterations": 5}
    return Team("office", members=members, helpers=http_members(url, "boss"), strategy="hierarchical", options=options)


def decision(request: ChatRequest, times: int) -> str:
    """Answer by the number of the decision; the last one is derived from the request."""
    number = re.search(r"This is decision (\d+)", _told(request))
    assert number is not None
    place = int(number[1]) - 1
    last: dict[str, JsonValue] = {"action": "synthesize", "synthesis": f"from {request.digest}"}
    return json.dumps(DECISIONS[place] if place < len(DECISIONS) else last)


def owners(url: str) -> Team:
    """Steps that share files, one of them a team whose own steps do; the longest critical path goes first."""
    inner: list[JsonValue] = [{"id": "c", "owns": ["src/one"]}, {"id": "d", "owns": ["src/**"]}]
    pair = Team("pair", members=http_members(url, "c d"), strategy="dag", options={"steps": inner})
    steps: list[JsonValue] = [
        {"id": "a", "owns": ["docs", "src/two"]},
        {"id": "b", "owns": ["docs"], "execution_tokens": 9},
        {"id": "pair", "owns": ["src"]},
        {"id": "e", "owns": ["tests"]},
        {"id": "z", "needs": ["a", "b", "pair", "e"], "owns": ["docs"]},
    ]
    members = [*http_members(url, "a b e z"), pair]
    return Team("owners", members=members, strategy="dag", options={"steps": steps, "max_parallel": 2})


def reactive(url: str) -> Team:
    """A member that fails, one that handles the failure, and one that would react forever without a limit."""
    subscriptions: list[JsonValue] = [
        {"agent": "a", "on": "workflow.started", "emits": [{"type": "go"}]},
        {"agent": "b", "on": "go", "emits": [{"type": "go"}]},
        {"agent": "bad", "on": "go", "when": "depth == 1"},
        {"agent": "d", "on": "agent.error", "when": "data.member == 'bad'"},
    ]
    options: dict[str, JsonValue] = {"subscriptions": subscriptions, "max_events": 4}
    return Team("network", members=http_members(url, "a b bad d"), strategy="reactive", options=options)


def refusal(request: ChatRequest, times: int) -> str:
    return f"{FAILED}refused"


def recovery(url: str) -> Team:
    """Members that are retried, summarised, replaced by a fallback, skipped, and skipped by a person."""
    members = [
        http_member(url, "flaky"),
        http_member(url, "a"),
        http_member(url, "long"),
        http_member(url, "bad", fallback=http_member(url, "stand-in")),
        http_member(url, "bad-too", optional=True),
        http_member(url, "badly-needed", critical=True),
        http_member(url, "z"),
    ]
    return Team("patient", members=members)


def _too_long(request: ChatRequest, times: int) -> str:
    told = _told(request)
    as_it_is = "# flaky:" in told and not told.startswith("Summarise")
    return f"{FAILED}context_length" if as_it_is else f"in short {request.digest}"


TROUBLES: Mapping[str, Says] = {
    "flaky": lambda request, times: f"{FAILED}server" if times == 1 else "at last",
    "long": _too_long,
    "bad": refusal,
    "bad-too": refusal,
    "badly-needed": refusal,
}


def workspace(url: str) -> Team:
    """A strategy and then two members that write concurrently, with stale writes."""
    strategy = ["all", 2, ["swap", "board", ["ask", "a"]], ["swap", "board", ["ask", "b"]]]
    members = ["all", 2, ["ask", "x"], ["ask", "y"]]
    writers = [workspace_member(url, name, "board") for name in ("x", "y")]
    return program_team("shared", ["seq", strategy, members, ["ask", "z"]], [*http_members(url, "a b z"), *writers])


def mixed(url: str) -> Team:
    """A graph of a plan whose steps are concurrent chunks, and of a member that judges the result."""
    one = Team(
        "one", members=http_members(url, "a b"), strategy="fan_out", options={"chunks": ["x", "y"], "max_parallel": 2}
    )
    two = Team(
        "two", members=http_members(url, "c"), strategy="fan_out", options={"chunks": ["x", "y"], "max_parallel": 1}
    )
    steps: list[JsonValue] = [{"id": "one"}, {"id": "two"}, {"id": "d", "needs": ["one", "two"]}]
    plan = Team("plan", members=[one, two, http_member(url, "d")], strategy="dag", options={"steps": steps})
    edges: list[JsonValue] = [{"from": "plan", "to": "z", "task": "Judge {{ text }}"}]
    return Team("mixed", members=[plan, http_member(url, "z")], strategy="graph", options={"edges": edges})


def a2a_lite(url: str) -> Team:
    """Two long replies at once, one of them too risky to pass on without the lead, and a team beside them."""
    pair = Team("pair", members=http_members(url, "c d"), share="a2a_lite")
    options: dict[str, JsonValue] = {"lead": "chief", "max_iterations": 5}
    return Team(
        "lite", members=[*http_members(url, "a b"), pair], helpers=http_members(url, "chief"), strategy="hierarchical",
        options=options, share="a2a_lite",
    )  # fmt: skip


def _chief(request: ChatRequest, times: int) -> str:
    told = _told(request)
    if "reports high risk" in told:
        return json.dumps({"decision": "approve", "note": f"as {request.digest} says"})
    work = [{"specialist": name, "task": f"do {name}"} for name in ("a", "b", "pair")]
    if "This is decision 1" in told:
        return json.dumps({"action": "delegate", "delegations": work})
    return json.dumps({"action": "synthesize", "synthesis": f"from {request.digest}"})


def _at_length(risk: str) -> Says:
    def says(request: ChatRequest, times: int) -> str:
        note = {"status": "done", "risk_level": risk, "summary": f"In short it is {request.digest}"}
        return f"{request.digest} at length {'and so on ' * 40}\n```envelope\n{json.dumps(note)}\n```"

    return says


HANDING: Mapping[str, Says] = {
    "chief": _chief, "a": _at_length("high"), "b": _at_length("low"), "c": _at_length("low"),
}  # fmt: skip


def _told(request: ChatRequest) -> str:
    return str(request.body.get("prompt"))
