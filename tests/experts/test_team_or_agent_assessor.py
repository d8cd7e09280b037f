from __future__ import annotations

import json
from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.agents import ServerModel
from teamwright.experts import ExpertTemplates
from teamwright.experts.team_or_agent import Assessor, AssessorFailure
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.testing import ModelServer, Say
from teamwright.values.limits import Limits
from tests.kit.records import cut

TEMPLATES = ExpertTemplates()


async def asked(answer: str, *, team: bool = False, times: int = 1, limits: Limits | None = None) -> tuple[object, str]:
    """Ask a model that gives this answer, as often as told, with one id; returns the last answer and what was sent."""
    found: object = None
    with ModelServer(lambda request: Say(text=answer)) as server:
        async with Engine(MemoryJournal()) as engine:
            for _ in range(times):
                model = ServerModel(url=server.url, name="m")
                assessor = Assessor(engine, model, Path.cwd(), run_id="r", limits=limits)
                found = await (assessor.team("Do it.", TEMPLATES) if team else assessor.complexity("Do it."))
        assert len(server.requests) == 1
        return found, repr(server.requests[0])


async def test_a_model_judges_the_complexity_in_a_recorded_run_that_is_paid_once() -> None:  # A-12 D-01
    found, sent = await asked('{"complexity": 0.4, "reason": "two steps", "mood": "good"}', times=2)
    assert (getattr(found, "complexity", None), getattr(found, "reason", None)) == (0.4, "two steps")
    assert "Do it." in sent
    assert "A team costs several times as much" in sent


async def test_requests_with_long_ids_that_begin_alike_are_answered_apart() -> None:  # A-12 D-01
    answers = iter(("0.2", "0.9"))
    found: list[float] = []
    with ModelServer(lambda request: Say(text=f'{{"complexity": {next(answers)}}}')) as server:
        async with Engine(MemoryJournal()) as engine:
            for end in ("one", "two"):
                model = ServerModel(url=server.url, name="m")
                assessor = Assessor(engine, model, Path.cwd(), run_id="r" * 61 + end, limits=None)
                found.append((await assessor.complexity(f"Do {end}.")).complexity)
    assert found == [0.2, 0.9]


async def test_a_model_names_roles_and_knows_the_templates() -> None:
    roles = [{"name": "analyst", "template": "analyst"}, {"name": "lawyer", "instructions": "Cite.", "age": 50}]
    found, sent = await asked(json.dumps({"roles": roles}), team=True, times=2)
    assert [role.name for role in getattr(found, "roles", ())] == ["analyst", "lawyer"]
    assert "- devils_advocate: Makes the strongest honest case" in sent


@pytest.mark.parametrize(
    "answer", ["I don't know.", '{"complexity": 1.5}', '{"complexity": "high"}', '{"reason": "x"}', ""]
)
async def test_an_answer_that_is_none_fails_in_words(answer: str) -> None:
    with pytest.raises(AssessorFailure, match="the model"):
        await asked(answer)


async def test_a_model_that_is_not_affordable_fails_in_words() -> None:
    with ModelServer(lambda request: Say(text="x")) as server:
        async with Engine(MemoryJournal()) as engine:
            model = ServerModel(url=server.url, name="m")
            assessor = Assessor(engine, model, Path.cwd(), run_id=None, limits=Limits(tokens=1))
            with pytest.raises(AssessorFailure, match="budget"):
                await assessor.complexity("Do it.")
        assert server.requests == []
        assert assessor.asked[0].usage.requests == 0


async def test_an_assessment_that_was_killed_anywhere_is_resumed_and_not_paid_twice() -> None:  # A-12 D-01
    with ModelServer(lambda request: Say(text='{"complexity": 0.4}')) as server:
        model = ServerModel(url=server.url, name="m")

        async def assess(journal: MemoryJournal) -> float:
            async with Engine(journal) as engine:
                assessor = Assessor(engine, model, Path.cwd(), run_id="r", limits=None)
                return (await assessor.complexity("Do it.")).complexity

        whole = MemoryJournal()
        assert await assess(whole) == 0.4
        events = await whole.read("r.complexity")
        answered = next(at for at, event in enumerate(events, 1) if event.kind == "agent.returned")
        for at in range(1, len(events)):
            before = len(server.requests)
            assert await assess(await cut(whole, at, "r.complexity")) == 0.4
            assert len(server.requests) - before == (1 if at < answered else 0)
