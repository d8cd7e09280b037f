"""Whatever a row of the journal holds: commands report it clearly, and other runs are unaffected.  # S-08"""

from __future__ import annotations

import io
import os
import random
import shutil
import sqlite3
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from teamwright.cli.main import commands
from teamwright.cli.terminal.errors import guarded
from teamwright.journal.codec import NUMBERS
from tests.journal.tampering import Tampering, loosened, tamperings
from tests.profiles import is_thorough, sampled

MANIFEST = """\
agents:
  counter: {function: "tests.cli.parcel_agents:count"}
  teller: {function: "tests.cli.parcel_agents:tell"}
  writer: {model: scripted:replies.yaml, tools: [workspace]}
  broken: {model: scripted:replies.yaml, retry: {times: 0}}
  chooser: {function: "tests.cli.people:ask"}
teams:
  inner: {members: [writer]}
  whole: {members: [counter, teller, inner], limits: {calls: 100}}
  failing: {members: [writer, broken]}
  asking: {members: [writer, chooser]}
"""
REPLIES = """\
rules:
  - {agent: writer, times: 1, tool: {name: write_value, args: {name: n, value: 1}}}
  - {agent: writer, times: 1, tool: {name: keep_artifact, args: {name: book, text: a long text}}}
  - {agent: writer, reply: Written.}
  - {agent: broken, error: server}
"""
OTHER = """\
agents:
  clerk: {model: scripted:others.yaml}
  caller: {function: "tests.cli.people:ask"}
teams:
  office: {members: [clerk, caller]}
"""
UNTOUCHED = "untouched"
"""A run that shares no text with the others, because a shared text is stored once and damaged for all."""
CASES = int(os.environ.get("TAMPERED_JOURNALS", 720 if is_thorough() else sampled(24, 72)))
"""The number of cases tried, of about ten thousand; a build always tries the same ones."""
LOTS = 6
COMMAND = commands()
"""Made once, because it takes longer than most commands."""


@dataclass(frozen=True)
class Said:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str


def call(*arguments: object) -> Said:
    out, err = io.StringIO(), io.StringIO()
    kept, sys.stdin = sys.stdin, io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = guarded(lambda: COMMAND.main([str(one) for one in arguments], "teamwright", standalone_mode=False))
    finally:
        sys.stdin = kept
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with runs of every ending, whose columns accept any value."""
    folder = tmp_path_factory.mktemp("tampered")
    (folder / "team.yaml").write_text(MANIFEST)
    (folder / "replies.yaml").write_text(REPLIES)
    team = folder / "team.yaml"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEAMWRIGHT_HOME", str(folder))
        for name, run_id in (("whole", "done"), ("failing", "failed"), ("asking", "paused"), ("whole", "cut")):
            said = call("run", team, "Count.", "--team", name, "--run-id", run_id, "--no-input", "--quiet")
            assert said.code in {0, 1, 3, 7}, said.err
        call("runs", "answer", "paused", "red", "--by", "Ada")
        call("runs", "fork", "done", "--run-id", "forked", "--quiet")
        (folder / "others.yaml").write_text("rules: [{reply: Filed.}]")
        (folder / "other.yaml").write_text(OTHER)
        call("run", folder / "other.yaml", "File it.", "--run-id", UNTOUCHED, "--quiet", "--no-input")
        _cut_off(folder / "journal.db", "cut")
        assert {line.split()[0] for line in call("runs", "list").out.splitlines()[1:]} == {
            "done", "failed", "paused", "cut", "forked", UNTOUCHED,
        }  # fmt: skip
    return loosened(folder / "journal.db", folder / "loose.db")


def _cut_off(path: Path, run_id: str) -> None:
    """Leave a run as if its process had been killed."""
    connection = sqlite3.connect(path)
    (place,) = connection.execute("SELECT place FROM runs WHERE id = ?", (run_id,)).fetchone()
    (last,) = connection.execute("SELECT max(position) FROM events WHERE position / ? = ?", (NUMBERS, place)).fetchone()
    connection.execute("DELETE FROM events WHERE position > ? AND position <= ?", (last - 8, last))
    connection.execute("UPDATE runs SET status = NULL, stop_reason = NULL, number = 1 WHERE id = ?", (run_id,))
    connection.commit()
    connection.close()


READING = (
    ("list",), ("list", "--json"), ("show", "RUN"), ("show", "RUN", "--json"), ("show", "RUN", "--follow"),
    ("show", "RUN", "--follow", "--events"), ("logs", "RUN"), ("diff", "RUN", UNTOUCHED), ("diff", UNTOUCHED, "RUN"),
    ("kpi", "RUN"), ("kpi", "RUN", "--json"), ("export", "RUN"), ("steer", "RUN", "checkpoint"), ("answer", "RUN"),
    ("delete", "--keep", "0"), ("show", "last"),
)  # fmt: skip
CHANGING = (
    ("answer", "RUN", "red"), ("fork", "RUN", "--quiet", "--no-input"), ("fork", "RUN", "--retry", "--quiet"),
    ("resume", "RUN", "--quiet", "--no-input"), ("steer", "RUN", "pause"), ("cancel", "RUN"),
    ("delete", "--keep", "0", "--yes"), ("delete", "--yes", "--status", "interrupted"),
)  # fmt: skip


def check(journal: Path, home: Path, tampering: Tampering) -> None:
    """Run every command on a damaged journal."""
    home.mkdir()
    path = home / "journal.db"
    shutil.copy(journal, path)
    before = _other(path)
    connection = sqlite3.connect(path)
    connection.text_factory = bytes
    try:
        tampering.apply(connection)
    except (sqlite3.IntegrityError, OverflowError, UnicodeEncodeError):  # not even a loose table can hold it
        connection.close()
        return
    connection.commit()
    connection.close()
    for command in (*READING, *CHANGING):
        given = [tampering.run_id or "done" if part == "RUN" else part for part in command]
        said = call("runs", *given)
        told = f"{tampering}: runs {' '.join(given)} exits with {said.code}\n{said.err}"
        assert "unexpected" not in said.err, told
        assert "Traceback" not in said.err, told
        assert said.code in range(8), told
        assert said.err or said.code not in {1, 2}, told
        assert "\x1b" not in said.out + said.err, told
        if command[0] == "list" and tampering.how != "all rows deleted":
            assert UNTOUCHED in said.out, told
    if tampering.how != "all rows deleted":
        assert _other(path) == before, str(tampering)
    shutil.rmtree(home)


def _other(path: Path) -> str:
    """Everything that commands show of the undamaged run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEAMWRIGHT_HOME", str(path.parent))
        said = call("runs", "export", UNTOUCHED)
    assert said.code == 0, said.err
    return said.out


@pytest.mark.parametrize("lot", range(LOTS))
def test_a_damaged_row_is_reported_and_never_breaks_another_run(
    lot: int, journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # S-08
    monkeypatch.setattr(sys, "path", list(sys.path))
    chosen = [one for one in tamperings(journal) if one.run_id != UNTOUCHED]
    random.Random(7).shuffle(chosen)
    for number, tampering in enumerate(chosen[lot : max(CASES, LOTS) : LOTS]):
        home = tmp_path / f"case-{number}"
        monkeypatch.setenv("TEAMWRIGHT_HOME", str(home))
        check(journal, home, tampering)
