"""A run never overwrites what it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.terminal import REPLIES, TEAM, Call, write_team


@pytest.mark.parametrize("name", ["team.yaml", "replies.yaml", "task.txt", "more.yaml", "link.yaml", "stand_in.yaml"])
def test_a_file_that_the_run_reads_is_not_written(call: Call, tmp_path: Path, name: str) -> None:
    team = TEAM.replace("Write.", "Write., fallback: {model: 'scripted:stand_in.yaml'}")
    folder = write_team(tmp_path / "team", team, REPLIES)
    (folder / "stand_in.yaml").write_text(REPLIES)
    (folder / "task.txt").write_text("Explain B-trees")
    (folder / "more.yaml").write_text("teams: {short: {members: [writer]}}")
    (folder / "link.yaml").hardlink_to(folder / "team.yaml")
    before = (folder / name).read_text()
    read = ("--with", folder / "more.yaml", "--file", folder / "task.txt", "--team", "report")
    done = call("run", folder / "team.yaml", *read, "--out", folder / name)
    assert done.code == 2
    assert f"--out '{folder / name}' would overwrite a file that this run reads" in done.err
    assert (folder / name).read_text() == before
    assert call("runs", "list", "--json").json == []


def test_a_script_that_is_given_in_place_of_the_models_is_not_written(call: Call, team: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text(REPLIES)
    assert call("run", team, "Explain", "--model", f"scripted:{script}", "--out", script).code == 2
    assert call("run", team, "Explain", "--run-id", "one").code == 0
    assert call("run", "--continue", "one", "More", "--out", team / "replies.yaml").code == 2
