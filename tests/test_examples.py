"""Every example runs offline as it stands, and ends as its story says."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, load_team

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.mark.parametrize(
    ("name", "stop_reason", "speakers", "last_words"),
    [
        ("sequential", "done", ["reporter", "analyst", "writer"], "warned a day ahead."),
        ("round_robin", "terminated", ["author", "critic", "chair"] * 2, "loses nothing."),
    ],
)
async def test_an_example_tells_its_story(name: str, stop_reason: str, speakers: list[str], last_words: str) -> None:
    folder = EXAMPLES / name
    async with Engine("memory") as engine:
        result = await engine.run(load_team(folder), (folder / "task.txt").read_text())
    assert (result.status, result.stop_reason) == ("completed", stop_reason)
    assert [message.name for message in result.messages] == speakers
    assert result.output is not None
    assert result.output.endswith(last_words)


@pytest.mark.parametrize("name", ["sequential", "round_robin"])
async def test_the_ark_samples_run_unchanged_with_agents_from_a_second_file(name: str) -> None:
    ark = EXAMPLES / "ark"
    team = load_team(ark / f"{name}.yaml", ark / "agents.yaml", model=f"scripted:{ark / 'replies.yaml'}")
    async with Engine("memory") as engine:
        result = await engine.run(team, "What shall we call the new reading room?")
    assert result.status == "completed"
    assert result.messages


async def test_the_banking_demo_runs_unchanged() -> None:
    bank = EXAMPLES / "ark" / "banking"
    team = load_team(bank / "team.yaml", bank / "agents.yaml", model=f"scripted:{bank / 'replies.yaml'}")
    async with Engine("memory") as engine:
        result = await engine.run(team, "What's my account balance and what loans do you offer?")
    assert [message.name for message in result.messages] == ["inquiry-router", "account-helper", "loan-advisor"]
    assert result.status == "completed"


def test_the_first_team_is_made_for_the_embedded_model() -> None:
    team = load_team(EXAMPLES / "first_team")
    assert [member.name for member in team.members] == ["historian", "sceptic", "editor"]
