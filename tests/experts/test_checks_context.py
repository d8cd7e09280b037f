"""What a check knows of the work besides its text, in a function and in a program."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, Reply, Team, Turn
from teamwright.agents import Criterion, Evaluate, ToolUse
from teamwright.agents.agent import Context
from teamwright.errors import UsageError
from teamwright.experts import CheckContext, Rubric
from teamwright.experts.rubric import CheckFile, takes_context
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.turns.messages import Message

HERE = "tests.experts.test_checks_context"
SEEN: list[CheckContext] = []
PROGRAM = """
import json, pathlib, sys
context = json.load(open("context.json"))
print(json.dumps(context), [pathlib.Path(one).read_text() for one in context["files"]], sys.stdin.read())
sys.exit(0 if context["data"] == context["expected"] else 1)
"""


def see(text: str, context: CheckContext) -> tuple[bool, str]:
    SEEN.append(context)
    return context.data == context.expected, f"{context.data} is not {context.expected}"


def plain(text: str, strict: bool = True) -> bool:
    return strict


async def write(turn: Turn, ctx: Context) -> Reply:
    diagram = await ctx.workspace.keep("a diagram", name="../diagram.txt")
    said = (Message(name="writer", content='{"rooms": 2}'),)
    uses = (ToolUse(tool="measure", arguments="{}", result="2 rooms"),) if turn.keeps_tool_uses else ()
    return Reply(messages=said, data={"rooms": 2}, artifacts=(diagram,), tool_uses=uses)


async def reviewed(criterion: Criterion) -> tuple[str, str]:
    """Return the status of a run whose work is reviewed by this criterion, and why it failed."""
    team = Team("t", members=[FunctionAgent("writer", write, evaluate=Rubric(Evaluate(criteria=(criterion,))))])
    async with Engine("memory") as engine:
        result = await engine.run(team, "How many rooms?", run_id="r")
        items = [item async for item in engine.runs.follow("r")]
    (fact,) = (one.fact for one in items if isinstance(one, Event) and isinstance(one.fact, TeamEvaluationResult))
    return result.status, json.dumps(fact.to_json())


@pytest.mark.parametrize(("expected", "status"), [({"rooms": 2}, "completed"), ({"rooms": 3}, "failed")])
async def test_a_function_gets_task_member_data_files_and_what_is_expected(expected: object, status: str) -> None:
    SEEN.clear()
    criterion = Criterion.model_validate({"id": "rooms", "function": f"{HERE}:see", "expected": expected})
    assert (await reviewed(criterion))[0] == status
    (context,) = SEEN
    assert (context.task, context.member, context.data) == ("How many rooms?", "writer", {"rooms": 2})
    assert [(file.name, file.content) for file in context.files] == [("../diagram.txt", b"a diagram")]
    assert [(one.tool, one.result) for one in context.tool_uses] == [("measure", "2 rooms")]


@pytest.mark.parametrize(("expected", "status"), [({"rooms": 2}, "completed"), ({"rooms": 3}, "failed")])
async def test_a_program_finds_the_same_in_its_folder(expected: object, status: str) -> None:
    command = (sys.executable, "-c", PROGRAM)
    criterion = Criterion.model_validate({"id": "rooms", "command": command, "expected": expected})
    found, why = await reviewed(criterion)
    assert found == status
    if status == "failed":
        assert "files/diagram.txt" in why
        assert "2 rooms" in why
        assert "['a diagram']" in why


def test_only_a_function_that_asks_for_a_context_gets_one() -> None:
    assert takes_context(see)
    assert not takes_context(plain)
    assert not takes_context(len)


def test_files_stay_in_the_folder_and_keep_apart(tmp_path: Path) -> None:
    names = ["a.txt", "x/a.txt", "..", "/etc/passwd", "c:\\b.txt"]
    files = tuple(CheckFile(name, "text/plain", name.encode()) for name in names)
    CheckContext(files=files).write_to(tmp_path)
    listed = json.loads((tmp_path / "context.json").read_text())["files"]
    assert listed == ["files/a.txt", "files/2-a.txt", "files/file-3", "files/passwd", "files/b.txt"]
    assert [(tmp_path / one).read_text() for one in listed] == names


def test_nothing_else_expects_anything() -> None:
    with pytest.raises(UsageError, match="expected of the criterion 'a' is for checks"):
        Criterion(id="a", contains="x", expected="x")


def test_files_of_any_name_get_a_place_of_their_own(tmp_path: Path) -> None:
    names = ("3-a", "a", "a", "..", "", "ü" * 300, "x\0y", "context.json")
    context = CheckContext(files=tuple(CheckFile(name, "text/plain", b"%d" % at) for at, name in enumerate(names)))
    context.write_to(tmp_path)
    listed = json.loads((tmp_path / "context.json").read_text())["files"]
    assert [(tmp_path / one).read_bytes() for one in listed] == [b"%d" % at for at in range(len(names))]
    assert all((tmp_path / one).resolve().parent == tmp_path / "files" for one in listed)
