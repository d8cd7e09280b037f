from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.experts.team_or_agent import Router, parse_request
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.limits import Limits
from tests.experts.test_team_or_agent_signals import UNSURE

MIDDLE = "Design a pricing API, implement it, document it, and let a second pair of eyes review its security."


def scripted(folder: Path, replies: str) -> str:
    file = folder / "replies.yaml"
    file.write_text(replies, encoding="utf-8")
    return f"scripted:{file}"


async def test_a_model_is_asked_only_where_signals_do_not_decide(tmp_path: Path) -> None:
    model = scripted(tmp_path, "rules: [{agent: ask-complexity, reply: '{\"complexity\": 0.8}'}]\n")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        router = Router(engine, model)
        assert (await router.route(parse_request("What is 2 + 2?"))).decided_by == "signals"
        assert (await router.route(parse_request("@team:editor Go."))).decided_by == "request"
        assert await teams_in(journal) == []
        route = await router.route(parse_request(MIDDLE))
        assert (route.decided_by, route.judged, route.suggests_team) == ("model", 0.8, True)
        assert await teams_in(journal) == ["ask-complexity"]


async def teams_in(journal: MemoryJournal) -> list[str]:
    return [one.team for one in await journal.runs()]


async def test_a_model_that_fails_leaves_the_task_to_one_agent(tmp_path: Path) -> None:
    model = scripted(tmp_path, "rules: [{reply: no idea}]\n")
    async with Engine(MemoryJournal()) as engine:
        route = await Router(engine, model).route(parse_request(MIDDLE))
    assert (route.mode, route.decided_by) == ("agent", "default")
    assert "the question to the model ended failed (error)" in route.reason


async def test_a_team_without_names_is_drafted_by_a_model_or_else_by_words(tmp_path: Path) -> None:
    good = 'rules: [{agent: ask-roles, reply: \'{"roles": [{"name": "editor", "template": "editor"}]}\'}]\n'
    async with Engine(MemoryJournal()) as engine:
        drafted = await Router(engine, scripted(tmp_path, good)).draft(parse_request("@team Review code."))
        assert [role.name for role in drafted.draft.roles] == ["editor"]
        assert (drafted.how, drafted.notes) == ("automatic", ())
    async with Engine(MemoryJournal()) as engine:
        router = Router(engine, scripted(tmp_path, "rules: [{reply: hm}]\n"))
        drafted = await router.draft(parse_request("@team Review code."))
        assert drafted.draft.roles[0].name == "reviewer"
        source = router.team(drafted)
    assert source.formation is not None
    assert source.formation.how == "automatic"
    assert source.formation.warnings[0].endswith("the experts were chosen by the words of the task")


async def test_what_routing_spends_is_taken_off_the_limits_of_the_run(tmp_path: Path) -> None:  # A-12 K-11
    model = scripted(tmp_path, "rules: [{reply: '{\"complexity\": 0.1}'}]\n")
    async with Engine(MemoryJournal()) as engine:
        router = Router(engine, model, limits=Limits(tokens=10_000, calls=5, seconds=60))
        assert router.limits_left == router.limits
        await router.route(parse_request(MIDDLE))
        left = router.limits_left
        assert Router(engine, model).limits_left is None
    assert left is not None
    assert left.tokens is not None
    assert 9_000 < left.tokens < 10_000
    assert left.calls == 4
    assert left.seconds is not None
    assert 59 < left.seconds < 60


async def test_a_limit_on_calls_that_leaves_one_is_kept_for_the_answer(tmp_path: Path) -> None:  # A-12 K-11
    model = scripted(tmp_path, "rules: [{reply: '{\"complexity\": 0.9}'}]\n")
    async with Engine(MemoryJournal()) as engine:
        router = Router(engine, model, limits=Limits(calls=1))
        route = await router.route(parse_request(MIDDLE))
        assert router.limits_left == Limits(calls=1)
    assert (route.mode, route.decided_by) == ("agent", "default")
    assert "the limit on calls leaves none to ask a model about it" in route.reason


async def test_a_long_task_is_judged_by_its_beginning(tmp_path: Path) -> None:
    rule = "{match: 'more characters are not shown', reply: '{\"complexity\": 0.2}'}"
    model = scripted(tmp_path, f"rules: [{rule}]\n")
    async with Engine(MemoryJournal()) as engine:
        router = Router(engine, model)
        route = await router.route(parse_request("Translate this: " + "All is well. " * 20_000))
        spent = (await engine.journal.runs())[0].total_tokens
    assert (route.decided_by, route.judged) == ("model", 0.2)
    assert spent < 5_000


@pytest.mark.parametrize("task", UNSURE.values(), ids=UNSURE)
async def test_a_model_is_asked_about_long_tasks_in_every_language(tmp_path: Path, task: str) -> None:
    model = scripted(tmp_path, "rules: [{agent: ask-complexity, reply: '{\"complexity\": 0.8}'}]\n")
    async with Engine(MemoryJournal()) as engine:
        route = await Router(engine, model).route(parse_request(task))
    assert (route.decided_by, route.suggests_team) == ("model", True)


@pytest.mark.parametrize("names", [("analyst",), ("analyst", "nobody")])
async def test_named_teams_need_no_model(names: tuple[str, ...]) -> None:
    async with Engine(MemoryJournal()) as engine:
        drafted = await Router(engine, "local").draft(parse_request(f"@team:{','.join(names)} Go."))
    assert tuple(role.template for role in drafted.draft.roles) == names
    assert drafted.how == "named"
