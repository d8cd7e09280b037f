from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, Rule, ScriptedAgent, Team, load_team
from teamwright.agents import Mend, Refuse, Warn
from teamwright.agents.functions.instructions import TurnContext
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import ManifestError, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.agent import AgentChecked
from teamwright.values.events.event import Delta
from teamwright.values.turns.results import RunResult
from tests.kit.records import cut_and_resume

checked: list[str] = []


def no_secrets(text: str, ctx: TurnContext) -> Refuse | Mend | Warn | None:
    """Refuse, replace or warn, as the text says."""
    checked.append(text)
    if "secret" in text:
        return Refuse("it contains a secret")
    if "password" in text:
        return Mend(text.replace("password", "[hidden]"))
    return Warn(f"{ctx.member} mentions a key") if "key" in text else None


async def no_secrets_async(text: str, ctx: TurnContext) -> Refuse | Mend | Warn | None:
    return no_secrets(text, ctx)


class Replies:
    """A model that gives these responses in order, and keeps the requests."""

    def __init__(self, *responses: str | ToolCallPart) -> None:
        self.responses, self.requests = responses, list[list[ModelMessage]]()
        self.model = FunctionModel(self._answer)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(list(messages))
        said = sum(isinstance(one, ModelResponse) for one in messages)
        part = self.responses[min(said, len(self.responses) - 1)]
        return ModelResponse([TextPart(part) if isinstance(part, str) else part])


async def run(
    agent: Any, task: str = "go", journal: MemoryJournal | None = None
) -> tuple[RunResult, list[AgentChecked]]:
    journal = journal or MemoryJournal()
    checked.clear()
    async with Engine(journal) as engine:
        result = await engine.run(Team("t", members=[agent]), task, run_id="r")
    facts = [event.fact for event in await journal.read("r")]
    return result, [fact for fact in facts if isinstance(fact, AgentChecked)]


@pytest.mark.parametrize("check", [no_secrets, no_secrets_async])
async def test_a_refused_answer_is_corrected_by_the_model(check: Callable[..., Any]) -> None:
    replies = Replies("a secret", "a tale")
    result, facts = await run(ModelAgent("a", model=replies.model, check={"output": check}))
    assert (result.output, result.status) == ("a tale", "completed")
    assert facts == [AgentChecked(check="output", verdict="refused", text="it contains a secret")]
    last = replies.requests[1][-1]
    assert isinstance(last, ModelRequest)
    assert isinstance(last.parts[0], UserPromptPart)
    assert last.parts[0].content == "Your answer was refused: it contains a secret"


async def test_an_answer_that_stays_refused_fails_the_turn() -> None:
    replies = Replies("a secret")
    result, facts = await run(ModelAgent("a", model=replies.model, check={"output": no_secrets}))
    assert result.failure is not None
    assert (result.failure.error, len(replies.requests), len(facts)) == ("refused", 3, 3)
    assert result.failure.message == "'a' failed: The answer of 'a' was refused: it contains a secret"


async def test_an_answer_may_be_replaced_or_noted() -> None:
    result, facts = await run(ModelAgent("a", model=Replies("the password").model, check={"output": no_secrets}))
    assert result.output == "the [hidden]"
    assert [one.verdict for one in facts] == ["mended"]
    result, facts = await run(ModelAgent("a", model=Replies("the key").model, check={"output": no_secrets}))
    assert result.output == "the key"
    assert any("a mentions a key" in one for one in result.warnings)
    assert [one.text for one in facts] == ["a mentions a key"]


async def test_a_refused_input_fails_the_turn_before_any_request() -> None:
    replies = Replies("ok")
    result, facts = await run(ModelAgent("a", model=replies.model, check={"input": no_secrets}), "tell a secret")
    assert result.failure is not None
    assert result.failure.message == "'a' failed: The input of 'a' was refused: it contains a secret"
    assert replies.requests == []
    assert [one.check for one in facts] == ["input"]


async def test_an_input_may_be_replaced_or_noted() -> None:
    replies = Replies("ok")
    agent = ModelAgent("a", model=replies.model, check={"input": no_secrets})
    assert (await run(agent, "my password"))[0].output == "ok"
    assert "my [hidden]" in str(replies.requests[0])
    assert "my password" not in str(replies.requests[0])
    result, _ = await run(agent, "my key")
    assert any("a mentions a key" in one for one in result.warnings)


@pytest.mark.parametrize("task", ["my password", "my secret"])
async def test_what_a_check_replaced_or_refused_does_not_come_back_in_the_next_turn_of_a_conversation(
    task: str,
) -> None:
    replies = Replies("ok")
    agent = ModelAgent("a", model=replies.model, check={"input": no_secrets})
    async with Engine(MemoryJournal()) as engine:
        await engine.run(agent, task, conversation="c")
        await engine.run(agent, "and now?", conversation="c")
    seen = str(replies.requests[-1])
    assert "my [hidden]" in seen or "(This message was refused: it contains a secret)" in seen
    assert task not in seen


@pytest.mark.parametrize("check", [no_secrets, no_secrets_async])
async def test_a_follower_sees_no_answer_before_it_is_checked(check: Callable[..., Any]) -> None:
    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        for piece in ("a ", "tale" if len(messages) > 1 else "secret"):
            yield piece

    agent = ModelAgent("a", model=FunctionModel(stream_function=answer), check={"output": check})
    async with Engine(MemoryJournal()) as engine:
        seen = [one.text async for one in engine.stream(agent, "go") if isinstance(one, Delta)]
        script = ScriptedAgent("s", [Rule(reply="a secret")], check={"output": check})
        seen += [one.text async for one in engine.stream(script, "go") if isinstance(one, Delta)]
    assert seen == []


async def test_an_end_without_words_may_get_some() -> None:
    end = Replies(ToolCallPart("terminate", {}, "1"))
    agent = ModelAgent("a", model=end.model, tools=["terminate"], check={"output": lambda text, ctx: Mend("Goodbye.")})
    result, _ = await run(agent)
    assert (result.output, result.stop_reason) == ("Goodbye.", "terminated")


SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def final(word: str, call: str) -> ToolCallPart:
    return ToolCallPart("final_result", {"word": word}, call)


async def test_a_refused_answer_by_tool_gets_the_reason_as_its_result() -> None:
    replies = Replies(final("secret", "1"), final("tale", "2"))
    result, _ = await run(ModelAgent("a", model=replies.model, output_schema=SCHEMA, check={"output": no_secrets}))
    assert result.data == {"word": "tale"}
    last = replies.requests[1][-1]
    assert isinstance(last, ModelRequest)
    (part,) = last.parts
    assert isinstance(part, ToolReturnPart)
    assert (part.tool_call_id, part.content) == ("1", "Your answer was refused: it contains a secret")


async def test_the_data_of_a_replaced_answer_has_to_fit() -> None:
    result, _ = await run(
        ModelAgent("a", model=Replies(final("password", "1")).model, output_schema=SCHEMA, check={"output": no_secrets})
    )
    assert result.data == {"word": "[hidden]"}

    def spoil(text: str, ctx: TurnContext) -> Mend:
        return Mend("no JSON")

    result, _ = await run(
        ModelAgent("a", model=Replies(final("x", "1")).model, output_schema=SCHEMA, check={"output": spoil})
    )
    assert result.failure is not None
    assert "does not fit its schema" in result.failure.message


async def test_a_refused_end_of_the_team_is_no_end() -> None:
    replies = Replies(
        ToolCallPart("terminate", {"response": "a secret"}, "1"), ToolCallPart("terminate", {"response": "bye"}, "2")
    )
    result, _ = await run(ModelAgent("a", model=replies.model, tools=["terminate"], check={"output": no_secrets}))
    assert (result.output, result.stop_reason) == ("bye", "terminated")


async def test_a_script_is_checked_as_well_and_can_not_correct_itself() -> None:
    for reply, output in (("fine", "fine"), ("a password", "a [hidden]"), ("a secret", None)):
        agent = ScriptedAgent("a", [Rule(reply=reply)], check={"input": no_secrets, "output": no_secrets})
        result, _ = await run(agent)
        assert result.output == output
    assert result.failure is not None
    assert result.failure.message == "'a' failed: The answer of 'a' was refused: it contains a secret"


async def test_a_verdict_is_recorded_once_wherever_the_run_is_killed() -> None:
    journal, replies = MemoryJournal(), Replies("a secret", "a tale")
    agent = ModelAgent("a", model=replies.model, check={"input": no_secrets, "output": no_secrets})
    await run(agent, "the key", journal)
    assert checked == ["the key", "a secret", "a tale"]
    events = await journal.read("r")
    returned = [event.number for event in events if event.kind == "agent.returned" and event.place.startswith("check-")]
    for at in range(1, len(events)):
        checked.clear()
        result, kinds = await cut_and_resume(Team("t", members=[agent]), at, journal)
        assert result.output == "a tale"
        assert kinds.count("agent.checked") == 2, f"killed after event {at}"
        assert len(checked) == sum(number > at for number in returned), f"killed after event {at}"


async def test_a_check_that_fails_or_returns_something_else_fails_the_turn() -> None:
    def broken(text: str, ctx: TurnContext) -> None:
        raise ValueError("no list of words")

    wrong: Any = lambda text, ctx: True  # noqa: E731 - the mistake of a user
    for check, words in ((broken, "no list of words"), (wrong, "must return Refuse(reason), Mend(text)")):
        result, _ = await run(ModelAgent("a", model=Replies("ok").model, check={"output": check}))
        assert result.failure is not None
        assert words in result.failure.message


@pytest.mark.parametrize(
    ("check", "words"),
    [(lambda text: None, r"check.input must be a function \(text, ctx\); its"), ("a:b", "must be a function")],
)
def test_a_wrong_check_is_refused_at_construction(check: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ModelAgent("a", model="openai:x", check={"input": check})


def test_a_check_of_something_else_is_refused_with_the_form() -> None:
    for wrong in (no_secrets, {"answer": no_secrets}):
        with pytest.raises(UsageError, match=r'write  check=\{"input": function, "output": function\}'):
            ModelAgent("a", model="openai:x", check=cast("Any", wrong))


def load(tmp_path: Path, *lines: str) -> Sequence[Any]:
    path = tmp_path / "team.yaml"
    path.write_text("\n".join(["agents:", "  a:", *(f"    {line}" for line in lines)]), encoding="utf-8")
    return load_team(path).members


def test_a_manifest_names_the_checks(tmp_path: Path) -> None:
    line = f"check: {{input: '{__name__}:no_secrets', output: '{__name__}:no_secrets_async'}}"
    (agent,) = load(tmp_path, "model: openai:x", line)
    assert agent.guardrails.functions == {"input": no_secrets, "output": no_secrets_async}
    assert agent.spec.model_dump(exclude_unset=True) == {
        "model": "openai:x",
        "check": {"input": f"{__name__}:no_secrets", "output": f"{__name__}:no_secrets_async"},
    }


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("model: openai:x", "check: {input: nowhere}"), "'nowhere' is not an import path"),
        (("function: 'string:capwords'", "check: {output: 'a:b'}"), "is a function, which has no 'check'"),
    ],
)
def test_a_mistake_in_a_manifest_is_reported_at_its_place(tmp_path: Path, lines: tuple[str, ...], words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(tmp_path, *lines)
    (problem,) = caught.value.problems
    assert words in problem.message
    assert problem.line == 4
