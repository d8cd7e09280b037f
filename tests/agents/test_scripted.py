"""Scripted models: first match that is not used up, counted per agent, the same after a crash."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from teamwright.agents.scripted import Rule, Script, ScriptedAgent, ToolRule, unused_rules
from teamwright.errors import InvalidInput, InvalidOutput, InvalidValue, ManifestError, ScriptMismatch
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.event import Delta
from teamwright.values.limits import Limits
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording
from tests.kit.records import cut_and_resume

NUMBER: JsonSchema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
AT_ONCE = RetryPolicy(times=2, backoff=0.0)


def rules(*given: dict[str, Any]) -> Script:
    return Script.model_validate({"rules": given})


def round_robin(script: Script, *names: str, rounds: int = 1, **settings: Any) -> Team:
    members = [ScriptedAgent(name, script, retry=AT_ONCE, **settings) for name in names]
    return Team("t", members=members, strategy="round_robin", max_turns=rounds)


async def run(team: Team, task: str = "go") -> RunResult:
    async with Engine("memory") as engine:
        return await engine.run(team, task)


def texts(result: RunResult) -> list[str]:
    return [message.content for message in result.messages]


async def test_the_first_rule_that_matches_answers() -> None:
    script = rules(
        {"agent": "other", "reply": "for another"},
        {"match": "never said", "reply": "no match"},
        {"agent": "wri*", "match": r"g[ou]", "reply": "this one"},
        {"reply": "too late"},
    )
    assert texts(await run(round_robin(script, "writer"))) == ["this one"]


async def test_a_rule_that_is_used_up_is_passed_over() -> None:
    script = rules({"reply": "once", "times": 1}, {"reply": "twice", "times": 2}, {"reply": "ever after"})
    assert texts(await run(round_robin(script, "a", rounds=5))) == [
        "once",
        "twice",
        "twice",
        "ever after",
        "ever after",
    ]


async def test_each_agent_has_its_own_count() -> None:
    script = rules({"reply": "first", "times": 1}, {"reply": "second", "times": 1})
    assert texts(await run(round_robin(script, "a", "b", rounds=2))) == ["first", "first", "second", "second"]


async def test_a_rule_is_matched_against_the_whole_prompt() -> None:
    script = rules({"agent": "b", "match": r"# a:\nhello", "reply": "heard it"}, {"agent": "a", "reply": "hello"})
    assert texts(await run(round_robin(script, "a", "b"))) == ["hello", "heard it"]


async def test_no_match_shows_what_was_asked_and_the_nearest_rule() -> None:
    script = rules({"agent": "b", "reply": "x"}, {"agent": "a", "match": "Compare trees", "reply": "y", "times": 3})
    result = await run(round_robin(script, "a"), "Compare the trees")
    assert result.failure is not None
    assert result.failure.error == "script"
    for part in ("no rule for 'a'", "Compare the trees", "rule 2: agent 'a', match 'Compare trees', at most 3 times"):
        assert part in result.failure.message


async def test_a_long_prompt_is_shown_by_its_end() -> None:
    with pytest.raises(ScriptMismatch) as raised:
        await ScriptedAgent("a", Script()).respond(Turn("x" * 1000 + " the end"), Recording().ctx)
    assert "the end" in str(raised.value)
    assert "the script has no rules" in str(raised.value)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize("kind", ["rate_limit", "timeout", "server"])
async def test_an_error_that_may_pass_is_tried_again_with_the_next_rule(kind: str) -> None:
    script = rules({"error": kind, "times": 1}, {"reply": "recovered"})
    async with Engine("memory") as engine:
        result = await engine.run(round_robin(script, "a"), "go", run_id="r")
        failed = [e.fact for e in await engine.journal.read("r") if isinstance(e.fact, AgentCallFailed)]
    assert texts(result) == ["recovered"]
    assert [(fact.error, fact.mark) for fact in failed] == [(kind, "rule-1")]


@pytest.mark.parametrize("kind", ["context_length", "refused"])
async def test_an_error_that_cannot_pass_fails_the_turn(kind: str) -> None:
    result = await run(round_robin(rules({"error": kind}), "a"))
    assert result.failure is not None
    assert result.failure.error == kind


async def test_an_error_that_never_passes_is_given_up() -> None:
    async with Engine("memory") as engine:
        result = await engine.run(round_robin(rules({"error": "server"}), "a"), "go", run_id="r")
        calls = [e for e in await engine.journal.read("r") if e.kind == "agent.called"]
    assert result.status == "failed"
    assert len(calls) == 3


async def test_a_delayed_reply_comes_in_pieces() -> None:
    team = Team("t", members=[ScriptedAgent("a", [Rule(reply="hello there", delay=0.05)])])
    async with Engine("memory") as engine:
        pieces = [item.text async for item in engine.stream(team, "go") if isinstance(item, Delta)]
    assert len(pieces) > 1
    assert "".join(pieces) == "hello there"


async def test_json_and_empty_replies() -> None:
    result = await run(
        round_robin(rules({"json": {"n": 1}, "times": 1}, {"json": None, "times": 1}, {"reply": ""}), "a", rounds=3)
    )
    assert texts(result) == ['{"n":1}', "null", ""]


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def test_tools_are_really_called_and_their_result_is_returned() -> None:
    script = rules(
        {"tool": {"name": "double", "args": {"n": 4}}, "times": 1},
        {"match": r"# tool double:\n8", "reply": "it is eight"},
    )
    assert texts(await run(round_robin(script, "a", tools=[double]))) == ["it is eight"]


async def test_a_tool_that_fails_is_reported_and_the_script_continues() -> None:
    script = rules(
        {"tool": {"name": "dubble", "args": {}}, "times": 1}, {"match": "tool dubble failed", "reply": "no such tool"}
    )
    assert texts(await run(round_robin(script, "a", tools=[double]))) == ["no such tool"]


@pytest.mark.parametrize(("tools", "told"), [([double], "did you mean 'double'?"), ([], "it has none.")])
async def test_a_tool_that_is_not_there_is_a_mistake_of_the_script(tools: list[Any], told: str) -> None:
    result = await run(round_robin(rules({"reply": "x", "agent": "b"}, {"tool": {"name": "dubble"}}), "a", tools=tools))
    assert result.failure is not None
    assert (result.failure.error, result.usage.requests) == ("script", 1)  # it gets the notice once, as a model does
    assert f"Rule 2 calls the tool 'dubble', which 'a' does not have; {told}" in result.failure.message


async def test_a_script_that_only_calls_tools_is_stopped() -> None:
    result = await run(round_robin(rules({"tool": {"name": "double", "args": {"n": 1}}}), "a", tools=[double]))
    assert result.failure is not None
    assert "without an answer" in result.failure.message


@pytest.mark.parametrize("args", [{"response": "the end"}, {}, {"response": 5}, {"wrong": "x"}])
async def test_terminate_ends_the_team_well_whatever_its_arguments(args: dict[str, object]) -> None:
    script = rules({"agent": "a", "tool": {"name": "terminate", "args": args}}, {"reply": "never"})
    result = await run(round_robin(script, "a", "b", rounds=3, tools=["terminate"]))
    said = ["the end"] if args == {"response": "the end"} else []
    assert (result.status, result.stop_reason) == ("completed", "terminated")
    assert [message.content for message in result.messages] == said


async def test_terminate_without_a_response_leaves_the_last_thing_said_as_output() -> None:  # M-06
    script = rules({"agent": "b", "tool": {"name": "terminate"}}, {"agent": "a", "reply": "what a said"})
    result = await run(round_robin(script, "a", "b", rounds=3, tools=["terminate"]))
    assert (result.stop_reason, result.output) == ("terminated", "what a said")
    assert texts(result) == ["what a said"]


async def test_terminate_is_a_tool_that_an_agent_must_have() -> None:
    script = rules({"tool": {"name": "terminate"}, "times": 1}, {"match": "terminate failed", "reply": "went on"})
    assert texts(await run(round_robin(script, "a"))) == ["went on"]


async def test_both_schemas_hold() -> None:  # P-01
    agent = ScriptedAgent("a", rules({"reply": "no json"}), input_schema=NUMBER, output_schema=NUMBER)
    with pytest.raises(InvalidInput, match="The task of 'a'"):
        await agent.respond(Turn("hello"), Recording().ctx)
    with pytest.raises(InvalidOutput, match="The reply of 'a'"):
        await agent.respond(Turn('{"n": 1}'), Recording().ctx)
    fine = ScriptedAgent("a", rules({"json": {"n": 3}}), output_schema=NUMBER)
    assert (await fine.respond(Turn("x"), Recording().ctx)).data == {"n": 3}


async def test_a_reply_beyond_the_cap_is_cut_and_marked() -> None:
    async with Engine("memory") as engine:
        team = Team("t", members=[ScriptedAgent("a", [Rule(reply="x" * 100)], max_tokens=5)])
        result = await engine.run(team, "go", run_id="r")
        returned = [e.fact for e in await engine.journal.read("r") if isinstance(e.fact, AgentReturned)]
    assert result.output == "x" * 20
    assert [fact.truncated for fact in returned] == [True]


async def test_a_timeout_covers_the_delay() -> None:
    agent = ScriptedAgent("a", [Rule(reply="late", delay=30)], timeout=0.05, retry=RetryPolicy(times=0))
    result = await run(Team("t", members=[agent]))
    assert result.failure is not None
    assert result.failure.error == "timeout"


async def test_who_gets_what_is_the_same_after_a_crash_anywhere() -> None:
    script = rules(
        {"error": "server", "times": 1}, {"reply": "one", "times": 1}, {"reply": "two", "times": 1}, {"reply": "x"}
    )
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(round_robin(script, "a", "b", rounds=3), "go", run_id="r")
    assert texts(whole) == ["one", "one", "two", "two", "x", "x"]
    for at in range(2, len(await journal.read("r"))):
        result, _ = await cut_and_resume(round_robin(script, "a", "b", rounds=3), at, journal)
        assert texts(result) == texts(whole)


async def test_two_runs_of_one_team_do_not_take_each_others_rules() -> None:
    team = Team("t", members=[ScriptedAgent("a", [Rule(reply="mine", times=1, delay=0.1)])])
    async with Engine("memory") as engine:
        handles = [await engine.start(team, "go"), await engine.start(team, "go")]
        results = [await handle.result() for handle in handles]
    assert [result.output for result in results] == ["mine", "mine"]


def strict(*given: dict[str, Any]) -> Script:
    return Script.model_validate({"rules": given, "strict": True})


async def test_a_strict_script_with_rules_left_over_fails_the_run() -> None:
    script = strict({"reply": "x"}, {"agent": "b", "reply": "y", "times": 2})
    result = await run(round_robin(script, "a"))
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert texts(result) == ["x"]
    assert result.failure is not None
    assert result.failure.error == "script"
    assert "rule 2 for 'b' was used 0 of 2 times" in result.failure.message
    assert "rule 1" not in result.failure.message


async def test_a_strict_script_that_is_used_up_is_fine() -> None:
    script = strict(
        {"agent": "a", "reply": "x"}, {"agent": "b", "error": "server", "times": 2}, {"agent": "b", "reply": "y"}
    )
    assert (await run(round_robin(script, "a", "b"))).status == "completed"


async def test_another_failure_is_not_hidden_by_left_over_rules() -> None:
    result = await run(round_robin(strict({"error": "refused"}, {"reply": "left"}), "a"))
    assert result.failure is not None
    assert result.failure.error == "refused"


@pytest.mark.parametrize("enough", [True, False])
async def test_a_crash_does_not_change_the_verdict_on_a_strict_script(enough: bool) -> None:
    script = strict({"error": "server", "times": 1}, {"reply": "one", "times": 2 if enough else 3})
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(round_robin(script, "a", rounds=2), "go", run_id="r")
        read = await engine.runs.result("r")
    assert whole.status == ("completed" if enough else "failed")
    assert (read.status, read.failure, read.messages) == (
        whole.status,
        whole.failure.changed(messages=()) if whole.failure else None,
        whole.messages,
    )
    for at in range(2, len(await journal.read("r"))):
        result, _ = await cut_and_resume(round_robin(script, "a", rounds=2), at, journal)
        assert (result.status, texts(result)) == (whole.status, texts(whole))


def test_left_over_rules_are_counted_over_all_agents_of_a_script() -> None:
    shared = strict({"reply": "x", "times": 2})
    agents = [ScriptedAgent("a", shared), ScriptedAgent("b", shared), ScriptedAgent("c", Script())]
    assert unused_rules(agents, lambda name, mark: 1) == []
    assert unused_rules(agents, lambda name, mark: int(name == "a")) == ["rule 1 for '*' was used 1 of 2 times"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello", "1:1: This is not a script of replies: a script is a list of rules"),
        ("a: [", "This is not YAML"),
        ("rules: 5", "1:1: This is not a script of replies"),
        ("rules: []\nstrikt: true", "2:1: 'strikt' is not a part of a script (did you mean 'strict'?)"),
        ("- reply: x\n---\n- reply: y", "3:1: A script is one document, and this is a second one"),
        ("- 5", "1:1: This is not a script of replies"),
        ("- {reply: x}\n- {reply: x, json: 1}", "2:3: rule 2: a rule needs exactly one of"),
        ("- {match: x}", "1:3: rule 1: a rule needs exactly one of"),
        ("- {reply: x, times: 0}", "1:21: rule 1: 'times' must be at least 1, and 0 is not"),
        ("- {reply: x}\n- repl: a", "2:3: rule 2: 'repl' is not a field here (did you mean 'reply'?)"),
        ("- {error: timeuot}", "1:11: rule 1: 'error' is "),
        ("- {error: timeuot}", "(did you mean 'timeout'"),
        ("- {reply: 5}", "1:11: rule 1: 'reply' expects text, found the number 5 (put it in quotes"),
        ("- {tool: {args: {}}}", "rule 1: 'name' is missing"),
        ("- {reply: x, match: '('}", "1:21: rule 1: match is not a regular expression"),
        ("- {reply: x, match: 'a{99999999999}'}", "rule 1: match is not a regular expression"),
        ("- {reply: x, delay: .inf}", "1:21: .inf is not a finite number"),
        ("- {reply: x, delay: .nan}", "1:21: .nan is not a finite number"),
        ("- {reply: x, delay: -1}", "1:21: rule 1: 'delay' must be at least 0, and -1 is not"),
        ("- {json: {a: [.nan]}}", "1:15: .nan is not a finite number"),
        ("- {json: {1: a}}", "1:11: A key must be text, and this is the number 1"),
        ("rules: []\nrules: []", "2:1: The key 'rules' is duplicated"),
        ("- &a [*a]", "1:7: *a is used inside its own anchor"),
        ("[" * 500, "nested more than 50 levels deep"),
    ],
)
def test_a_mistake_in_a_script_is_reported_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(ManifestError) as raised:
        Script.load(path)
    assert len(raised.value.problems) == 1
    assert str(path) in str(raised.value)
    assert told in str(raised.value)


def test_every_mistake_of_a_script_is_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("strict: maybe\nrules:\n- {repl: a}\n- {}\n- {reply: x, delay: .inf}\n- {reply: x, match: '['}\n")
    with pytest.raises(ManifestError) as raised:
        Script.load(path)
    assert [(one.line, one.column) for one in raised.value.problems] == [(1, 9), (3, 4), (4, 3), (5, 21), (6, 21)]


def test_words_and_numbers_are_read_as_in_manifests(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("- reply: yes\n- reply: 12:30\n- json: [on, 010, 1e3, 2026-01-02]\n")
    first, second, third = Script.load(path).rules
    assert (first.reply, second.reply) == ("yes", "12:30")
    assert third.data == ["on", "010", 1000.0, "2026-01-02"]


@pytest.mark.parametrize("delay", [math.inf, math.nan, -1.0])
def test_a_delay_is_a_number_of_seconds(delay: float) -> None:
    with pytest.raises(InvalidValue):
        Rule(reply="x", delay=delay)


@pytest.mark.parametrize(
    "text", ["0o14", "1e5", "0x1f", ".inf", "~", "yes", "12:30", "", " x ", "'", "a: b", "\x1b[0m"]
)
def test_any_text_can_be_written_and_read(tmp_path: Path, text: str) -> None:
    script = Script.model_validate({"rules": [{"reply": text}, {"json": {text or "k": text}}]})
    path = tmp_path / "script.yaml"
    path.write_text(script.to_yaml(), encoding="utf-8")
    assert Script.load(path) == script


def test_a_script_without_rules_can_be_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(Script().to_yaml(), encoding="utf-8")
    assert Script.load(path) == Script()


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    lines = ["- json: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"- json: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    (tmp_path / "script.yaml").write_text("\n".join(lines))
    with pytest.raises(ManifestError, match="aliases"):
        Script.load(tmp_path / "script.yaml")


def test_a_file_that_is_missing_or_no_text_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="There is no such file"):
        Script.load(tmp_path / "none.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match="not UTF-8 text"):
        Script.load(tmp_path / "bytes.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (tmp_path, tmp_path / "pipe.yaml"):
        with pytest.raises(ManifestError, match="not a regular file"):
            Script.load(path)


def test_a_script_is_a_list_or_has_rules(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text("- reply: x")
    bare = Script.load(path)
    path.write_text("strict: true\nrules:\n- reply: x")
    assert Script.load(path) == bare.model_copy(update={"strict": True})
    path.write_text("")
    assert Script.load(path) == Script()


def test_the_declaration_says_what_was_set() -> None:
    agent = ScriptedAgent(
        "a", Script(), description="d", tools=["terminate", double], capabilities=("c",), input_schema=NUMBER,
        output_schema=NUMBER, max_tokens=9, timeout=2.0, retry=AT_ONCE, limits=Limits(calls=1), source="replies.yaml",
    )  # fmt: skip
    spec = agent.spec
    assert (spec.model, spec.max_tokens, spec.timeout, spec.retry) == ("scripted:replies.yaml", 9, 2.0, AT_ONCE)
    assert spec.tools == ("terminate", f"{double.__module__}:double")
    assert (spec.input_schema, spec.output_schema, spec.limits) == (NUMBER, NUMBER, Limits(calls=1))
    assert Rule(tool=ToolRule(name="x")).tool == ToolRule(name="x", args={})


async def test_cancelling_in_the_middle_uses_no_rule_up() -> None:
    team = Team("t", members=[ScriptedAgent("a", [Rule(reply="mine", times=1, delay=0.3)])])
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        await anyio.sleep(0.05)
        handle.interrupt()
        assert (await handle.result()).status == "interrupted"
        assert (await engine.resume("r", team=team)).output == "mine"


@pytest.mark.parametrize(
    ("rule", "data"),
    [
        ({"json": {"n": 1}}, {"n": 1}),
        ({"json": {"m": 1}}, {"m": 1}),
        ({"reply": '{"n": 1}'}, {"n": 1}),
        ({"reply": '{"m": 1}'}, None),
        ({"reply": "one"}, None),
    ],
)
async def test_data_that_the_asker_would_like_is_read_from_the_reply(rule: dict[str, Any], data: object) -> None:
    reply = await ScriptedAgent("a", rules(rule)).respond(Turn("go", output_schema=NUMBER), Recording().ctx)
    assert reply.data == data


async def test_the_schema_of_the_agent_comes_before_the_askers() -> None:
    agent = ScriptedAgent("a", rules({"reply": '{"n": 1}'}), output_schema={"type": "object", "required": ["m"]})
    with pytest.raises(InvalidOutput):
        await agent.respond(Turn("go", output_schema=NUMBER), Recording().ctx)
