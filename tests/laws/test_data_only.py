"""Law 9: nothing is pickled, records carry a version, and an older program refuses what is newer, in words."""

from __future__ import annotations

import ast
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import teamwright
from teamwright.errors import JournalTooNew
from teamwright.journal.sqlite.database import MIGRATIONS, Execute, migrate
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from tests.kit.effects import ReturnSchedule, effect_member
from tests.laws.random_programs import RUN_ID, TASK

FORBIDDEN = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
CALLED = {"eval", "exec"}
MENTIONED = re.compile("|".join(sorted(FORBIDDEN | CALLED)))
SOURCE = Path(teamwright.__file__).parent


def pickling(text: str) -> list[str]:
    """The names in a module that are forbidden: modules that pickle, and calls that run text as code."""
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                found += [alias.name.partition(".")[0] for alias in names]
            case ast.ImportFrom(module=str(module)):
                found.append(module.partition(".")[0])
            case ast.Call(func=ast.Name(id="eval" | "exec" as name)):
                found.append(name)
            case _:
                continue
    return [name for name in found if name in FORBIDDEN | CALLED]


def test_no_module_imports_anything_that_pickles() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    assert len(texts) > 100
    # Few modules have one of the words at all, and only those are parsed.
    found = {path: pickling(text) for path, text in texts.items() if MENTIONED.search(text)}
    assert {path: names for path, names in found.items() if names} == {}


def test_an_import_of_what_pickles_is_found() -> None:
    text = "import os, pickle\nfrom marshal import loads\ndef f(x):\n    import dill.source\n    return exec(x)\n"
    assert sorted(pickling(text)) == ["dill", "exec", "marshal", "pickle"]
    assert MENTIONED.search(text)
    assert pickling("picklemaker = 1\nself.exec(2)\n") == []


async def a_run(path: Path) -> None:
    async with Engine(path) as engine:
        await engine.run(Team("t", members=[effect_member("a", ReturnSchedule())]), TASK, run_id=RUN_ID)


async def test_everything_in_the_database_is_a_number_text_or_json(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await a_run(path)
    with closing(sqlite3.connect(path)) as database:
        for (text,) in database.execute("SELECT data FROM events").fetchall():
            assert isinstance(json.loads(text), dict)
        for (texts,) in database.execute("SELECT bodies FROM events WHERE bodies IS NOT NULL"):
            for text in texts.split("\x1e"):
                json.loads(text[40:])


async def test_a_newer_database_is_refused_with_a_clear_message_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await a_run(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    before = path.read_bytes()
    with pytest.raises(JournalTooNew, match=r"update Teamwright"):
        async with Engine(path):
            pass
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET version = 99 WHERE kind = 'agent.replied'",
        "UPDATE events SET version = 99, kind = 'agent.dreamt' WHERE kind = 'agent.replied'",
        """UPDATE events SET version = 99, data = '{"mood":"new"}' WHERE kind = 'agent.replied'""",
    ],
)
async def test_a_newer_record_is_refused_with_a_clear_message(change: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await a_run(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(change)
    async with Engine(path) as engine:
        with pytest.raises(JournalTooNew, match=r"newer version of Teamwright"):
            await engine.runs.history(RUN_ID)


def test_a_database_gets_every_step_that_it_has_not_had() -> None:
    steps: list[str] = []

    def step(name: str) -> object:
        def run(execute: Execute) -> None:
            steps.append(name)

        return run

    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        made = (step("one"), step("two"), step("three"))
        migrate("x.db", 1, database.execute, made)  # pyright: ignore[reportArgumentType]
        assert steps == ["two", "three"]
        assert database.execute("PRAGMA user_version").fetchone() == (3,)
        migrate("x.db", 3, database.execute, made)  # pyright: ignore[reportArgumentType]
        assert steps == ["two", "three"]


async def test_a_database_has_had_every_step_once_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await a_run(path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    async with Engine(path) as engine:
        assert (await engine.runs.result(RUN_ID)).status == "completed"
