from pathlib import Path

import pytest

from teamwright.agents.clients.client_pool import Models
from teamwright.cluster.run_requirements import CodeFolder
from teamwright.cluster.submission import PreparedTeam, prepare_team
from teamwright.errors import UsageError
from teamwright.teams.manifests.manifest_loader import load
from teamwright.teams.team_loader import source_of

TOOLS = "def answer(text: str) -> str:\n    return text\n"


def prepare(folder: Path, manifest: str, code: Path | None = None) -> PreparedTeam:
    (folder / "team.yaml").write_text(manifest)
    source = source_of(load([folder / "team.yaml"]))
    return prepare_team(source, Models(), code=None if code is None else CodeFolder(code))


def test_code_beside_the_manifest_needs_a_folder_with_code(tmp_path: Path) -> None:
    (tmp_path / "answers.py").write_text(TOOLS)
    manifest = "agents: {one: {function: 'answers:answer'}}"
    with pytest.raises(UsageError, match=r"'answers:answer' of agent 'one' .* --code DIR"):
        prepare(tmp_path, manifest)
    prepared = prepare(tmp_path, manifest, code=tmp_path)
    assert prepared.code == CodeFolder(tmp_path).digest
    assert prepared.files == {}
    assert prepared.team.declared is not None
    assert prepared.team.declared.module_folder == str(tmp_path)


def test_code_that_is_installed_needs_no_folder(tmp_path: Path) -> None:
    prepared = prepare(tmp_path, "agents: {one: {function: 'textwrap:dedent'}}")
    assert prepared.code == ""


def test_a_program_of_an_mcp_server_must_be_in_the_folder_with_code(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "server.py").write_text("")
    (tmp_path / "elsewhere").mkdir()
    manifest = "agents: {one: {model: 'openai:x', tools: [{mcp: {command: [python, server.py]}}]}}"
    for code in (None, tmp_path / "elsewhere"):
        with pytest.raises(UsageError, match=r"server\.py"):
            prepare(tmp_path / "team", manifest, code=code)
    assert prepare(tmp_path / "team", manifest, code=tmp_path).code


def test_a_program_that_checks_work_must_be_found_from_any_folder(tmp_path: Path) -> None:
    manifest = "agents: {{one: {{model: 'openai:x', evaluate: {{criteria: [{{id: own, command: [{program}]}}]}}}}}}"
    for program in ("./check.sh", "tools/check"):
        with pytest.raises(UsageError, match=r"absolute path"):
            prepare(tmp_path, manifest.format(program=program))
    for program in ("ruff", "/usr/bin/check"):
        assert prepare(tmp_path, manifest.format(program=program)).code == ""


def test_a_secret_in_the_manifest_itself_is_refused(tmp_path: Path) -> None:
    manifest = "agents: {one: {model: {url: 'http://localhost:1/v1', name: x, api_key: s3cret-0123456789}}}"
    with pytest.raises(UsageError, match=r"write it as \$\{NAME\}"):
        prepare(tmp_path, manifest)


def test_a_secret_by_name_stays_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "s3cret-0123456789")
    manifest = "agents: {one: {model: {url: 'http://localhost:1/v1', name: x, api_key: '${HOUSE_KEY}'}}}"
    prepared = prepare(tmp_path, manifest)
    assert prepared.team.declared is not None
    text = prepared.team.declared.model_dump_json()
    assert "${HOUSE_KEY}" in text
    assert "s3cret" not in text


def test_a_root_in_the_folder_of_the_manifest_that_is_absolute_is_refused_unless_it_is_allowed(tmp_path: Path) -> None:
    root = tmp_path / "team" / "data"
    root.mkdir(parents=True)
    (tmp_path / "team" / "replies.yaml").write_text("rules: [{reply: fine}]\n", encoding="utf-8")
    written = f"agents: {{one: {{model: 'scripted:replies.yaml', tools: [{{files: {{folder: '{root}'}}}}]}}}}"
    path = tmp_path / "team" / "team.yaml"
    path.write_text(f"{written}\nteams: {{duo: {{members: [one]}}}}\n", encoding="utf-8")
    loaded = load([path])
    with pytest.raises(UsageError, match=rf"No worker could drive .*--allow-root {root}"):
        prepare_team(source_of(loaded), Models())
    assert prepare_team(source_of(loaded, allow_roots=[root]), Models()).files.keys() == {"replies.yaml"}
