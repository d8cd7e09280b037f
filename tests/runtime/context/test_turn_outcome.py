"""Replies and tool results are held to their size caps, whatever their source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright import Context, Engine, FunctionAgent, Message, Reply, RunResult, Team, Turn
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.errors import UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.call_limits import MAX_BYTES, cut_text, text_size
from teamwright.values.events.agent import AgentReturned
from teamwright.values.usage_and_prices import Usage
from tests.kit.records import cut

CAP = 10_000
CUT = f"was cut at {CAP} bytes; raise  max_bytes  to get more of it"


async def run(member: FunctionAgent | ScriptedAgent, journal: MemoryJournal | None = None) -> RunResult:
    async with Engine(journal or MemoryJournal()) as engine:
        return await engine.run(Team("t", members=[member]), "go", run_id="r")


def answering(answer: object) -> Callable[[Turn], object]:
    return lambda turn: answer


def answering_itself(answer: object) -> Callable[[Turn, Context], Awaitable[object]]:
    async def respond(turn: Turn, ctx: Context) -> object:
        return answer

    return respond


WAYS = pytest.mark.parametrize("way", [answering, answering_itself])


@WAYS
@pytest.mark.parametrize("text", ["x" * 50_000, "é" * 9_999, "語" * 5_000, "\U0001f600" * 4_000])
async def test_a_text_that_is_too_long_is_cut_with_a_warning(
    way: Callable[[object], object], text: str
) -> None:  # S-01
    result = await run(FunctionAgent("f", way(text), max_bytes=CAP))  # pyright: ignore[reportArgumentType]
    assert result.output is not None
    assert CAP - 4 < text_size(result.output) <= CAP
    assert text.startswith(result.output)
    assert result.warnings == (f"t: the reply of 'f' {CUT}",)
    assert (result.status, result.stop_reason) == ("degraded", "done")


@WAYS
@pytest.mark.parametrize("text", ["x" * CAP, "é" * (CAP // 2), "語" * (CAP // 3)])
async def test_a_text_within_the_cap_is_left_alone(way: Callable[[object], object], text: str) -> None:
    result = await run(FunctionAgent("f", way(text), max_bytes=CAP))  # pyright: ignore[reportArgumentType]
    assert (result.output, result.warnings) == (text, ())


@WAYS
@pytest.mark.parametrize(
    "answer",
    [
        {"text": "x" * CAP},
        ["word"] * 3000,
        Reply(messages=(Message(name="f", content="."),), data={"text": "x" * CAP}),
    ],
)
async def test_json_that_is_too_large_is_refused(way: Callable[[object], object], answer: object) -> None:  # S-01
    result = await run(FunctionAgent("f", way(answer), max_bytes=CAP))  # pyright: ignore[reportArgumentType]
    assert result.failure is not None
    assert (result.failure.error, result.status) == ("invalid_output", "failed")
    assert "(max_bytes)" in result.failure.message


@WAYS
async def test_the_messages_of_a_reply_share_one_cap(way: Callable[[object], object]) -> None:  # S-01
    said = tuple(Message(name="f", content=str(number) * 4000) for number in range(5))
    result = await run(FunctionAgent("f", way(Reply(messages=said)), max_bytes=CAP))  # pyright: ignore[reportArgumentType]
    assert [len(one.content) for one in result.messages] == [4000, 4000, 2000]
    assert result.warnings == (f"t: the reply of 'f' {CUT}",)


async def test_the_cap_is_four_megabytes_unless_said() -> None:  # S-01
    result = await run(FunctionAgent("f", answering("x" * (MAX_BYTES + 1))))
    assert (MAX_BYTES, len(result.output or "")) == (4_000_000, MAX_BYTES)


@pytest.mark.parametrize("cap", [0, -1, 999, 10**10, 1.5, True, "4MB"])
def test_a_cap_that_is_none_is_refused_where_it_is_declared(cap: object) -> None:
    with pytest.raises(UsageError, match="max_bytes"):
        FunctionAgent("f", answering("x"), max_bytes=cap)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="max_bytes"):
        ScriptedAgent("s", (), max_bytes=cap)  # pyright: ignore[reportArgumentType]


def using(tool: Callable[[], object]) -> ScriptedAgent:
    """A member that calls the tool and returns its result."""
    rules = (Rule(tool=ToolRule(name="look"), times=1), Rule(reply="Done."))
    return ScriptedAgent("s", rules, tools=[("look", tool)], max_bytes=CAP)


async def test_the_text_of_a_tool_is_cut_with_a_warning_also_after_a_crash() -> None:  # S-01
    journal = MemoryJournal()
    result = await run(using(lambda: "x" * 50_000), journal)
    assert result.warnings == (f"t: s: the result of the tool 'look' {CUT}",)
    assert (result.output, result.status) == ("Done.", "degraded")
    events = await journal.read("r")
    (returned,) = [one for one in events if isinstance(one.fact, AgentReturned) and one.fact.capped]
    async with Engine(await cut(journal, returned.number)) as engine:
        again = await engine.resume("r", team=Team("t", members=[using(lambda: pytest.fail("called again"))]))
    assert again.warnings == result.warnings


@pytest.mark.parametrize("result", [{"text": "x" * CAP}, ["word"] * 3000, b"x" * (CAP + 1)])
async def test_json_and_bytes_of_a_tool_are_refused_and_the_member_continues(result: object) -> None:  # S-01
    rules = (Rule(match="too large", reply="Too much."), Rule(tool=ToolRule(name="look"), times=1))
    member = ScriptedAgent("s", rules, tools=[("look", lambda: result)], max_bytes=CAP)
    assert (await run(member)).output == "Too much."


@given(st.text(max_size=200), st.integers(0, 300))
def test_a_cut_text_is_a_beginning_that_fits(text: str, cap: int) -> None:
    kept = cut_text(text, cap)
    assert text.startswith(kept)
    assert text_size(kept) <= cap
    assert kept == text or text_size(kept) > cap - 4


@pytest.mark.parametrize("value", ["x" * 50_000, {"text": "x" * 50_000}])
async def test_an_effect_of_a_third_party_agent_is_held_to_the_cap_too(value: JsonValue) -> None:  # S-01
    async def call(attempt: Attempt) -> Returned:
        return Returned(value)

    async def respond(turn: Turn, ctx: Context) -> str:
        returned = await ctx.effect("call", Effect("function", "f", "request", call, max_bytes=CAP))
        assert returned.capped == CAP
        return f"{len(str(returned.value))}"

    result = await run(FunctionAgent("f", respond))
    if isinstance(value, str):
        assert result.output == str(CAP)
    else:
        assert result.status == "failed"


@pytest.mark.parametrize("usage", [{"input_tokens": 10**12}, {"usd": 1e9}, {"output_tokens": 2**62, "requests": 1}])
async def test_impossible_usage_counts_as_not_reported(usage: dict[str, int]) -> None:  # S-03
    async def call(attempt: Attempt) -> Returned:
        return Returned("fine", Usage(**usage))

    async def respond(turn: Turn, ctx: Context) -> str:
        return str((await ctx.effect("call", Effect("model", "f", "request", call))).value)

    result = await run(FunctionAgent("f", respond))
    assert (result.output, result.usage.total_tokens, result.usage.usd) == ("fine", 0, None)


@pytest.mark.parametrize("answer", [{"a": "\ud800"}, ["\udfff"]])
async def test_half_a_surrogate_pair_in_data_is_replaced_and_no_failure(answer: JsonValue) -> None:  # S-01
    for member in (FunctionAgent("a", answering(answer)), FunctionAgent("a", answering_itself(answer))):
        result = await run(member)
        assert result.status == "completed"
        assert "\ufffd" in (result.output or "")
