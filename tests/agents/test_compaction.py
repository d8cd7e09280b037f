"""Compaction: a long conversation goes on with a summary of its older messages, before the window is full."""

from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, ModelAgent, Team
from teamwright.agents.compaction import window_of
from teamwright.errors import UsageError
from teamwright.events import AgentCompacted
from teamwright.history import read_kpis
from teamwright.values.call_limits import Compact
from teamwright.values.specs.models import NamedModel, ServerModel

SMALL = Compact(context=600, keep=2)


def texts(messages: Sequence[ModelMessage]) -> list[str]:
    return [str(getattr(part, "content", "")) for message in messages for part in message.parts]


class Talker:
    """A model that answers at length, and summarises when it is asked to."""

    def __init__(self, answer: Callable[[list[ModelMessage]], ModelResponse] | None = None) -> None:
        self.prompts: list[list[str]] = []
        self.requests: list[list[ModelMessage]] = []
        self._answer = answer

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = texts(messages)
        if said[0].startswith("Summarise this part of a conversation"):
            assert not info.function_tools
            self.prompts.append(["summarise"])
            return ModelResponse(parts=[TextPart(f"summary {self.summaries}")])
        self.prompts.append(said)
        self.requests.append(messages)
        if self._answer is not None:
            return self._answer(messages)
        return ModelResponse(parts=[TextPart(f"answer {len(self.requests)} " + "x" * 300)])

    @property
    def summaries(self) -> int:
        return self.prompts.count(["summarise"])

    def agent(self, **settings: object) -> ModelAgent:
        return ModelAgent("ada", model=FunctionModel(self), **settings)  # pyright: ignore[reportArgumentType]


def task(number: int) -> str:
    return f"task {number} " + "y" * 200


async def facts(engine: Engine, run_id: str) -> list[AgentCompacted]:
    events = (await engine.runs.history(run_id)).events
    return [event.fact for event in events if isinstance(event.fact, AgentCompacted)]


async def test_older_turns_of_a_conversation_become_a_summary_once() -> None:  # L-C-6
    talker = Talker()
    team = Team("desk", members=[talker.agent(compact=SMALL)])
    async with Engine("memory") as engine:
        last = [await engine.run(team, task(number), conversation="talk") for number in range(4)][-1]
        assert [one[:9] for one in talker.prompts[-1]] == ["summary 1", "task 2 yy", "answer 3 ", "task 3 yy"]
        assert talker.summaries == 1
        (compacted,) = await facts(engine, last.run_id)
        assert (compacted.messages, compacted.kept) == (4, 2)
        await engine.run(team, task(4), conversation="talk")
        assert talker.summaries == 1  # the next turn continues from the summary
        assert [one[:9] for one in talker.prompts[-1]][:2] == ["summary 1", "task 2 yy"]


async def test_a_conversation_below_the_threshold_is_sent_whole() -> None:
    talker = Talker()
    team = Team("desk", members=[talker.agent(compact=Compact(context=100_000))])
    async with Engine("memory") as engine:
        for number in range(4):
            await engine.run(team, task(number), conversation="talk")
    assert (talker.summaries, len(talker.prompts[-1])) == (0, 7)


async def test_a_team_sets_it_for_members_that_do_not() -> None:  # L-C-6
    talker = Talker()
    team = Team("desk", members=[talker.agent()], compact=SMALL)
    async with Engine("memory") as engine:
        last = [await engine.run(team, task(number), conversation="talk") for number in range(4)][-1]
        assert talker.summaries == 1
        kpis = await read_kpis(engine.journal, last.run_id)
    assert kpis.coordination_tokens > 0


async def test_tool_calls_stay_with_their_results() -> None:  # L-C-7
    calls = 0

    def answer(messages: list[ModelMessage]) -> ModelResponse:
        nonlocal calls
        calls += 1
        if calls > 6:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look", {"number": calls}, tool_call_id=f"c{calls}")])

    def look(number: int) -> str:
        """Look."""
        return f"seen {number} " + "z" * 800

    talker = Talker(answer)
    agent = talker.agent(compact=Compact(context=600, keep=3), tools=[look])
    async with Engine("memory") as engine:
        result = await engine.run(Team("desk", members=[agent]), "Look around.")
        compacted = await facts(engine, result.run_id)
    assert (result.output, result.usage.tool_calls) == ("done", 6)
    assert compacted
    assert all(not fact.digest for fact in compacted)  # nothing of the history
    for messages in talker.requests:
        called = {p.tool_call_id for m in messages for p in m.parts if isinstance(p, ToolCallPart)}
        returned = {p.tool_call_id for m in messages for p in m.parts if isinstance(p, ToolReturnPart)}
        assert called == returned
        assert texts(messages)[0] == "Look around."
    assert any("Your work on this turn so far" in text for text in texts(talker.requests[-1]))


async def test_a_prompt_that_is_refused_as_too_long_is_compacted_within_the_turn() -> None:  # L-C-7
    looked: list[int] = []

    def answer(messages: list[ModelMessage]) -> ModelResponse:
        if len(messages) > 5:
            raise ModelHTTPError(400, "talker", provider_error_code="context_length_exceeded")
        if any("so far, as a summary" in text for text in texts(messages)):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id=f"c{len(messages)}")])

    def look() -> str:
        """Look."""
        looked.append(1)
        return "seen"

    talker = Talker(answer)
    agent = talker.agent(compact=Compact(context=1_000_000, keep=2), tools=[look])
    async with Engine("memory") as engine:
        result = await engine.run(Team("desk", members=[agent]), "Look around.")
    assert (result.output, len(looked)) == ("done", 3)


async def test_a_failed_summary_is_a_warning_once_in_a_run() -> None:
    def answer(messages: list[ModelMessage]) -> ModelResponse:
        if len(messages) > 11:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look", {}, tool_call_id=f"c{len(messages)}")])

    class Forgetful(Talker):
        def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            if texts(messages)[0].startswith("Summarise this part of a conversation"):
                raise ModelHTTPError(400, "talker")
            return super().__call__(messages, info)

    def look() -> str:
        """Look."""
        return "z" * 400

    agent = Forgetful(answer).agent(compact=Compact(context=600, keep=3), tools=[look])
    async with Engine("memory") as engine:
        result = await engine.run(Team("desk", members=[agent], strategy="round_robin", max_turns=2), "Look around.")
    assert result.output == "done"
    assert [text for text in result.warnings if "compacted" in text] == [
        "desk: The conversation of 'ada' was not compacted, since its summary failed; its prompts stay long"
    ]


async def test_a_resumed_run_does_not_summarise_again(tmp_path: Path) -> None:  # L-C-6
    waiting = anyio.Event()

    async def hang(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if texts(messages)[0].startswith("Summarise"):
            return ModelResponse(parts=[TextPart("summary 1")])
        waiting.set()
        await anyio.sleep_forever()
        raise AssertionError

    talker = Talker()
    async with Engine(tmp_path / "j.db") as engine:
        for number in range(3):
            await engine.run(Team("desk", members=[talker.agent(compact=SMALL)]), task(number), conversation="talk")
        stuck = ModelAgent("ada", model=FunctionModel(hang), compact=SMALL)
        handle = await engine.start(Team("desk", members=[stuck]), task(3), conversation="talk")
        await waiting.wait()
        handle.interrupt()
        await handle.result()
    async with Engine(tmp_path / "j.db") as engine:
        await engine.resume(handle.run_id, team=Team("desk", members=[talker.agent(compact=SMALL)]))
        assert talker.summaries == 0
        assert talker.prompts[-1][0] == "summary 1"
        assert len(await facts(engine, handle.run_id)) == 1


def test_the_window_is_the_declared_or_the_published_one() -> None:  # L-C-8
    assert window_of("openai:gpt-5-mini") == 400_000
    assert window_of(NamedModel(model="openai:gpt-5-mini", context=1000)) == 1000
    assert window_of(ServerModel(url="http://127.0.0.1:1/v1", name="mine", context=4096)) == 4096
    assert window_of(ServerModel(url="http://127.0.0.1:1/v1", name="mine")) is None
    assert window_of("local") is None


def test_settings_that_do_not_fit_are_refused() -> None:  # L-C-8
    with pytest.raises(UsageError, match="threshold"):
        Compact(threshold=1.5)
    with pytest.raises(UsageError, match="keep"):
        Compact(keep=0)


def test_an_agent_and_a_team_declare_it() -> None:  # L-C-8
    agent = ModelAgent("ada", model="openai:gpt-5-mini", compact=Compact(threshold=0.5))
    assert agent.spec.compact == Compact(threshold=0.5)
    assert Team("desk", members=[agent], compact=SMALL).spec.compact == SMALL


def test_a_summary_is_asked_for_with_the_settings_of_the_agent() -> None:
    agent = ModelAgent(
        "ada",
        model="openai:m",
        settings={"temperature": 0.2, "seed": 7},
        cache="off",
        max_bytes=5_000,
        timeout=9.0,
    )
    other = agent.summariser("openai:cheap")
    assert other.settings_for(other.model) == agent.settings_for(agent.model)
    assert (other.cache, other.policy.reply_bytes) == ("off", 5_000)
    assert other.timeout == 9.0
