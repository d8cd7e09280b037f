"""A terminal for tests: calls the program in this process, with input, and keeps what it wrote."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from teamwright.cli.main import main

REPLIES = """\
rules:
  - agent: writer
    reply: |
      A B-tree keeps its keys sorted.
      Its nodes are wide.
  - agent: critic
    match: sorted
    reply: That is right, and short.
"""
TEAM = """\
agents:
  writer: {model: primary, instructions: Write.}
  critic: {model: primary, instructions: Judge.}
teams:
  report: {strategy: sequential, members: [writer, critic]}
models:
  primary: scripted:replies.yaml
"""


@dataclass(frozen=True, slots=True)
class Called:
    """The exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Call = Callable[..., Called]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the program; paths are strings after `str()`, and `stdin` is what it can read."""
    monkeypatch.setattr(sys, "path", list(sys.path))

    def calling(*arguments: object, stdin: str | bytes = "") -> Called:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Called(code, out, err)

    return calling


@pytest.fixture
def team(tmp_path: Path) -> Path:
    """A folder with a team of two that runs offline."""
    return write_team(tmp_path / "report", TEAM, REPLIES)


DESK = """\
agents:
  clerk: {model: primary}
teams:
  desk: {members: [clerk]}
models:
  primary: scripted:replies.yaml
"""
"""A team of one scripted agent, for conversations."""


def write_team(folder: Path, team: str, replies: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "team.yaml").write_text(team)
    if replies:
        (folder / "replies.yaml").write_text(replies)
    return folder
