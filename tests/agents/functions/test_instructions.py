from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright import Engine, FunctionAgent, Message, Reply, Team, Turn, load_team
from teamwright.agents.functions.instructions import TurnContext
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import ManifestError, NotResumable, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Template
from tests.kit.records import cut_and_resume

calls: list[TurnContext] = []


def by_turn(ctx: TurnContext) -> str:
    calls.append(ctx)
    return f"You are {ctx.member}; this is turn {ctx.turn}. Be {ctx.state.get('tone', 'brief')}."


async def slowly(ctx: TurnContext) -> str:
    return by_turn(ctx)


class Seen:
    """A model that keeps the instructions of each request."""

    def __init__(self) -> None:
        self.instructions: list[str | None] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.instructions.append(info.instructions)
        return ModelResponse([TextPart("ok")])


def set_tone(turn: Turn) -> Reply:
    """A member that writes a value into the workspace."""
    return Reply(messages=(Message(name="tuner", content="set"),), context_updates={"tone": "kind"})


def team_of(agent: ModelAgent) -> Team:
    return Team("t", members=[FunctionAgent("tuner", set_tone), agent])


TEXT = (
    "You are {{ member }}. Task: {{ task }}. Be {{ state.tone | default('brief') }}.{% if turn > 9 %} Hurry.{% endif %}"
)


async def test_a_template_is_rendered_over_the_state_of_the_turn() -> None:
    seen = Seen()
    async with Engine(MemoryJournal()) as engine:
        result = await engine.run(team_of(ModelAgent("a", model=seen.model, instructions=Template(TEXT))), "Sum up")
    assert result.status == "completed"
    assert seen.instructions == ["You are a. Task: Sum up. Be kind."]


async def test_a_plain_text_is_never_a_template() -> None:
    seen = Seen()
    async with Engine(MemoryJournal()) as engine:
        await engine.run(team_of(ModelAgent("a", model=seen.model, instructions="Write {{ name }} for {x}.")), "go")
    assert seen.instructions == ["Write {{ name }} for {x}."]


@pytest.mark.parametrize("function", [by_turn, slowly])
async def test_a_function_makes_the_instructions_once_wherever_the_run_is_killed(
    function: Callable[[TurnContext], Any],
) -> None:
    seen, journal = Seen(), MemoryJournal()
    team = team_of(ModelAgent("a", model=seen.model, instructions=function))
    calls.clear()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    expected = "You are a; this is turn 2. Be kind."
    assert seen.instructions == [expected]
    assert [(one.run_id, one.task, [said.content for said in one.history]) for one in calls] == [("r", "go", ["set"])]
    events = await journal.read("r")
    recorded = next(
        event.number for event in events if event.place == "instructions" and event.kind == "agent.returned"
    )
    assert (await engine.runs.history("r")).result("completed").usage.tool_calls == 0
    for at in range(1, len(events)):
        calls.clear()
        seen.instructions.clear()
        result, _ = await cut_and_resume(team, at, journal)
        assert result.output == "ok"
        assert set(seen.instructions) <= {expected}
        assert bool(calls) == (at < recorded), f"killed after event {at}"


async def test_instructions_that_are_no_text_or_lack_a_value_fail_the_turn() -> None:
    wrong: Any = lambda ctx: 5  # noqa: E731 - the mistake of a user
    lacking = Template("Be {{ state.colour }}.")
    async with Engine(MemoryJournal()) as engine:
        for source, words in ((wrong, "must be a text, and its function gave 5"), (lacking, "colour")):
            result = await engine.run(team_of(ModelAgent("a", model=Seen().model, instructions=source)), "go")
            assert result.failure is not None
            assert words in result.failure.message


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (Template("Hello {{ taks }}"), "taks"),
        (Template("{% if %}"), "the template can't be used"),
        (lambda: "no context", r"or a function \(ctx\) -> str; its parameters are \(\)"),
        (5, r"must be a text, a Template or a function \(ctx\) -> str, not 5"),
    ],
)
def test_wrong_instructions_are_refused_at_construction(source: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ModelAgent("a", model="openai:x", instructions=source)


async def test_the_declaration_has_the_template_or_the_path_of_the_function() -> None:
    templated = ModelAgent("a", model="openai:x", instructions=Template("Hi {{ task }}"))
    assert templated.spec.model_dump(exclude_unset=True)["instructions"] == {"template": "Hi {{ task }}"}
    by_path = ModelAgent("a", model="openai:x", instructions=by_turn).spec.instructions
    assert by_path.model_dump() == {"function": f"{__name__}:by_turn"}  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_closure_can_not_be_rebuilt_from_the_record() -> None:
    journal = MemoryJournal()
    agent = ModelAgent("a", model="openai:x", instructions=lambda ctx: f"{ctx.task}!")
    async with Engine(journal) as engine:
        handle = await engine.start(Team("t", members=[agent]), "go", run_id="r")
        handle.interrupt()
        await handle.result()
        with pytest.raises(NotResumable, match="'a' was created in Python"):
            await engine.resume("r")


def write(tmp_path: Path, instructions: str) -> Path:
    path = tmp_path / "team.yaml"
    path.write_text(f"agents:\n  a:\n    model: openai:x\n    instructions: {instructions}\n", encoding="utf-8")
    return path


def test_a_manifest_declares_a_template_or_a_function(tmp_path: Path) -> None:
    for instructions in ('{template: "Hi {{ task }}"}', f"{{function: '{__name__}:by_turn'}}"):
        (agent,) = load_team(write(tmp_path, instructions)).members
        assert isinstance(agent, ModelAgent)
        assert agent.dynamic_instructions is not None
        assert agent.spec.instructions == agent.dynamic_instructions.spec


@pytest.mark.parametrize(
    ("instructions", "words"),
    [
        ('{template: "Hi {{ taks }}"}', "taks"),
        ("{function: nowhere}", "'nowhere' is not an import path"),
        ("{functoin: 'a:b'}", "'functoin' is not a field here"),
        ("[a]", "instructions"),
    ],
)
def test_a_mistake_in_a_manifest_is_reported_at_its_place(tmp_path: Path, instructions: str, words: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load_team(write(tmp_path, instructions))
    assert words in str(caught.value)
    assert {problem.line for problem in caught.value.problems} == {4}
