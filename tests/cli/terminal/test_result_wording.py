"""Results as text."""

from __future__ import annotations

import asyncio
import json
import shlex

import pytest

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.cli.terminal.result_wording import (
    LONGEST_EDIT,
    answer_hint,
    failure_text,
    next_steps,
    status_text,
)
from teamwright.runtime.people.webhook import answer_command
from teamwright.values.limits import Limits
from teamwright.values.people import Answer, Question, approval_question, check_answer
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Failure
from teamwright.values.value import JsonValue


def test_nothing_is_said_twice_of_how_a_run_ended() -> None:
    assert status_text(RunResult(run_id="r", status="cancelled", stop_reason="cancelled")) == "cancelled"
    assert status_text(RunResult(run_id="r", status="failed", stop_reason="error")) == "failed (error)"
    assert failure_text(Failure("t", "cancelled", "cancelled")) == "cancelled"
    assert failure_text(Failure("t", "cancelled", "Too slow.")) == "cancelled: Too slow."


def test_a_budget_stop_names_the_limits_that_a_fork_replaces() -> None:  # Z-10
    ended = RunResult(run_id="r", status="degraded", stop_reason="budget")
    (step,) = next_steps(ended, {})
    assert "whichever ran out; limits of members and steps still apply" in step


@pytest.mark.parametrize(
    ("draft", "edit"),
    [
        ({"item": "egg"}, """'{"item": "egg"}'"""),
        ({"note": "it's"}, """'{"note": "it'"'"'s"}'"""),
        ({"note": "a" * LONGEST_EDIT}, "'{…}'"),
        ({"password": "hunter2-hunter2"}, "'{…}'"),
        ("no JSON", "'{…}'"),
    ],
)
def test_a_hint_for_an_edit_of_arguments_begins_with_them(draft: dict[str, JsonValue] | str, edit: str) -> None:
    text = draft if isinstance(draft, str) else json.dumps(draft, indent=2)
    question = approval_question("May it?", text, form="json")
    hint = answer_hint("r", None, question)
    assert hint == f'teamwright runs answer r approve   (or reject "why", or edit {edit})'
    if edit != "'{…}'":
        typed = shlex.split(hint.rpartition("or edit ")[2].removesuffix(")"))
        assert check_answer(question, "k", Answer.edit(*typed)).data == draft


def test_a_hint_for_another_answer_is_the_command_of_the_notice() -> None:
    for question in (approval_question("May it?", "{}"), Question(text="?", form="json")):
        assert answer_hint("r", "k", question) == answer_command("r", "k", question)


async def test_more_time_is_offered_where_it_can_be_had() -> None:
    async def dawdle(turn: Turn) -> str:
        await asyncio.sleep(60)
        return "late"

    inner = Team("inner", members=[FunctionAgent("a", dawdle)], limits=Limits(seconds=0.05))
    async with Engine("memory") as engine:
        own = await engine.run(inner, "Go", run_id="own")
        nested = await engine.run(Team("outer", members=[inner]), "Go", run_id="nested")
    assert [own.status, nested.status] == ["timeout", "timeout"]
    assert next_steps(own, {}) == ["continue with more time: teamwright runs fork own --max-seconds N"]
    (step,) = next_steps(nested, {})
    assert step.startswith("raise the time of 'inner' in its manifest")
    assert step.endswith('then: teamwright run MANIFEST --continue nested "…"')
