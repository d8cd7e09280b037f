from __future__ import annotations

import pytest

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import AgentError, Refused
from teamwright.history.telemetry import conventions as names
from teamwright.history.telemetry.run_spans import spans_of, split_model
from teamwright.history.telemetry.spans import Span, span_id, trace_id
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Usage
from tests.kit.spans import check_spans


class BrokenOff(AgentError):
    """A reply that broke off after some tokens."""

    kind = "connection"
    retryable = True
    unknown_cost = True

    def __init__(self) -> None:
        super().__init__("it broke off")
        self.arrived = (11, 5)


def caller(name: str, fails: int = 0, *, usage: Usage | None = None, kind: str = "model") -> FunctionAgent:
    """A member whose call breaks off some times before it returns."""

    async def call(attempt: Attempt) -> Returned:
        if attempt.number <= fails:
            raise BrokenOff
        return Returned("said", usage or Usage(requests=1, input_tokens=100, output_tokens=20, usd=0.5))

    async def respond(turn: Turn, ctx: Context) -> str:
        retry = RetryPolicy(times=3, backoff=0.0)
        effect = Effect(kind, "openai:gpt-x", turn.digest, call, retry=retry)  # pyright: ignore[reportArgumentType]
        return str((await ctx.effect("request-1", effect)).value)

    return FunctionAgent(name, respond)


async def spans_of_run(team: Team | FunctionAgent, **options: object) -> dict[str, Span]:
    """Run a team, check the spans of its record, and return them by name."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "task", run_id="r", **options)  # pyright: ignore[reportArgumentType]
    found = check_spans(await journal.read("r"))
    return {one.name: one for one in found}


def test_ids_are_hashes_of_the_run_and_the_key() -> None:
    assert len(trace_id("r")) == 16
    assert trace_id("r") == trace_id("r") != trace_id("s")
    assert len({span_id("r", "ask", "k"), span_id("r", "ask", "k", 2), span_id("r", "call", "k")}) == 3


async def test_a_team_its_members_and_their_calls_are_within_the_drive() -> None:
    inner = Team("inner", members=[caller("b")])
    found = await spans_of_run(Team("t", members=[caller("a"), inner]))
    assert found["run t"].parent == b""
    assert found["invoke_workflow t"].parent == found["run t"].span_id
    assert found["invoke_agent a"].parent == found["invoke_workflow t"].span_id
    assert found["invoke_workflow inner"].parent == found["invoke_workflow t"].span_id
    assert found["invoke_agent b"].parent == found["invoke_workflow inner"].span_id
    assert found["chat gpt-x"].parent == found["invoke_agent b"].span_id
    assert found["run t"].attributes[names.STATUS] == "completed"
    assert found["run t"].attributes[names.TOTAL_USD] == 1.0
    assert found["invoke_workflow inner"].attributes[names.TOTAL_TOKENS] == 120
    assert found["invoke_workflow t"].attributes[names.STRATEGY] == "sequential"


async def test_each_attempt_is_a_span_and_what_had_arrived_is_its_usage() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(Team("t", members=[caller("a", fails=2)]), "task", run_id="r")
    spans = check_spans(await journal.read("r"))
    chats = [one for one in spans if one.name == "chat gpt-x"]
    assert [one.attributes[names.ATTEMPT] for one in chats] == [1, 2, 3]
    assert [one.attributes.get(names.ERROR) for one in chats] == ["connection", "connection", None]
    assert [one.attributes[names.INPUT_TOKENS] for one in chats] == [11, 11, 100]
    assert result.usage.total_tokens == 152
    assert chats[0].error is not None


async def test_a_function_that_reports_tokens_is_a_chat_without_a_model() -> None:
    found = await spans_of_run(caller("a", kind="function"))
    chat = found["chat openai:gpt-x"]
    assert chat.attributes[names.OPERATION] == names.CHAT
    assert names.REQUEST_MODEL not in chat.attributes
    found = await spans_of_run(caller("a", kind="function", usage=Usage()))
    assert names.OPERATION not in found["call openai:gpt-x"].attributes


async def test_a_failure_is_the_error_of_its_spans_and_a_cancelled_member_is_none() -> None:
    async def refuse(turn: Turn) -> str:
        raise Refused("key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789abcd is wrong")

    found = await spans_of_run(Team("t", members=[FunctionAgent("a", refuse)]))
    assert found["invoke_agent a"].attributes[names.ERROR] == "refused"
    error = found["invoke_agent a"].error
    assert error is not None
    assert "sk-proj" not in error
    assert found["run t"].error is not None
    assert found["run t"].attributes[names.STATUS] == "failed"


async def test_tools_are_spans_with_their_names_masked_and_cut() -> None:
    def lookup(word: str) -> str:
        """Look a word up."""
        return f"{word}!"

    rules = (
        Rule.model_validate({"tool": {"name": "lookup", "args": {"word": "x"}}, "times": 1}),
        Rule.model_validate({"reply": "done"}),
    )
    found = await spans_of_run(Team("t", members=[ScriptedAgent("a", rules, tools=[lookup])]))
    tool = found["execute_tool lookup"]
    assert tool.attributes[names.TOOL] == "lookup"
    assert tool.parent == found["invoke_agent a"].span_id


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai:gpt-5", ("openai", "gpt-5")),
        ("google:gemini-3", ("gcp.gemini", "gemini-3")),
        ("mistral:large", ("mistral_ai", "large")),
        ("qwen2:7b", ("openai", "qwen2:7b")),
        ("my-model", ("openai", "my-model")),
        ("scripted", ("scripted", "scripted")),
        ("local", ("local", "local")),
        ("local:/w.gguf", ("local", "/w.gguf")),
    ],
)
def test_the_provider_of_a_model_has_its_name_in_the_conventions(name: str, expected: tuple[str, str]) -> None:
    assert split_model(name) == expected


async def test_a_fork_has_what_it_did_itself_and_a_link_to_its_source() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=[caller("a"), caller("b"), caller("c")]), "task", run_id="r")
        at = next(event.number for event in await journal.read("r") if event.kind == "agent.replied")
        made = Team("t", members=[caller("a"), caller("b"), caller("c")])
        await engine.fork("r", at=at, team=made, new_id="f")
    spans = check_spans(await journal.read("f"))
    assert [one.name for one in spans if one.name.startswith("invoke_agent")] == ["invoke_agent b", "invoke_agent c"]
    drive = next(one for one in spans if one.name == "run t")
    assert [(link.trace_id, link.to) for link in drive.links] == [(trace_id("r"), "fork")]
    assert drive.links[0].span_id in {one.span_id for one in spans_of(await journal.read("r"))}


async def test_a_continued_run_links_to_the_one_before_and_shares_its_conversation() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=[caller("a")]), "one", run_id="r", conversation="talk")
        await engine.run(Team("t", members=[caller("a")]), "two", run_id="s", conversation="talk")
    spans = check_spans(await journal.read("s"))
    drive = next(one for one in spans if one.name == "run t")
    assert [(link.trace_id, link.to) for link in drive.links] == [(trace_id("r"), "continue")]
    assert {one.attributes[names.CONVERSATION] for one in spans} == {"talk"}


async def test_a_refusal_of_the_budget_is_an_event_of_the_span_around_it() -> None:
    found = await spans_of_run(Team("t", members=[caller("a"), caller("b")]), limits=Limits(calls=1))
    assert [note.name for one in found.values() for note in one.notes] == ["budget.refused"]


async def test_a_run_that_is_driven_has_no_spans_that_are_still_open() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=[caller("a"), caller("b")]), "task", run_id="r")
    events = await journal.read("r")
    for number in range(1, len(events)):
        open_, cut_off = spans_of(events[:number], driven=True), spans_of(events[:number])
        assert open_ == cut_off[: len(open_)]
        assert "run t" not in [one.name for one in open_]
        assert cut_off[-1].attributes[names.ENDED_BY] == "lost"
