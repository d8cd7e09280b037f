"""No output cap is sent where none is set, and a reply that is cut says at which limit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from teamwright import Engine, Limits, ModelAgent, Team
from teamwright.agents import ModelSettings, ServerModel
from teamwright.agents.model.response_stream import OutputMeter, Stop
from teamwright.agents.model.turn import _output_cap
from teamwright.errors import InvalidOutput
from teamwright.testing.model_server import ModelServer, Say
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.turn import Purpose, Turn
from tests.agents.recording import Recording


def long_server() -> ModelServer:
    return ModelServer(lambda _: Say(text="word " * 8000))


def at(server: ModelServer, settings: ModelSettings | None = None) -> ServerModel:
    return ServerModel(url=server.url, name="tiny", settings=settings)


@pytest.mark.parametrize("limits", [None, Limits(calls=3), Limits(seconds=500)])
async def test_no_output_cap_is_sent_where_none_is_set(limits: Limits | None) -> None:
    with long_server() as server:
        async with Engine() as engine:
            team = Team("t", members=[ModelAgent("a", model=at(server))], limits=limits)
            result = await engine.run(team, "Write.")
        (request,) = server.requests
    assert not [name for name in request.body if "tokens" in name]
    assert (len(result.output or ""), result.status, result.warnings) == (8000 * 5 - 1, "completed", ())


@pytest.mark.parametrize(
    ("settings", "max_tokens", "limits", "warning"),
    [
        (None, 500, None, "500 tokens (max_tokens); raise  max_tokens"),
        ({"max_tokens": 400}, None, None, "400 tokens (max_tokens); raise  max_tokens"),
        (None, None, Limits(tokens=2000), "{} tokens, its share of the budget; raise the budget, or set  max_tokens"),
    ],
)
async def test_a_cut_reply_is_a_warning_that_names_the_limit(
    tmp_path: Path, settings: ModelSettings | None, max_tokens: int | None, limits: Limits | None, warning: str
) -> None:
    with long_server() as server:
        async with Engine(tmp_path / "runs.db") as engine:
            agent = ModelAgent("a", model=at(server, settings), max_tokens=max_tokens)
            result = await engine.run(Team("t", members=[agent], limits=limits), "Write.", run_id="r")
            again = await engine.fork("r", at="step-1", new_id="f")
        (request,) = server.requests
    assert result.warnings == (f"t: the reply of 'a' was cut at {warning.format(request.max_tokens)}",)
    assert result.status == "degraded"
    assert (again.warnings, again.output) == (result.warnings, result.output)


async def test_a_reply_that_the_model_cuts_itself_says_so() -> None:
    with ModelServer(lambda _: Say(text="x" * 100)) as server:
        record = Recording()
        agent = ModelAgent("a", model=at(server, {"extra_body": {"max_completion_tokens": 5}}))
        reply = await agent.respond(Turn("Write."), record.ctx)
    assert reply.warnings == (
        "the reply of 'a' was cut at the output limit of its model; ask for less at once, or use another model",
    )
    assert (await agent.respond(Turn("Write."), record.again().ctx)).warnings == reply.warnings


async def test_the_limit_of_the_asker_is_told_from_that_of_the_agent() -> None:
    with long_server() as server:
        reply = await ModelAgent("a", model=at(server)).respond(Turn("Write.", max_output=7), Recording().ctx)
    assert reply.warnings == (
        "the reply of 'a' was cut at 7 tokens, as its asker set; raise the output limit of the ask",
    )


async def test_a_reply_that_is_cut_before_it_begins_fails_with_what_to_raise() -> None:
    with ModelServer(lambda _: Say(text="<think>" + "hm " * 500 + "</think>yes")) as server:
        agent = ModelAgent("a", model=at(server), max_tokens=20)
        with pytest.raises(InvalidOutput, match="it reached its output limit first; raise  max_tokens"):
            await agent.respond(Turn("?"), Recording().ctx)


BLANK = " " * 100_000


@pytest.mark.parametrize("is_followed", [True, False])
async def test_json_that_ends_in_white_space_without_end_is_the_answer(is_followed: bool) -> None:
    with ModelServer(lambda _: Say(text=f'{{"n": 1}}{BLANK}')) as server:
        agent = ModelAgent("a", model=at(server), output_schema={"type": "object", "required": ["n"]})
        recording = Recording(is_followed=is_followed)
        reply = await agent.respond(Turn("Count."), recording.ctx)
    assert (reply.data, reply.truncated, reply.warnings) == ({"n": 1}, False, ())
    if is_followed:
        assert len("".join(recording.deltas)) < 20_000


async def test_json_that_never_ends_for_white_space_is_corrected() -> None:
    says = iter((f'{{"n": {BLANK}', '{"n": 1}'))
    with ModelServer(lambda _: Say(text=next(says))) as server:
        agent = ModelAgent("a", model=at(server), output_schema={"type": "object", "required": ["n"]})
        reply = await agent.respond(Turn("Count."), Recording().ctx)
        assert server.count == 2
    assert reply.data == {"n": 1}
    assert [OutputMeter(9999, is_json=one).add(BLANK[:3000]) for one in (True, False)] == [Stop.BLANK, None]
    assert OutputMeter(99999, is_json=True).add("word " * 3000) is None


@pytest.mark.parametrize(("tokens", "purpose", "cap"), [(None, "coordinate", 40), (90, "coordinate", 90)])
async def test_an_asker_caps_a_plan_and_a_plan_that_is_cut_is_not_asked_for_again(
    tokens: int | None, purpose: Purpose, cap: int
) -> None:
    plan = '{"steps": [' + '{"id": "look", "task": "Look it up."}, ' * 100
    schema: JsonSchema = {"type": "object", "properties": {"steps": {"type": "array"}}, "required": ["steps"]}
    with ModelServer(lambda _: Say(text=plan)) as server:
        agent = ModelAgent("lead", model=at(server), max_tokens=tokens)
        turn = Turn("Plan.", purpose=purpose, max_output=40, output_schema=schema)
        reply = await agent.respond(turn, Recording().ctx)
        (request,) = server.requests
    assert cap in [value for name, value in request.body.items() if "tokens" in name]
    assert (reply.truncated, reply.data) == (True, None)
    assert plan.startswith(reply.text)


def test_a_model_that_may_think_is_not_capped_by_its_asker() -> None:
    turn = Turn("Plan.", purpose="coordinate", max_output=40)
    for thinks, cap in ((True, None), (False, 40)):
        client: Any = SimpleNamespace(model=TestModel(profile={"supports_thinking": thinks}))
        model = ServerModel(url="http://127.0.0.1:9", name="tiny")
        assert _output_cap(ModelAgent("lead", model=model), model, turn, client) == cap
