"""Cache points stand where a later prompt will begin the same, and only with providers that want them."""

from __future__ import annotations

import pytest
from pydantic_ai.messages import CachePoint, ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import CacheConfig, ModelSettings

from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.model.conversation import ModelConversation
from teamwright.agents.model.request_template import LOOKBACK, NO_CACHE, CachePlan, plan_cache
from teamwright.errors import UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Turn

WANTS = ModelProfile(supports_cache=True)
PREFIX_ONLY = ModelSettings(cache=CacheConfig(messages=False))
FIRST = Turn("Go.", history=History.of([Message(name="ann", content="One.")]), since=0)
LATER = Turn(
    "Go.",
    history=History.of([Message(name=name, content=f"{name} said.") for name in ("ann", "bob", "ann")]),
    since=0,
)


@pytest.mark.parametrize(
    ("turn", "has_tools", "plan"),
    [
        (FIRST, False, CachePlan(PREFIX_ONLY, False)),
        (FIRST, True, CachePlan(ModelSettings(cache=True), True)),
        (LATER, False, CachePlan(PREFIX_ONLY, True)),
        (LATER, True, CachePlan(ModelSettings(cache=True), True)),
        (Turn("Go."), False, CachePlan(PREFIX_ONLY, False)),
        (Turn("Go.", history=LATER.history), False, CachePlan(ModelSettings(cache=True), False)),
    ],
)
def test_messages_are_cached_where_they_will_be_sent_again(turn: Turn, has_tools: bool, plan: CachePlan) -> None:
    assert plan_cache(WANTS, "auto", ModelSettings(), turn, "bob", has_tools=has_tools) == plan


def test_nothing_is_sent_to_a_provider_that_wants_no_points_nor_where_the_user_objects() -> None:
    assert plan_cache(ModelProfile(), "auto", ModelSettings(), LATER, "bob", has_tools=True) == NO_CACHE
    assert plan_cache(WANTS, "off", ModelSettings(), LATER, "bob", has_tools=True) == NO_CACHE
    assert plan_cache(WANTS, "auto", ModelSettings(cache="1h"), LATER, "bob", has_tools=True) == NO_CACHE


def points(messages: list[ModelMessage]) -> list[int]:
    """The places of messages with a cache point."""
    return [
        place
        for place, message in enumerate(messages)
        if isinstance(message, ModelRequest)
        and any(
            isinstance(part, UserPromptPart) and any(isinstance(one, CachePoint) for one in part.content)
            for part in message.parts
        )
    ]


def test_the_point_stands_before_the_line_that_changes_with_every_turn() -> None:
    marked = ModelConversation.of_turn(LATER, "bob", marks_shared=True)
    plain = ModelConversation.of_turn(LATER, "bob")
    assert points(marked.messages) == [len(marked.messages) - 2]
    assert (marked.digest, marked.prompt_bytes) == (plain.digest, plain.prompt_bytes)


def test_a_point_further_back_than_a_provider_looks_is_set_again() -> None:
    others = [Message(name=f"m{number}", content="And.") for number in range(LOOKBACK + 5)]
    history = [Message(name="ann", content="One."), Message(name="bob", content="Two."), *others]
    turn = Turn("Go.", history=History.of(history), since=0)
    messages = ModelConversation.of_turn(turn, "bob", marks_shared=True).messages
    assert points(messages) == [1, len(messages) - 2]


async def test_each_point_of_a_round_robin_is_the_beginning_of_a_later_prompt() -> None:
    sent: dict[str, list[tuple[list[ModelMessage], ModelRequestParameters]]] = {}

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        name = str(info.instructions)
        sent.setdefault(name, []).append((list(messages), info.model_request_parameters))
        return ModelResponse(parts=[TextPart(f"{name} speaks for the {len(sent[name])}. time.")])

    members = [
        ModelAgent(name, model=FunctionModel(answer, profile=WANTS), instructions=name) for name in ("ann", "bob", "cy")
    ]
    async with Engine(MemoryJournal()) as engine:
        await engine.run(Team("t", members=members, strategy="round_robin", max_turns=4), "Talk.")
    for turns in sent.values():
        texts = [[_text(one) for one in messages] for messages, _ in turns]
        for (messages, _), now, later in zip(turns[1:], texts[1:], texts[2:], strict=False):
            (point,) = points(messages)
            assert later[: point + 1] == now[: point + 1]


def _text(message: ModelMessage) -> list[str]:
    return [
        "".join(one for one in part.content if isinstance(one, str))
        for part in message.parts
        if isinstance(part, UserPromptPart | TextPart)
    ]


def test_a_wrong_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="cache: is 'auto' or 'off'"):
        ModelAgent("a", model="openai:gpt-5-mini", cache="always")  # pyright: ignore[reportArgumentType]
