"""The tool calls of one response: side by side, in order, and a mistake is a correction."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.model.conversation import ToolResult
from teamwright.agents.model.tool_calls import call_tools
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import LimitReached
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentCallRejected
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered
from teamwright.values.people import Answer, Confirm
from tests.agents.recording import Recording
from tests.kit.records import cut_and_resume


async def results(record: Recording, *calls: ToolCallPart) -> list[ToolResult]:
    keys = {call.tool_call_id: f"tool-{call.tool_call_id}" for call in calls}
    async with Toolbox([wait, fail]).open(record.ctx) as tools:
        return await call_tools(tools, calls, keys)


async def wait(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


async def test_calls_run_side_by_side_and_their_results_are_in_order() -> None:
    record = Recording()
    loop = asyncio.get_running_loop()
    begun = loop.time()
    found = await results(record, *(ToolCallPart("wait", {"seconds": one}, f"c{one}") for one in (0.2, 0.1, 0.15)))
    assert [one.content for one in found] == ["waited 0.2", "waited 0.1", "waited 0.15"]
    assert loop.time() - begun < 0.4
    assert list(record.effects) == ["tool-c0.2", "tool-c0.1", "tool-c0.15"]


async def test_a_failure_is_a_result_and_does_not_stop_the_other_calls() -> None:
    found = await results(Recording(), ToolCallPart("fail", {}, "a"), ToolCallPart("wait", {"seconds": 0}, "b"))
    assert [(one.outcome, one.content) for one in found] == [
        ("failed", "The tool 'fail' failed: ValueError: no luck"),
        ("success", "waited 0.0"),
    ]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("wiat", "{}", "There is no tool 'wiat' here; did you mean 'wait'?"),
        ("wait", '{"seconds":', "The arguments of the tool 'wait' are no JSON"),
        ("wait", "[1]", "must be a JSON object"),
        ("wait", '{"seconds": "long"}', "seconds"),
    ],
)
async def test_a_mistake_of_the_model_is_a_correction_and_no_call(name: str, arguments: str, words: str) -> None:
    record = Recording()
    (found,) = await results(record, ToolCallPart(name, arguments, "a"))
    assert found.outcome == "retried"
    assert words in str(found.content)
    assert record.effects == {}


async def test_no_arguments_are_an_empty_object() -> None:
    for given in ("", None, {}):
        (found,) = await results(Recording(), ToolCallPart("fail", given, "a"))
        assert found.outcome == "failed"


async def test_a_limit_stops_all_calls() -> None:
    record = Recording(refuse={"tool-a": LimitReached("enough")})
    with pytest.raises(LimitReached, match="enough"):
        await results(record, ToolCallPart("fail", {}, "a"), ToolCallPart("wait", {"seconds": 5}, "b"))


def _mistaken(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    if any(isinstance(message, ModelResponse) for message in messages):
        return ModelResponse([TextPart("Done.")])
    wrong = [ToolCallPart("dubble", '{"number": 1}', "a"), ToolCallPart("double", '{"numb": 2}', "b")]
    return ModelResponse([*wrong, ToolCallPart("double", "{", "c"), ToolCallPart("double", '{"number": 4}', "d")])


async def test_a_rejected_call_is_recorded_once_wherever_the_run_is_killed() -> None:
    def double(number: int) -> int:
        """Double a number."""
        return 2 * number

    journal = MemoryJournal()
    team = Team("t", members=[ModelAgent("ada", model=FunctionModel(_mistaken), tools=[double])])
    async with Engine(journal) as engine:
        await engine.run(team, "Go.", run_id="r")
    events = await journal.read("r")
    rejected = [event.fact for event in events if isinstance(event.fact, AgentCallRejected)]
    assert [(one.name, one.reason) for one in rejected] == [
        ("dubble", "unknown_tool"),
        ("double", "arguments"),
        ("double", "arguments"),
    ]
    assert rejected[0].message == "There is no tool 'dubble' here; did you mean 'double'?"
    for at in range(1, len(events)):
        result, kinds = await cut_and_resume(team, at, journal)
        assert result.output == "Done."
        assert kinds.count("agent.call_rejected") == 3, f"killed after event {at}"


APPROVE_ALL = Confirm(tools=True)


class Mailer:
    """A model that calls `send` once and then answers, and keeps the messages of each request."""

    def __init__(self, *calls: ToolCallPart) -> None:
        self.calls = calls or (ToolCallPart("send", {"to": "old@example.org", "copies": 3}, "c1"),)
        self.requests: list[list[ModelMessage]] = []
        self.sent: list[str] = []

    def team(self, confirm: Confirm = APPROVE_ALL) -> Team:
        def look(at: str) -> str:
            """Look."""
            return f"saw {at}"

        def send(to: str, copies: int = 1) -> dict[str, str]:
            """Send a mail."""
            self.sent.append(f"{copies} to {to}")
            if to == "nobody":
                raise ValueError("no such address")
            return {"sent": to}

        agent = ModelAgent("ada", model=FunctionModel(self._reply), tools=[send, look], confirm=confirm)
        return Team("t", members=[agent])

    def _reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.requests.append(list(messages))
        if any(isinstance(one, ModelResponse) for one in messages):
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[TextPart("I send it."), *self.calls])

    async def run(self, journal: MemoryJournal, answer: Answer, team: Team | None = None) -> list[Event]:
        team = team or self.team()
        async with Engine(journal) as engine:
            result = await engine.run(team, "Go.", run_id="r")
            while result.status == "paused":
                for key in (await engine.runs.history("r")).questions():
                    await engine.runs.answer("r", key, answer)
                result = await engine.resume("r", team=team)
        assert result.output == "Done."
        return await journal.read("r")

    @property
    def last_calls(self) -> list[object]:
        return [part.args for one in self.requests[-1] for part in one.parts if isinstance(part, ToolCallPart)]

    @property
    def last_results(self) -> list[object]:
        return [part.content for one in self.requests[-1] for part in one.parts if isinstance(part, ToolReturnPart)]


async def test_a_model_sees_the_call_that_a_person_edited_and_that_they_did() -> None:
    mailer = Mailer()
    await mailer.run(MemoryJournal(), Answer.edit({"to": "new@example.org"}))
    assert mailer.sent == ["1 to new@example.org"]
    assert mailer.last_calls == [{"to": "new@example.org"}]
    (result,) = mailer.last_results
    assert str(result).splitlines() == [
        'A person changed your call before it was made. Its arguments were: {"to":"new@example.org"}',
        "Its result:",
        '{"sent":"new@example.org"}',
    ]
    assert "old@example.org" not in repr(mailer.requests[-1])


@pytest.mark.parametrize(
    "answer", [Answer.approve(), Answer.edit({"copies": 3, "to": "old@example.org"})], ids=["approved", "edited to it"]
)
async def test_a_call_that_nobody_changed_is_the_models_own(answer: Answer) -> None:
    mailer = Mailer()
    await mailer.run(MemoryJournal(), answer)
    assert mailer.last_calls == [{"to": "old@example.org", "copies": 3}]
    assert mailer.last_results == [{"sent": "old@example.org"}]


async def test_an_edited_call_that_fails_is_shown_as_edited_too() -> None:
    mailer = Mailer()
    await mailer.run(MemoryJournal(), Answer.edit({"to": "nobody"}))
    assert mailer.last_calls == [{"to": "nobody"}]
    (result,) = mailer.last_results
    assert str(result).startswith("A person changed your call")
    assert str(result).endswith("no such address")


async def test_only_the_edited_one_of_several_calls_is_changed() -> None:
    mailer = Mailer(ToolCallPart("look", '{"at": "a"}', "c0"), ToolCallPart("send", {"to": "b"}, "c1"))
    await mailer.run(MemoryJournal(), Answer.edit({"to": "c"}), mailer.team(Confirm(tools=("send",))))
    assert mailer.last_calls == ['{"at": "a"}', {"to": "c"}]
    assert mailer.last_results[0] == "saw a"


async def test_an_edited_call_resumes_wherever_the_run_is_killed() -> None:
    mailer, journal = Mailer(), MemoryJournal()
    events = await mailer.run(journal, Answer.edit({"to": "new@example.org"}))
    seen = repr(mailer.last_calls) + repr(mailer.last_results)
    answered = next(event.number for event in events if isinstance(event.fact, PersonAnswered))
    for at in range(answered, len(events)):
        result, _ = await cut_and_resume(mailer.team(), at, journal)
        assert result.output == "Done.", f"killed after event {at}"
        assert repr(mailer.last_calls) + repr(mailer.last_results) == seen
