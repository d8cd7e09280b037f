from pathlib import Path

import pytest

from teamwright.cluster.submission import pack
from teamwright.errors import UsageError
from teamwright.teams import run_files as files
from teamwright.teams.manifests.manifest_loader import load
from teamwright.teams.team_loader import source_of
from teamwright.values.specs.manifest import Source

REPLIES = "rules: [{reply: hello}]\n"
SKILL = "---\nname: review\ndescription: How to review.\n---\nRead it.\n"


def source_in(folder: Path, manifest: str) -> Source:
    folder.mkdir(exist_ok=True)
    (folder / "team.yaml").write_text(manifest)
    return source_of(load([folder / "team.yaml"]))


def test_scripts_travel_under_their_own_paths(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "replies.yaml").write_text(REPLIES)
    manifest = """
agents:
  one: {model: scripted:replies.yaml}
  two: {model: named, economy: "scripted:replies.yaml", fallback: {model: "scripted:replies.yaml"}}
teams: {both: {members: [one, two]}}
models: {named: "scripted:replies.yaml"}
"""
    packed = pack(source_in(tmp_path / "team", manifest))
    assert packed.files == {"replies.yaml": REPLIES.encode()}
    assert packed.source.manifest.agents["one"].model == "scripted:replies.yaml"


def test_a_file_outside_the_folder_travels_only_where_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text(REPLIES)
    source = source_in(tmp_path / "team", "agents: {one: {model: scripted:../replies.yaml}}")
    with pytest.raises(UsageError, match="--allow-root"):
        pack(source)
    packed = pack(source, allow=[tmp_path])
    (path,) = packed.files
    assert path.startswith("outside-")
    assert packed.source.manifest.agents["one"].model == f"scripted:{path}"


def test_a_link_that_leads_out_of_the_folder_is_followed_only_where_it_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text(REPLIES)
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "replies.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(UsageError, match="outside the folder"):
        pack(source_in(tmp_path / "team", "agents: {one: {model: scripted:replies.yaml}}"))


@pytest.mark.experts
def test_skills_travel_whole_and_stay_pinned(tmp_path: Path) -> None:
    folder = tmp_path / "team" / "skills" / "review"
    (folder / "notes").mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)
    (folder / "notes" / "more.md").write_text("More.")
    (folder / ".hidden").write_text("Not part of it.")
    (folder / "out.md").symlink_to("/etc/hostname")
    manifest = "agents: {one: {model: 'test:x', tools: [{skills: {folder: [skills]}}]}}\n"
    source = source_in(tmp_path / "team", manifest.replace("'test:x'", "'openai:x'"))
    packed = pack(source)
    assert packed.files.keys() == {"skills/review/SKILL.md", "skills/review/notes/more.md"}
    assert packed.source.manifest == source.manifest


@pytest.mark.experts
def test_skills_outside_the_folder_are_pinned_under_the_path_at_which_they_travel(tmp_path: Path) -> None:
    (tmp_path / "shared" / "review").mkdir(parents=True)
    (tmp_path / "shared" / "review" / "SKILL.md").write_text(SKILL)
    source = source_in(
        tmp_path / "team", "agents: {one: {model: 'openai:x', tools: [{skills: {folder: [../shared/review]}}]}}"
    )
    packed = pack(source, allow=[tmp_path / "shared"])
    (path,) = packed.files
    tool = packed.source.manifest.agents["one"].tools[0]
    assert not isinstance(tool, str)
    settings = (tool.model_extra or {})["skills"]
    assert settings["folder"] == [path.removesuffix("/SKILL.md")]
    assert settings["pinned"][0]["folder"] == path.removesuffix("/SKILL.md")


@pytest.mark.parametrize(
    "declared", ["tools: [{files: {folder: notes}}], model: 'openai:x'", "model: 'local:weights/small.gguf'"]
)
def test_what_a_worker_would_not_find_is_refused(tmp_path: Path, declared: str) -> None:
    source = source_in(tmp_path / "team", f"agents: {{one: {{{declared}}}}}")
    with pytest.raises(UsageError, match="absolute path"):
        pack(source)


def test_a_path_with_a_variable_is_resolved_on_the_worker(tmp_path: Path) -> None:
    packed = pack(source_in(tmp_path / "team", "agents: {one: {model: 'scripted:${PLACE}/replies.yaml'}}"))
    assert packed.files == {}
    assert packed.source.manifest.agents["one"].model == "scripted:${PLACE}/replies.yaml"


def test_a_file_with_a_secret_of_the_manifest_is_refused(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "replies.yaml").write_text("rules: [{reply: the key is k3y-0123456789}]\n")
    source = source_in(tmp_path / "team", "agents: {one: {model: scripted:replies.yaml}}")
    with pytest.raises(UsageError, match="contains a secret"):
        pack(source, secrets=["k3y-0123456789"])


def test_a_large_file_is_refused_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_FILE", 10)
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "replies.yaml").write_text(REPLIES)
    with pytest.raises(UsageError, match=r"'replies.yaml' has"):
        pack(source_in(tmp_path / "team", "agents: {one: {model: scripted:replies.yaml}}"))
