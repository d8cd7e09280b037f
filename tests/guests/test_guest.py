from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent as Clerk
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from teamwright import Engine, Limits, Message, Team, run_sync
from teamwright.agents import ServerModel
from teamwright.errors import UsageError
from teamwright.guests import Guest, LangGraphGuest, PydanticAIGuest
from teamwright.guests.guest import Framework, GuestAnswer
from teamwright.guests.turn import GuestTurn
from teamwright.journal import MemoryJournal
from teamwright.testing import ChatRequest, ModelServer, Say
from teamwright.values.events.agent import AgentCalled, AgentFailed
from teamwright.values.events.budget import BudgetExceeded
from teamwright.values.events.event import Event
from teamwright.values.turns.results import RunResult
from teamwright.values.usage_and_prices import Price
from tests.guests.members import ask_for_rome, call, pydantic_ai_guest, server_model
from tests.kit.records import cut_and_resume

CLERK = Clerk()


class PlainGuest(Guest):
    """A guest of a framework that is a function."""

    framework = Framework("plain", "types", "FunctionType", "a function")

    async def run(self, given: Any, turn: GuestTurn) -> GuestAnswer:
        return await self.guest(given)


async def run_alone(guest: Guest, limits: Limits | None = None) -> tuple[RunResult, list[Event], MemoryJournal]:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(Team("t", members=[guest], limits=limits), "Go", run_id="r")
    return result, await journal.read("r"), journal


def failure_of(events: list[Event]) -> AgentFailed:
    return next(event.fact for event in events if isinstance(event.fact, AgentFailed))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PydanticAIGuest("g", CLERK), "needs a model, such as"),
        (lambda: PydanticAIGuest("g", CLERK, ceiling=Limits(seconds=5)), "the most that"),
        (lambda: PydanticAIGuest("g", CLERK, model="local", ceiling=Limits(usd=1)), "keep one of them"),
        (lambda: PydanticAIGuest("g", CLERK, model="opnai:m"), "there is no provider 'opnai'"),
        (lambda: PydanticAIGuest("g", "clerk", model="local"), "must be an agent of pydantic-ai, not 'clerk'"),
        (lambda: LangGraphGuest("g", CLERK, model="local"), "'g'"),
        (lambda: PydanticAIGuest("a b", CLERK, model="local"), "can't name an agent"),
    ],
)
def test_a_mistake_is_reported_where_the_guest_is_made(make: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()


def test_a_framework_that_is_not_installed_is_named_with_its_package() -> None:
    class Missing(PlainGuest):
        framework = Framework("no-such-framework", "no_such_framework.agents", "Agent", "an agent")

    with pytest.raises(
        UsageError, match=r"needs the package 'no-such-framework': run  .*pip install no-such-framework"
    ):
        Missing("g", object(), model="local")


async def test_a_guest_that_raises_fails_its_turn_and_no_more() -> None:
    async def broken(given: str) -> GuestAnswer:
        raise RuntimeError("no luck")

    guest = PlainGuest("g", broken, ceiling=Limits(tokens=10), optional=True)

    async def fine(given: str) -> GuestAnswer:
        return GuestAnswer("fine")

    async with Engine(journal := MemoryJournal()) as engine:
        team = Team("t", members=[guest, PlainGuest("h", fine, ceiling=Limits(tokens=10))])
        result = await engine.run(team, "Go", run_id="r")
    assert result.output == "fine"
    assert failure_of(await journal.read("r")).message == "a function failed: RuntimeError: no luck"


async def test_a_guest_that_never_answers_is_stopped_after_its_requests() -> None:
    def again(request: ChatRequest) -> Any:
        return call(f"city-{request.number}")

    with ModelServer(again) as server:
        guest = pydantic_ai_guest("g", server_model(server), max_requests=3)
        result, events, _ = await run_alone(guest)
        assert server.count == 3
    assert result.status == "failed"
    assert "made 3 requests and had no answer; raise  max_requests" in failure_of(events).message


async def test_a_reply_that_floods_is_cut_as_one_of_ours() -> None:
    with ModelServer(lambda request: Say(text="x" * 10_000)) as server:
        guest = PydanticAIGuest("g", CLERK, model=server_model(server), max_bytes=1000)
        result, _, _ = await run_alone(guest)
    assert len(result.output or "") <= 1000


async def test_a_guest_with_models_of_its_own_reserves_its_ceiling_and_is_charged_what_it_reports() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("mine")], usage=RequestUsage(input_tokens=30, output_tokens=5))

    guest = PydanticAIGuest("g", Clerk(FunctionModel(answer)), ceiling=Limits(tokens=80))
    result, events, journal = await run_alone(guest, Limits(tokens=100))
    assert (result.output, result.usage.total_tokens) == ("mine", 35)
    (called,) = [event.fact for event in events if isinstance(event.fact, AgentCalled)]
    assert called.reserved == 80
    refused, _, _ = await run_alone(guest, Limits(tokens=79))
    assert refused.stop_reason == "budget"
    ended = next(event.number for event in events if event.kind == "agent.returned")
    resumed, _ = await cut_and_resume(Team("t", members=[guest], limits=Limits(tokens=100)), ended, journal)
    assert resumed.output == "mine", "what was recorded is not paid for again"


async def test_more_than_the_ceiling_is_charged_and_said() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("mine")], usage=RequestUsage(input_tokens=300, output_tokens=5))

    guest = PydanticAIGuest("g", Clerk(FunctionModel(answer)), ceiling=Limits(tokens=80))
    result, events, _ = await run_alone(guest, Limits(tokens=100))
    assert result.usage.total_tokens == 305
    assert [event.fact.over for event in events if isinstance(event.fact, BudgetExceeded)] == [225]


async def test_input_and_output_are_what_its_functions_make_of_them() -> None:
    class Letter(BaseModel):
        title: str

    async def write(given: dict[str, str]) -> GuestAnswer:
        return GuestAnswer(Letter(title=given["topic"].upper()))

    guest = PlainGuest("g", write, ceiling=Limits(tokens=1), input=lambda turn: {"topic": turn.task})
    result, _, _ = await run_alone(guest)
    assert result.data == {"title": "GO"}
    short = PlainGuest(
        "g", write, ceiling=Limits(tokens=1), input=lambda turn: {"topic": turn.task}, output=lambda one: one.title
    )
    assert (await run_alone(short))[0].output == "GO"


async def test_a_key_of_its_model_is_in_no_record() -> None:
    key = "sk-a-secret-key-of-the-model-1"
    with ModelServer(lambda request: Say(text=f"I was told {key}.")) as server:
        model = ServerModel(url=server.url, name="m", api_key=key, price=Price(input=1, output=1))
        result, events, journal = await run_alone(PydanticAIGuest("g", CLERK, model=model))
    assert key not in str(events) + str(journal._bodies) + str(result)


def test_a_manifest_names_the_function_that_asks_a_guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "desk.py").write_text(
        "from pydantic_ai import Agent\n"
        "from teamwright.guests import PydanticAIGuest\n"
        "from teamwright.agents import ServerModel\n"
        "import os\n"
        "guest = PydanticAIGuest('clerk', Agent(), model=ServerModel(url=os.environ['URL'], name='m'))\n"
        "async def clerk(turn, ctx):\n"
        "    return await guest.respond(turn, ctx)\n"
    )
    (tmp_path / "team.yaml").write_text(
        "agents: {clerk: {function: 'desk:clerk'}}\nteams: {desk: {members: [clerk]}}\n", encoding="utf-8"
    )
    from teamwright import load_team

    with ModelServer(ask_for_rome) as server:
        monkeypatch.setenv("URL", server.url)
        result = run_sync(load_team(tmp_path / "team.yaml"), "How is it?")
        assert server.count == 1
    assert result.messages[-1:] == (Message(name="clerk", content="I have no tools."),)
