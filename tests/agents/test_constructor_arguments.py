"""Wrong values in Python are refused where they are written, in the words that a manifest gets."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright import (
    Confirm,
    Engine,
    FunctionAgent,
    Limits,
    ModelAgent,
    Plan,
    Policy,
    RetryPolicy,
    Rule,
    ScriptedAgent,
    Step,
    Team,
    run_sync,
)
from teamwright.agents import McpTool, as_tool, tool
from teamwright.agents.constructor_arguments import check_arguments, checked_call
from teamwright.errors import InvalidArguments, UsageError
from teamwright.values.events.run import RunStarted
from teamwright.values.specs.manifest import AgentSpec
from tests.teams.manifests.manifests import problems


def spoken(turn: object) -> str:
    return "hm"


MEMBER = FunctionAgent("m", spoken)
Maker = Callable[..., object]


def function_agent(**given: object) -> object:
    return FunctionAgent(**{"name": "a", "function": spoken, **given})  # pyright: ignore[reportArgumentType]


def model_agent(**given: object) -> object:
    return ModelAgent(**{"name": "a", "model": "openai:gpt-5", **given})  # pyright: ignore[reportArgumentType]


def scripted_agent(**given: object) -> object:
    return ScriptedAgent(**{"name": "a", "script": [Rule(reply="x")], **given})  # pyright: ignore[reportArgumentType]


def team(**given: object) -> object:
    return Team(**{"name": "t", "members": [MEMBER], **given})  # pyright: ignore[reportArgumentType]


def engine(**given: object) -> object:
    return Engine(**given)  # pyright: ignore[reportArgumentType]


AGENTS: list[Maker] = [function_agent, model_agent, scripted_agent]
EVERY_AGENT: list[tuple[dict[str, object], str]] = [
    ({"name": 3}, "name of the agent must be a text, and is 3"),
    ({"name": "no spaces"}, "'no spaces'"),
    ({"description": None}, "The agent 'a': description: expects text, found nothing"),
    ({"capabilities": "search"}, "capabilities: expects a list, found the text 'search'"),
    ({"capabilities": [3]}, "capabilities.0: expects text, found the number 3"),
    ({"timeout": 0}, "The agent 'a': timeout: must be more than 0, and 0 is not"),
    ({"timeout": "9"}, "timeout: expects a number, found the text '9'"),
    ({"timeout": math.nan}, "timeout: expects a finite number"),
    ({"output_schema": 3}, "schema of the output of 'a' must be a JSON Schema or a class, and is 3"),
    ({"input_schema": [3]}, "schema of the input of 'a'"),
    ({"policy": {}}, "The agent 'a' takes no 'policy': agents have no such setting"),
    ({"limits": 3}, "The agent 'a': limits: expects a mapping, found the number 3"),
    ({"limits": {"tokns": 3}}, r"limits.tokns: is not a field here \(did you mean 'tokens'\?\)"),
    ({"limits": {"tokens": "5"}}, "limits.tokens: expects a whole number, found the text '5'"),
    ({"limits": {"message": {"tokns": 3}}}, r"limits.message.tokns: is not a field here \(did you mean 'tokens'\?\)"),
    ({"retry": "never"}, "retry: expects a mapping"),
    ({"max_bytes": 3}, "The agent 'a': max_bytes: must be at least 1000, and 3 is not"),
    ({"too_long": "explode"}, "too_long"),
    ({"fallback": "other"}, "'other'"),
    ({"optional": "yes please"}, "optional: expects true or false"),
    ({"optional": True, "critical": True}, "optional and critical"),
    ({"timout": 3}, "takes no 'timout': did you mean 'timeout'"),
]
WITH_TOOLS: list[tuple[dict[str, object], str]] = [
    ({"tools": spoken}, r"The agent 'a': tools: expects a list, found a value of type 'function'; write  tools=\[…\]"),
    ({"tools": None}, "leave 'tools' out, or pass an empty list"),
    ({"tools": [3]}, "There is the number 3 among the tools: pass a function, an agent"),
    ({"tools": ["serch"]}, "There is no tool 'serch': pass the function itself, or write module:function"),
    ({"tools": ["workspac"]}, r"There is no tool 'workspac': did you mean 'workspace'\?"),
    ({"tools": [McpTool(command=("x",))]}, r"write  McpSpec\(mcp=…\)"),
    ({"tools": [lambda x: x]}, "A lambda has no name; give the tool one"),
    ({"instructions": 3}, "instructions.* 3"),
    ({"max_tokens": 0}, "max_tokens: must be at least 1, and 0 is not"),
    ({"max_tokens": True}, "max_tokens: expects a whole number, found true"),
    ({"max_tokens": 1.5}, "max_tokens: expects a whole number, found the number 1.5"),
]
CASES: list[tuple[Maker, dict[str, object], str]] = [
    *((make, given, why) for make in AGENTS for given, why in EVERY_AGENT),
    *((make, given, why) for make in (model_agent, scripted_agent) for given, why in WITH_TOOLS),
    (function_agent, {"function": 3}, "'a' can't be 3"),
    (function_agent, {"isolate": "moon"}, "isolate: is 'thread' or 'process'"),
    (model_agent, {"model": 3}, "model of the agent 'a' must be 'provider:name'"),
    (model_agent, {"model": ""}, "needs a model"),
    (model_agent, {"settings": {"temperature": 3}}, "temperature: must be at most 2, and 3 is not"),
    (model_agent, {"settings": {"temperature": "hot"}}, "temperature: expects a number, found the text 'hot'"),
    (model_agent, {"temperature": 0}, r"takes no 'temperature': write  settings=\{'temperature': …\}"),
    (model_agent, {"max_requests": "some"}, "max_requests: expects a whole number"),
    (model_agent, {"economy": 3}, "economy"),
    (model_agent, {"stronger": 3}, "stronger"),
    (model_agent, {"economy": b"x"}, "economy: expects text"),
    (model_agent, {"priority": True}, "priority: expects a whole number, found true"),
    (model_agent, {"check": 3}, "check"),
    (model_agent, {"compact": 3}, "compact"),
    (model_agent, {"handoffs": "other"}, "handoffs"),
    (model_agent, {"cache": "always"}, "cache: is 'auto' or 'off', and this is the text 'always'"),
    (model_agent, {"settings": {"topp": 1}}, "did you mean 'top_p'"),
    (model_agent, {"settings": 3}, "settings"),
    (model_agent, {"output_mode": "nativ"}, r"output_mode: is 'auto', 'native', .*\(did you mean 'native'\?\)"),
    (model_agent, {"max_requests": 0}, "max_requests: must be at least 1, and 0 is not"),
    (model_agent, {"max_requests": "5"}, "max_requests: expects a whole number, found the text '5'"),
    (model_agent, {"memory": 5}, "The agent 'a': memory: expects text, found the number 5"),
    (model_agent, {"compact": {"kep": 5}}, r"compact.kep: is not a field here \(did you mean 'keep'\?\)"),
    (model_agent, {"isolate": "process"}, "The agent 'a' is a model, which has no 'isolate'"),
    (function_agent, {"tools": [spoken]}, "The agent 'a' is a function, which has no 'tools'"),
    (
        function_agent,
        {"function": lambda: "x"},
        r"'a' must be a function \(turn\) or \(turn, ctx\); its parameters are \(\)",
    ),
    (scripted_agent, {"output_mode": "tool"}, "The agent 'a' is scripted, which has no 'output_mode'"),
    (model_agent, {"models": 3}, "models: expects a Models, found the number 3"),
    (scripted_agent, {"script": None}, "script: expects a list"),
    (scripted_agent, {"script": ["hello"]}, r"rules\.0"),
    (scripted_agent, {"price": 3}, "price: expects a Price"),
    (team, {"name": None}, "name of the team must be a text, and is None"),
    (team, {"members": MEMBER}, r"The team 't': members: expects a list.*write  members=\[…\]"),
    (team, {"members": []}, "has no members"),
    (team, {"members": ["m"]}, "'m'"),
    (team, {"helpers": 3}, "helpers: expects a list"),
    (team, {"strategy": "sequental"}, "did you mean 'sequential'"),
    (team, {"strategy": 3}, "3 is not a strategy"),
    (team, {"description": 3}, "The team 't': description: expects text"),
    (team, {"share": "everything"}, "share: is 'transcript'"),
    (team, {"envelope": 3}, "envelope: expects a"),
    (team, {"degradation": "sometimes"}, "degradation: is 'none'"),
    (team, {"max_turns": 0}, "max_turns: must be at least 1, and 0 is not"),
    (team, {"max_turns": "3"}, "max_turns: expects a whole number, found the text '3'"),
    (team, {"on_max_turns": "go on"}, "on_max_turns: is 'stop' or 'fail'"),
    (team, {"limits": "10"}, "The team 't': limits: expects a mapping"),
    (team, {"stratgy": "single"}, r"The team 't' takes no 'stratgy': did you mean 'strategy'\?"),
    (engine, {"jornal": "memory"}, r"The engine takes no 'jornal': did you mean 'journal'\?"),
    (Team, {"name": "t"}, "The team 't' needs 'members'"),
    (ModelAgent, {"name": "a"}, "The agent 'a' needs 'model'"),
    (ModelAgent, {"model": "local"}, "The agent needs 'name'"),
    (tool, {"function": spoken, "retries": 3}, r"The tool 'spoken' takes no 'retries': did you mean 'retry'\?"),
    (tool, {"function": spoken, "timeout": -1}, "The tool 'spoken': timeout: must be more than 0, and -1 is not"),
    (tool, {"function": "spoken"}, "A tool must be a function, not the text 'spoken'"),
    (tool, {"function": spoken, "check": 5}, "The check of the tool 'spoken' must be a function, not the number 5"),
    (tool, {"function": lambda x: x}, "A lambda has no name; give the tool one"),
    (as_tool, {"agent": MEMBER, "nam": "x"}, r"The tool takes no 'nam': did you mean 'name'\?"),
    (as_tool, {"agent": MEMBER, "description": 5}, "description: expects text, found the number 5"),
    (team, {"confirm": 3}, "confirm"),
    (team, {"confirm": {"tools": True}}, "no tools of its own"),
    (model_agent, {"confirm": {"above": {"usd": 1}}}, "not run by itself"),
    (team, {"retry": 3}, "retry"),
    (team, {"notify": "https://x"}, "notify: expects a Notify, found the text"),
    (team, {"options": [3]}, "options: expects a Mapping or a Value"),
    (team, {"output_schema": 3}, "schema of the answer of the team 't'"),
    (engine, {"journal": 3}, "'int' is no journal"),
    (engine, {"journal": ""}, "path is empty"),
    (engine, {"grace": -1}, "grace must be a number of at least 0, and is -1"),
    (engine, {"grace": math.inf}, "grace must be a number"),
    (engine, {"grace": "5"}, "grace must be a number"),
    (engine, {"wall": 3}, "wall must be a function"),
    (engine, {"seed": None}, "seed must be a function"),
    (engine, {"monotonic": 0}, "monotonic must be a function"),
    (engine, {"deps": 3}, r"The engine: deps: expects a list.*write  deps=\[…\]"),
    (Limits, {"tokens": -1}, "Limits: tokens: must be at least 0"),
    (Limits, {"tokens": True}, "Limits: tokens: expects a whole number, found true"),
    (Limits, {"tokens": "5"}, "Limits: tokens: expects a whole number, found the text '5'"),
    (Limits, {"usd": math.nan}, "usd"),
    (Limits, {"token": 5}, "did you mean 'tokens'"),
    (RetryPolicy, {"times": -1}, "times"),
    (RetryPolicy, {"backoff": "1"}, "backoff: expects a number"),
    (Policy, {"fallback": 3}, "3 is neither a team nor an agent"),
    (Policy, {"priority": "high"}, "priority: expects a whole number"),
    (Rule, {"reply": b"x"}, "reply: expects text"),
    (Rule, {"reply": "x", "times": 0}, "times: must be at least 1"),
    (Confirm, {"before": "maybe"}, "before"),
    (Step, {"id": 3}, "id: expects text"),
    (Plan, {"steps": []}, "steps: is empty"),
]


@pytest.mark.parametrize(("make", "given", "why"), CASES)
def test_a_wrong_value_is_refused_at_construction_in_our_words(make: Maker, given: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        make(**given)
    said = str(raised.value)
    for words in ("Input should", "validation error", "errors.pydantic.dev", "input_value"):
        assert words not in said


def test_every_mistake_of_a_call_is_reported_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        model_agent(
            modle="x",
            model="opena:x",
            instructions=5,
            check={"input": lambda: None, "output": 3},
            max_tokens=0,
            max_requests=0,
            settings={"topp": 1},
            input_schema={"type": "objct"},
            optional=True,
            critical=True,
            limits={"tokns": 1},
            memory="a b",
            tools=[3, "serch"],
        )
    parts = (
        "takes no 'modle'", "no provider 'opena'", "its instructions must be", "check.input must", "check.output must",
        "max_tokens: must", "max_requests: must", "'topp' is no setting", "schema of the input",
        "optional and critical", "limits.tokns", "'a b' is no name", "number 3 among the tools", "no tool 'serch'",
    )  # fmt: skip
    for part in parts:
        assert part in str(raised.value)
    assert len(raised.value.reasons) == 13


def test_mistakes_of_a_team_and_of_a_tool_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        team(members=[3, "m"], strategy="sequental", max_turns=0, limits={"tokens": -1}, attachments="x.png", color=1)
    for part in (
        "3 is neither",
        "'m' is neither",
        "'sequential'",
        "max_turns",
        "limits.tokens",
        "attachments",
        "color",
    ):
        assert part in str(raised.value)
    with pytest.raises(
        UsageError, match=r"(?s)no parameter 'x'.*no parameter 'y'.*The check of the tool 'spoken' takes 'z'"
    ):
        tool(spoken, once=["x", "y"], check=lambda z: None)


def test_a_type_error_inside_a_constructor_is_not_reworded() -> None:
    @checked_call("thing")
    def make(name: str) -> None:
        len(3)  # pyright: ignore[reportArgumentType]

    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)"):
        make("x")
    with pytest.raises(InvalidArguments, match="The thing 'y' got 'name' twice"):
        make("x", name="y")  # pyright: ignore[reportCallIssue]


LIMITS: list[tuple[str, object]] = [
    ("tokens", -1), ("tokens", 1.5), ("usd", -1), ("usd", "x"), ("calls", -1), ("seconds", 0), ("tokns", 1),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), LIMITS)
def test_limits_are_refused_in_the_words_of_a_manifest(tmp_path: Path, field: str, value: object) -> None:
    (problem,) = problems(tmp_path, f"agents: {{a: {{model: local, limits: {{{field}: {value}}}}}}}")
    said = f"{problem.message.removeprefix('agent ')} ({problem.suggestion})".removesuffix(" ()")
    for make in AGENTS:
        with pytest.raises(UsageError) as raised:
            make(limits={field: value})
        words = str(raised.value).removeprefix("The agent ").removesuffix(".")
        assert words.replace(f"limits.{field}:", f"'{field}'") == said
    with pytest.raises(UsageError) as raised:
        Limits(**{field: value})  # pyright: ignore[reportArgumentType]
    assert str(raised.value).removesuffix(".").replace(f"Limits: {field}:", f"'a': '{field}'") == said


async def test_what_a_run_is_given_is_checked_before_it_starts() -> None:
    wrong: list[tuple[dict[str, object], str]] = [
        ({"task": 3}, "task must be a text, and is 3"),
        ({"limits": 3}, "The run: limits: expects a Limits, found the number 3"),
        ({"limits": {"tokns": 3}}, r"The run: limits\.tokns: .* \(did you mean 'tokens'\?\)"),
        ({"confirm": {"usd": "x"}}, r"The run: confirm\.usd: "),
        ({"limit": Limits(), "run": 3}, r"(?s)The run takes no 'limit': did you mean 'limits'\?.*takes no 'run'"),
        ({"history": ["hello"]}, "history must be a list of Message"),
        ({"run_id": 3}, "name of the run must be a text"),
        ({"team": 3}, "3 is neither a team nor an agent"),
    ]
    async with Engine("memory") as opened:
        for given, why in wrong:
            with pytest.raises(UsageError, match=why):
                await opened.run(**{"team": MEMBER, "task": "go", **given})  # pyright: ignore[reportArgumentType]
        assert not await opened.runs.list()


async def test_a_run_takes_the_fields_of_its_settings_as_agents_do() -> None:
    async with Engine("memory") as opened:
        result = await opened.run(MEMBER, "go", limits={"tokens": 3}, run_id="r")  # pyright: ignore[reportArgumentType]
        assert result.status == "completed"
        begun = (await opened.journal.read("r"))[0].fact
        assert isinstance(begun, RunStarted)
        assert begun.limits == Limits(tokens=3).bounds
        fork = await opened.fork("r", at=1, new_id="f", limits={"tokens": 4})  # pyright: ignore[reportArgumentType]
        assert fork.status == "completed"


def test_a_team_takes_the_fields_of_its_settings_as_agents_do() -> None:
    given = {
        "envelope": {"length": 300},
        "notify": {"webhook": "http://localhost:1"},
        "confirm": {"above": {"usd": 1.0}},
        "limits": {"tokens": 3},
    }
    declared = Team("t", members=[MEMBER], share="a2a_lite", **given).spec  # pyright: ignore[reportArgumentType]
    assert {name: getattr(declared, name).model_dump(exclude_unset=True) for name in given} == given
    with pytest.raises(UsageError, match=r"(?s)confirm\.above\.usd.*notify\.webhok") as raised:
        Team("t", members=[MEMBER], notify={"webhok": ""}, confirm={"above": {"usd": -1}})  # pyright: ignore[reportArgumentType]
    assert "envelope" not in str(raised.value)


def test_a_call_with_a_misspelt_argument_runs_nothing() -> None:
    called: list[str] = []
    with pytest.raises(InvalidArguments, match="The run takes no 'limit': did you mean 'limits'"):
        run_sync(FunctionAgent("a", called.append), "go", limit=Limits())  # pyright: ignore[reportCallIssue]
    with pytest.raises(InvalidArguments, match="The run needs 'task'"):
        run_sync(FunctionAgent("a", called.append))  # pyright: ignore[reportCallIssue]
    assert called == []


def test_every_wrong_argument_is_named_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        model_agent(max_tokens=0, timeout=-1, description=None)
    assert all(name in str(raised.value) for name in ("max_tokens", "timeout", "description"))


def test_lists_and_tuples_are_equally_good() -> None:
    for make in AGENTS:
        assert make(capabilities=["a", "b"]).capabilities == ("a", "b")  # pyright: ignore[reportAttributeAccessIssue]


def test_defaults_are_not_validated() -> None:
    check_arguments("The agent 'a'", AgentSpec, description="", capabilities=(), timeout=None, isolate="thread")
