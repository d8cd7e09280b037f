"""What the shell offers for the last word of a command line."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from teamwright.cli import main
from tests.kit.terminal import Call, write_team


def completed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> list[str]:
    """Return the words that the shell offers."""
    monkeypatch.setenv("_TEAMWRIGHT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with suppress(SystemExit):
        main.main([])
    monkeypatch.delenv("_TEAMWRIGHT_COMPLETE")
    return capsys.readouterr().out.split()


def test_the_shell_completes_runs_members_teams_and_conversations(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    team = write_team(
        tmp_path / "bakery",
        "agents: {baker: {model: scripted:replies.yaml}, buyer: {model: scripted:replies.yaml}}\n"
        "teams: {bakery: {members: [baker, buyer]}}\n",
        "rules: [{reply: done}]\n",
    )

    def offered(line: str) -> list[str]:
        return completed(monkeypatch, capsys, line)

    assert offered("teamwright runs show ") == []
    assert not (tmp_path / "home" / "journal.db").exists()
    call("run", team, "Bake", "--run-id", "bread", "--conversation", "rolls")
    assert offered("teamwright runs show ") == ["last", "bread"]
    assert offered("teamwright runs show b") == ["bread"]
    assert offered("teamwright runs steer bread s") == ["say", "stop"]
    assert offered("teamwright runs steer bread pause b") == ["baker", "buyer"]
    assert offered("teamwright runs logs nothing --member ") == []
    assert offered("teamwright runs logs bread --member ") == ["baker", "buyer"]
    assert offered("teamwright runs conversations r") == ["rolls"]
    assert offered(f"teamwright show {team} --team ba") == ["bakery", "baker"]
    assert offered(f"teamwright show {tmp_path}/none --team ba") == []
