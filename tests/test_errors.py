"""The exception tree: drawn as it is, with helpful messages."""

from __future__ import annotations

import json
import re
from importlib.metadata import metadata

import pytest

from teamwright import errors
from teamwright.cli.doctor import EXTRAS
from teamwright.cli.main import main
from teamwright.errors import (
    AgentError,
    DuplicateKey,
    DuplicateName,
    InvalidName,
    ManifestError,
    MemberFailed,
    MissingExtra,
    NonDeterminism,
    Problem,
    RunIsLive,
    RunNotFound,
    TeamwrightError,
    UnknownName,
    UsageError,
    a,
    nearest,
)
from teamwright.install_command import install_command, installer, origin_in
from teamwright.wings import find_wings
from tests.paths import ROOT


def below(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(below(one) for one in kind.__subclasses__() if one.__module__ == errors.__name__))


def test_the_tree_at_the_top_of_the_file_names_every_error() -> None:
    drawn = set(re.findall(r"[├└]── (\w+)", errors.__doc__ or "")) | {"TeamwrightError"}
    assert drawn == {kind.__name__ for kind in below(TeamwrightError)}


def test_the_tree_is_drawn_with_the_right_parents() -> None:
    path: list[str] = ["TeamwrightError"]
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"([│ ]*)[├└]── (\w+)", line):
            depth = len(found[1]) // 4 + 1
            path[depth:] = [found[2]]
            parent, child = getattr(errors, path[depth - 1]), getattr(errors, found[2])
            assert issubclass(child, parent), f"{child.__name__} is drawn below {parent.__name__}"


def test_every_agent_error_has_its_own_kind() -> None:
    kinds = [kind.kind for kind in below(AgentError) if issubclass(kind, AgentError) and kind is not MemberFailed]
    assert len(kinds) == len(set(kinds))


def test_only_transient_errors_are_retried() -> None:
    retryable = {kind.kind for kind in below(AgentError) if issubclass(kind, AgentError) and kind.retryable}
    assert retryable == {"rate_limit", "timeout", "server"}


def test_a_problem_shows_its_place_and_its_hint() -> None:
    assert str(Problem("wrong")) == "wrong"
    assert str(Problem("wrong", "a.yaml")) == "a.yaml: wrong"
    assert str(Problem("wrong", "a.yaml", 3, 7, "do this")) == "a.yaml:3:7: wrong (do this)"


def test_a_manifest_error_shows_all_its_problems() -> None:
    error = ManifestError([Problem("one"), Problem("two")])
    assert str(error) == "one\ntwo"
    assert len(error.problems) == 2


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UnknownName("agent", "writr", ["writer", "reader"]), "no agent 'writr'; did you mean 'writer'?"),
        (UnknownName("agent", "x", ["writer", "reader"]), "known are reader, writer"),
        (UnknownName("agent", "x", []), "none is known"),
        (DuplicateName("agent", "x"), "already an agent 'x'"),
        (DuplicateName("team", "x"), "already a team 'x'"),
        (InvalidName("run", "a b", "a-b"), "'a b' can't name a run"),
        (MissingExtra("models", "Talking"), install_command("models")),
        (RunNotFound("run-one", ["run-on"]), "did you mean 'run-on'"),
        (RunNotFound("zzz", ["r2"]), "teamwright runs list"),
        (RunIsLive("r1"), "teamwright runs cancel r1"),
        (DuplicateKey("a/b"), "'a/b' is used twice"),
        (NonDeterminism("r", "one thing", "does another"), "one thing, the program now does another"),
    ],
)
def test_an_error_names_the_thing_and_the_next_step(error: TeamwrightError, text: str) -> None:
    assert text in str(error)


def test_what_the_caller_can_fix_is_a_usage_error() -> None:
    assert isinstance(RunNotFound("r"), UsageError)
    assert not isinstance(RunIsLive("r"), UsageError)


def test_names_that_differ_in_case_are_near() -> None:
    assert nearest("WRITER", ["writer"]) == "did you mean 'writer'?"


@pytest.mark.parametrize(
    ("name", "known", "suggested"),
    [
        ("helpers", ["expert", "members"], "known are expert, members."),
        ("modle", ["model", "members"], "did you mean 'model'?"),
        ("instuctions", ["instructions"], "did you mean 'instructions'?"),
        ("limit", ["limits", "live"], "did you mean 'limits'?"),
        ("opts", ["options"], "did you mean 'options'?"),
        ("agent_name", ["agent", "name"], "did you mean 'agent'?"),
    ],
)
def test_a_suggestion_is_a_name_that_may_have_been_meant(name: str, known: list[str], suggested: str) -> None:
    assert nearest(name, known) == suggested


def test_many_names_are_cut_short() -> None:
    assert nearest("zz", [f"name-{number}" for number in range(40)]).endswith("…")


def test_the_article_fits_the_word() -> None:
    assert (a("agent"), a("team")) == ("an agent", "a team")


FOLDER = {"url": "file:///srv/my%20code/teamwright", "dir_info": {}}
EDITABLE = {**FOLDER, "dir_info": {"editable": True}}
WHEEL = {"url": "file:///wheels/teamwright-0.1.0-py3-none-any.whl", "archive_info": {}}
GIT = {"url": "https://git.example/teamwright.git", "vcs_info": {"vcs": "git", "commit_id": "1f2e3d"}}
REVISION = {**GIT, "vcs_info": {"vcs": "git", "commit_id": "1f2e3d", "requested_revision": "v0.1.0"}}
ARCHIVE = {"url": "https://files.example/teamwright-0.1.0.tar.gz", "archive_info": {}}


@pytest.mark.parametrize(
    ("said", "command"),
    [
        (FOLDER, "pip install '/srv/my code/teamwright[models]'"),
        (EDITABLE, "pip install -e '/srv/my code/teamwright[models]'"),
        (WHEEL, "pip install '/wheels/teamwright-0.1.0-py3-none-any.whl[models]'"),
        (GIT, "pip install 'teamwright[models] @ git+https://git.example/teamwright.git@1f2e3d'"),
        (REVISION, "pip install 'teamwright[models] @ git+https://git.example/teamwright.git@v0.1.0'"),
        (
            {**GIT, "subdirectory": "py"},
            "pip install 'teamwright[models] @ git+https://git.example/teamwright.git@1f2e3d#subdirectory=py'",
        ),
        (ARCHIVE, "pip install 'teamwright[models] @ https://files.example/teamwright-0.1.0.tar.gz'"),
        (None, "pip install 'teamwright[models]'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came_from(
    said: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = None if said is None else json.dumps(said)
    monkeypatch.setattr("teamwright.install_command._origin", lambda: ("pip install", *origin_in(written)))
    assert install_command("models") == command
    assert str(MissingExtra("models", "Talking")).endswith(command)


@pytest.mark.parametrize(
    ("by_uv", "on_path", "active", "command"),
    [
        (False, True, None, "pip install"),
        (False, False, None, "'/my venv/bin/python' -m pip install"),
        (True, False, "/my venv", "uv pip install"),
        (True, True, "/other", "uv pip install --python '/my venv/bin/python'"),
    ],
)
def test_an_extra_is_installed_into_the_environment_that_misses_it(
    by_uv: bool, on_path: bool, active: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/my venv/bin/python")
    monkeypatch.setattr("sys.prefix", "/my venv")
    monkeypatch.setattr("shutil.which", lambda _name: "/my venv/bin/pip" if on_path else "/usr/bin/pip")
    monkeypatch.setenv("VIRTUAL_ENV", active or "")
    assert installer(by_uv=by_uv) == command


def test_doctor_examines_every_extra() -> None:
    alike = {"azure", "ollama", "all"}  # as `models`, and all of them
    assert set(metadata("teamwright").get_all("Provides-Extra") or ()) - alike == {
        *EXTRAS,
        *(wing.name for wing in find_wings()),
    }


@pytest.mark.parametrize("damaged", ["{", "[]", "{}", '{"url": "x", "vcs_info": {}}', '{"url": "x", "vcs_info": 1}'])
def test_a_damaged_note_of_the_installer_does_no_harm(damaged: str) -> None:
    assert origin_in(damaged) == ("", str(ROOT))


def test_every_hint_names_this_source(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("teamwright.cli.doctor.find_spec", lambda _name: None)
    main(["doctor"])
    assert install_command("models") in capsys.readouterr().out
    written = [
        path.relative_to(ROOT)
        for path in sorted((ROOT / "src").rglob("*.py"))
        if "pip install 'teamwright" in path.read_text(encoding="utf-8")
    ]
    assert written == []
