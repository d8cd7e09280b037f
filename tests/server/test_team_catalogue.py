from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.errors import UnknownName, UsageError
from teamwright.server.team_catalogue import MOST_ENTRIES, Catalogue
from tests.kit.terminal import TEAM, write_team
from tests.server.conftest import PAIR, REPLIES


def test_teams_are_found_in_the_given_folders_alone(tmp_path: Path) -> None:
    write_team(tmp_path / "given" / "duo", TEAM)
    write_team(tmp_path / "other" / "secret", TEAM)
    (tmp_path / "given" / "link").symlink_to(tmp_path / "other" / "secret", target_is_directory=True)
    catalogue = Catalogue([tmp_path / "given"])
    assert [one.id for one in catalogue.entries()] == ["duo"]
    for id_ in ("secret", "link", "../other/secret", str(tmp_path / "other" / "secret")):
        with pytest.raises(UnknownName):
            catalogue.load(id_)


def test_a_manifest_with_mistakes_is_listed_with_them(tmp_path: Path) -> None:
    write_team(tmp_path / "broken", "teams: {t: {members: [nobody]}}")
    (entry,) = Catalogue([tmp_path]).entries()
    assert entry.team is None
    assert "nobody" in str(entry.to_json()["problem"])


@pytest.mark.parametrize(
    "text", [b"teams: {t: {members: [nobody]}}", b"\xff\xfe", b"agents: {a: {model: scripted:no.yaml}}"]
)
def test_the_mistakes_of_a_team_that_is_started_name_no_path_of_this_machine(tmp_path: Path, text: bytes) -> None:
    write_team(tmp_path / "broken", "")
    (tmp_path / "broken" / "team.yaml").write_bytes(text)
    with pytest.raises(UsageError) as caught:
        Catalogue([tmp_path]).load("broken")
    assert str(tmp_path) not in str(caught.value)
    assert "team.yaml" in str(caught.value)


def test_a_link_in_the_place_of_a_manifest_leads_nowhere(tmp_path: Path) -> None:
    write_team(tmp_path / "other", TEAM)
    (tmp_path / "given" / "duo").mkdir(parents=True)
    (tmp_path / "given" / "team.yaml").symlink_to(tmp_path / "other" / "team.yaml")
    (tmp_path / "given" / "duo" / "team.yaml").symlink_to(tmp_path / "other" / "team.yaml")
    assert Catalogue([tmp_path / "given"]).ids() == []


def test_a_folder_of_one_team_is_that_team(tmp_path: Path) -> None:
    write_team(tmp_path / "duo", TEAM)
    assert Catalogue([tmp_path / "duo"]).ids() == ["duo"]


def test_code_that_fails_is_a_problem_of_its_team_alone(tmp_path: Path) -> None:
    write_team(tmp_path / "duo", PAIR, REPLIES)
    write_team(tmp_path / "broken", "agents: {a: {function: 'broken_code_of_a_team:run'}}\nteams: {t: {members: [a]}}")
    (tmp_path / "broken" / "broken_code_of_a_team.py").write_text("raise ValueError('oh')")
    found = {one.id: one.problem for one in Catalogue([tmp_path]).entries()}
    assert (found["duo"], found["broken"] != "") == ("", True)
    assert str(tmp_path) not in found["broken"]


def test_a_team_is_loaded_again_after_its_folder_or_the_environment_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_team(tmp_path / "duo", PAIR, REPLIES)
    catalogue = Catalogue([tmp_path])
    first = catalogue.load("duo")
    assert catalogue.load("duo") is first
    assert catalogue.entries()[0].team is first
    (tmp_path / "duo" / "replies.yaml").write_text(REPLIES.replace("one", "eno"))
    second = catalogue.load("duo")
    assert second is not first
    (tmp_path / "duo" / "data").mkdir()
    (tmp_path / "duo" / "data" / "new.txt").write_text("a file that a member may read")
    third = catalogue.load("duo")
    assert third is not second
    monkeypatch.setenv("SOME_SETTING", "new")
    assert catalogue.load("duo") is not third


def test_a_team_with_code_is_loaded_once(tmp_path: Path) -> None:
    write_team(tmp_path / "duo", "agents: {a: {function: 'code_of_a_team:run'}}\nteams: {t: {members: [a]}}")
    (tmp_path / "duo" / "code_of_a_team.py").write_text("def run(turn): return 'yes'")
    catalogue = Catalogue([tmp_path])
    assert catalogue.load("duo") is catalogue.load("duo")


def test_a_team_that_was_broken_and_is_mended_is_loaded(tmp_path: Path) -> None:
    write_team(tmp_path / "duo", PAIR, REPLIES)
    catalogue = Catalogue([tmp_path])
    catalogue.load("duo")
    (tmp_path / "duo" / "team.yaml").write_text("teams: {t: {members: [nobody]}}")
    with pytest.raises(UsageError):
        catalogue.load("duo")
    (tmp_path / "duo" / "team.yaml").write_text(PAIR)
    assert catalogue.load("duo").name == "pair"


def test_a_team_with_files_elsewhere_or_in_a_large_folder_is_loaded_each_time(tmp_path: Path) -> None:
    write_team(tmp_path / "teams" / "duo", PAIR.replace("replies.yaml", "../../shared.yaml"))
    (tmp_path / "shared.yaml").write_text(REPLIES)
    write_team(tmp_path / "teams" / "full", PAIR, REPLIES)
    for number in range(MOST_ENTRIES):
        (tmp_path / "teams" / "full" / f"{number}.txt").touch()
    write_team(tmp_path / "teams" / "linked", PAIR, REPLIES)
    (tmp_path / "data").mkdir()
    (tmp_path / "teams" / "linked" / "data").symlink_to(tmp_path / "data", target_is_directory=True)
    catalogue = Catalogue([tmp_path / "teams"])
    for id_ in ("duo", "full", "linked"):
        assert catalogue.load(id_) is not catalogue.load(id_)


SERVED = """
models:
  small: {url: "http://10.0.0.7:8000/v1", name: qwen}
  large: {url: "http://10.0.0.8:8000/v1", name: qwen}
  file: local:/srv/models/tiny.gguf
  known: {model: "openai:gpt-5-mini"}
agents: {a: {model: small}, b: {model: large}, c: {model: file}, d: {model: known}}
teams: {t: {members: [a, b, c, d]}}
"""


def test_clients_see_no_address_and_no_folder_of_a_model_and_can_choose_each(tmp_path: Path) -> None:
    write_team(tmp_path / "served", SERVED)
    catalogue = Catalogue([tmp_path])
    (entry,) = catalogue.entries()
    assert entry.to_json()["models"] == ["qwen", "qwen (2)", "local:tiny.gguf", "openai:gpt-5-mini"]
    assert "10.0.0" not in str(entry.to_json())
    chosen = {name: str(catalogue.model("served", name)[0]) for name in ("qwen", "qwen (2)", "local:tiny.gguf")}
    assert ["10.0.0.7" in chosen["qwen"], "10.0.0.8" in chosen["qwen (2)"]] == [True, True]
    assert chosen["local:tiny.gguf"] == "local:/srv/models/tiny.gguf"
    by_record, _ = catalogue.model("served", "qwen at http://10.0.0.8:8000/v1")
    assert str(by_record) == chosen["qwen (2)"]
    with pytest.raises(UnknownName) as caught:
        catalogue.model("served", "qwe")
    assert "10.0.0" not in str(caught.value)
