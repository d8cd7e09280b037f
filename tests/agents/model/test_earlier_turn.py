"""Runs that an earlier version recorded continue with its prompts, its keys and its digests."""

from __future__ import annotations

import pytest

from teamwright.runtime.engine import Engine
from teamwright.testing.model_server import ModelServer
from teamwright.values.events.agent import AgentReturned
from teamwright.values.events.run import RunStarted
from teamwright.values.turns.messages import History as Messages
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording
from tests.histories.earlier.model_agents import answer, model_agents
from tests.histories.history import RUN_ID, History, comparable

RECORDED = History.load("earlier/model_agents")
REQUESTS = 8


def requests(number: int) -> int:
    facts = [event.fact for event in RECORDED.events[:number] if event.place.startswith("request-")]
    return sum(isinstance(fact, AgentReturned) for fact in facts)


@pytest.mark.parametrize("number", range(1, len(RECORDED.events), 3))
async def test_a_run_of_the_earlier_loop_resumes_wherever_it_was_cut(number: int) -> None:
    with ModelServer(answer) as server:
        async with Engine(RECORDED.journal(number)) as engine:
            result = await engine.resume(RUN_ID, team=model_agents(server))
        assert server.count == REQUESTS - requests(number)
    assert comparable(result) == RECORDED.result


async def test_a_whole_record_is_replayed_without_a_request() -> None:
    with ModelServer(answer) as server:
        async with Engine(RECORDED.journal()) as engine:
            result = await engine.resume(RUN_ID, team=model_agents(server))
        assert server.count == 0
    assert comparable(result) == RECORDED.result


async def test_a_fork_keeps_the_prompts_of_its_origin_and_a_new_run_does_not() -> None:
    with ModelServer(answer) as server:
        async with Engine(RECORDED.journal(len(RECORDED.events))) as engine:
            fork = await engine.fork(RUN_ID, at=RECORDED.events[-8].number, team=model_agents(server), new_id="fork")
            told = [one.content for one in server.requests[0].messages]
            new = await engine.run(model_agents(server), "What is a tree?", run_id="new")
            later = [one.content for one in server.requests[-2].messages]
            started = [
                next(event.fact for event in await engine.journal.read(run) if isinstance(event.fact, RunStarted))
                for run in ("fork", "new")
            ]
    assert (fork.status, new.status) == ("completed", "completed")
    assert [one.prompts for one in started] == [1, 2]
    assert (told[0], told[-1]) == ("Score it.", "What is a tree?")
    assert (later[1], later[-1]) == ("What is a tree?", "Your turn, scorer.")


async def test_its_prompts_have_the_task_last() -> None:
    history = Messages.of([Message(name="reader", content="One."), Message(name="scorer", content="Two.")])
    with ModelServer(answer) as server:
        _, scorer = model_agents(server).members
        turn = Turn("What is a tree?", history=history, since=0, prompts=1)
        await scorer.respond(turn, Recording().ctx)
        told = [(one.role, one.content) for one in server.requests[0].messages]
    assert told == [
        ("system", "Score it."),
        ("user", "# reader:\nOne."),
        ("assistant", "Two."),
        ("user", "What is a tree?"),
    ]
