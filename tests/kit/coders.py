"""Members that change files by a script, the repository that they work on, and its branch."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from teamwright.agents.evaluators import Evaluator
from teamwright.agents.scripted import Rule, Script, ScriptedAgent
from teamwright.agents.tools.registry import ToolLike
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.recorded.reader import read_record
from teamwright.runtime.working_trees.apply import RecordedBranch
from teamwright.values.value import JsonValue

LINES = "A = 1\nB = 2\nC = 3\n"


def git(folder: Path, *arguments: str) -> str:
    settings = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    return subprocess.run(["git", *settings, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two files and one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "a.py").write_text(LINES)
    (folder / "b.py").write_text("x = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=one")
    return folder


def calls(tool: str, **arguments: JsonValue) -> Rule:
    return Rule.model_validate({"tool": {"name": tool, "args": arguments}, "times": 1})


def says(text: str) -> Rule:
    return Rule.model_validate({"reply": text, "times": 1})


def coder(
    name: str,
    *rules: Rule,
    tools: Sequence[ToolLike] = ("files",),
    optional: bool = False,
    evaluate: Evaluator | None = None,
) -> ScriptedAgent:
    return ScriptedAgent(name, Script(rules=rules), tools=tools, optional=optional, evaluate=evaluate)


async def branch(journal: MemoryJournal, run_id: str = "r") -> RecordedBranch:
    return RecordedBranch(journal, await read_record(journal, run_id))


async def shown(found: RecordedBranch, path: str) -> str:
    made = await found.open()
    return (await made.git.run("show", f"{found.branch.tip()}:{path}")).decode()
