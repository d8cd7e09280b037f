"""From files to a team that runs, and from a run's record to the same team."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, load_team
from teamwright.agents.attachments import Attachment
from teamwright.errors import ManifestError, UsageError
from teamwright.teams.team_loader import (
    read_manifest,
    source_of,
    source_with_limits,
    source_with_model,
    team_from_source,
)
from teamwright.values.limits import Limits
from teamwright.values.specs.manifest import Source

MANIFEST = """
agents:
  writer: {model: primary, tools: [double]}
  judge: {model: primary, output_schema: {type: object, required: [n]}}
teams:
  report: {members: [writer, judge]}
models:
  primary: {url: "http://127.0.0.1:1/v1", name: tiny, api_key: "${MY_SERVICE}"}
tools:
  double: {function: "tests.teams.test_team_loader:double"}
"""
REPLIES = """
- {agent: writer, tool: {name: double, args: {n: 2}}, times: 1}
- {agent: writer, match: "tool double:\\n4", reply: four}
- {agent: judge, json: {n: 4}}
"""


def double(n: int) -> int:
    """Double a number."""
    return 2 * n


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "team.yaml").write_text(MANIFEST)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    return tmp_path


async def test_tools_and_schemas_hold_when_a_script_replaces_the_models(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SERVICE", "not needed")
    team = load_team(folder / "team.yaml", model=f"scripted:{folder / 'replies.yaml'}")
    warnings = team.warnings
    assert not warnings
    async with Engine("memory") as engine:
        result = await engine.run(team, "go")
    assert result.status == "completed", result.failure
    assert [message.content for message in result.messages] == ["four", '{"n":4}']
    assert result.data == {"n": 4}


async def test_a_reply_that_breaks_the_schema_fails_under_a_script_too(folder: Path) -> None:
    (folder / "replies.yaml").write_text("- {reply: nonsense}")
    team = load_team(folder / "team.yaml", model=f"scripted:{folder / 'replies.yaml'}")
    async with Engine("memory") as engine:
        result = await engine.run(team, "go")
    assert result.failure is not None
    assert result.failure.error == "invalid_output"


def test_a_script_on_the_command_line_lies_where_the_user_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    loaded = read_manifest([folder / "team.yaml"], models_replaced=True)
    source = source_of(loaded, model="scripted:replies.yaml")
    assert source.manifest.agents["writer"].model == f"scripted:{folder / 'replies.yaml'}"
    again = source_with_model(source, model="scripted:other.yaml")
    assert again.manifest.agents["writer"].model == f"scripted:{folder / 'other.yaml'}"


def test_a_source_holds_no_secrets_and_the_team_knows_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVICE", "very-secret-value")
    source = source_of(read_manifest([folder / "team.yaml"]))
    assert "very-secret-value" not in source.model_dump_json()
    team = team_from_source(source)
    assert team.secrets == {"very-secret-value"}
    assert "very-secret-value" not in team.source.model_dump_json()


def test_a_secret_that_is_not_set_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_SERVICE", raising=False)
    with pytest.raises(ManifestError, match="MY_SERVICE"):
        load_team(folder / "team.yaml")


async def test_a_run_is_resumed_from_its_record_alone(folder: Path) -> None:
    (folder / "slow.yaml").write_text("- {agent: writer, reply: quick}\n- {agent: judge, json: {n: 1}, delay: 0.3}")
    team = load_team(folder / "team.yaml", model=f"scripted:{folder / 'slow.yaml'}")
    async with Engine(folder / "j.db") as engine:
        handle = await engine.start(team, "go", run_id="r")
        async for item in engine.runs.follow("r"):
            if getattr(item, "kind", "") == "agent.replied":
                break
        handle.interrupt()
        assert (await handle.result()).status == "interrupted"
    async with Engine(folder / "j.db") as engine:
        result = await engine.resume("r")
    assert (result.status, result.data) == ("completed", {"n": 1})


@pytest.mark.usefixtures("third_parties")
def test_a_model_in_options_is_in_the_record_as_an_agent(folder: Path) -> None:
    (folder / "race.yaml").write_text(
        "models: {primary: local}\n"
        "agents: {a: {model: primary}}\n"
        "teams: {t: {members: [a], strategy: relay-race, relay-race: {legs: [], model: primary}}}"
    )
    team = load_team(folder / "race.yaml")
    assert [helper.name for helper in team.helpers] == ["t-relay_race"]
    recorded = Source.model_validate_json(team.source.model_dump_json())
    again = team_from_source(recorded)
    assert [helper.name for helper in again.helpers] == ["t-relay_race"]
    assert again.settings == team.settings


def test_limits_of_a_run_take_the_place_of_those_of_its_outermost_team(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(
        "agents: {a: {model: scripted:replies.yaml, limits: {tokens: 5}}}\n"
        "teams: {t: {members: [a], limits: {tokens: 9, calls: 2}}, alone: {members: [a]}}\n"
    )
    (tmp_path / "replies.yaml").write_text("[]")
    source = source_of(read_manifest([tmp_path / "team.yaml"]), team="t")
    lifted = source_with_limits(source, Limits(tokens=100, seconds=3)).manifest
    assert lifted.teams["t"].limits == Limits(calls=2)
    assert lifted.agents["a"].limits == Limits(tokens=5)
    free = source.model_copy(update={"team": "alone"})
    assert source_with_limits(free, Limits(tokens=1)) is free
    agent = source_with_limits(source.model_copy(update={"team": "a"}), Limits(tokens=1)).manifest
    assert agent.agents["a"].limits == Limits()


ATTACHING = """\
agents:
  looker: {model: scripted:replies.yaml}
teams:
  watch:
    members: [looker]
    attachments: [photo.png, docs/notes.md]
"""


def _attaching_team(folder: Path, attachments: str = "[photo.png, docs/notes.md]") -> Path:
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "docs" / "notes.md").write_text("Short.")
    (folder / "replies.yaml").write_text("- {reply: seen}\n")
    manifest = folder / "team.yaml"
    manifest.write_text(ATTACHING.replace("[photo.png, docs/notes.md]", attachments))
    return manifest


async def test_the_files_of_a_team_go_with_its_task_once_in_a_conversation(tmp_path: Path) -> None:  # L-A-7
    team = load_team(_attaching_team(tmp_path))
    async with Engine("memory") as engine:
        result = await engine.run(team, "Look.", attachments=[Attachment(b"more", "more.txt")])
        assert [one.name for one in result.attachments] == ["photo.png", "notes.md", "more.txt"]
        (tmp_path / "photo.png").unlink()
        continued = await engine.run(team, "And now?", continues=result.run_id)
        forked = await engine.fork(result.run_id, at=1)
    assert continued.attachments == ()
    assert forked.attachments == result.attachments


@pytest.mark.parametrize(
    ("attachments", "reason"),
    [
        ("[photo.png, gone.png]", "gone.png' can't be attached: No such file or directory."),
        ("[docs]", "docs' can't be attached: it is a folder."),
        ("[empty.md]", "The file 'empty.md' is empty"),
        ("photo.png", "expects a list"),
    ],
)
def test_a_file_that_a_team_can_not_attach_is_a_mistake_with_its_line(
    tmp_path: Path, attachments: str, reason: str
) -> None:  # L-A-7
    manifest = _attaching_team(tmp_path, attachments)
    (tmp_path / "empty.md").touch()
    with pytest.raises(ManifestError) as found:
        load_team(manifest)
    (problem,) = found.value.problems
    assert reason in str(problem)
    assert problem.line == 6


def test_a_team_attaches_no_file_outside_the_folders_that_are_allowed(tmp_path: Path) -> None:  # L-A-7
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret.txt").write_text("private")
    (home / "link.txt").symlink_to(tmp_path / "secret.txt")
    for attachment in ("[../secret.txt]", "[link.txt]"):
        manifest = _attaching_team(home, attachment)
        with pytest.raises(UsageError, match=r"would attach the file .*secret\.txt'.*--allow-root"):
            load_team(manifest)
        assert load_team(manifest, allow_roots=[tmp_path]).attachments == ((tmp_path / "secret.txt").resolve(),)
