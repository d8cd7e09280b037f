"""File tools: nothing outside their folder is reached, and nothing is written that the step does not own."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.agents.agent import Context
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.agents.tools import files as file_tools
from teamwright.agents.tools.files import FILE_TOOLS, Files, FilesSource
from teamwright.agents.tools.protocol import ToolContext
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import DuplicateName, ToolError, UsageError
from teamwright.runtime.engine import Engine
from teamwright.teams.builder import Builder
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Confirm
from teamwright.values.specs.manifest import Manifest
from teamwright.values.specs.tools import FilesSpec, FilesTool
from tests.agents.recording import Recording

FREE = Owned()


def files(root: Path, owned: Owned = FREE) -> Files:
    return Files(root, owned, "key-of-the-call")


def owning(*keys: str) -> Owned:
    return FREE.narrowed(keys)


def test_what_is_written_is_read_listed_and_found(tmp_path: Path) -> None:
    made = files(tmp_path)
    assert made.write_file("src/deep/a.py", "x = 1\ny = 2\n") == {"path": "src/deep/a.py", "bytes": 12}
    made.write_file("notes.md", "x marks the spot")
    assert made.read_file("src/deep/a.py") == "x = 1\ny = 2\n"
    assert made.read_file("./src//deep/a.py") == "x = 1\ny = 2\n"
    assert made.list_files() == ["notes.md", "src/deep/a.py"]
    assert made.list_files("src") == made.list_files("**/*.py") == ["src/deep/a.py"]
    found = [{"path": "notes.md", "line": 1, "text": "x marks the spot"}]
    assert made.search_files("x marks") == found
    assert made.search_files("y = ", "src/**") == [{"path": "src/deep/a.py", "line": 2, "text": "y = 2"}]


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", "sub/.hg/hgrc", "in/config", ".git"]
)
def test_what_says_which_programs_a_user_runs_is_not_written(tmp_path: Path, path: str) -> None:
    (tmp_path / "sub" / ".git").mkdir(parents=True)
    (tmp_path / "in").symlink_to("sub/.git")
    for write in (lambda: files(tmp_path).write_file(path, "x"), lambda: files(tmp_path).edit_file(path, "x", "y")):
        with pytest.raises(ToolError):
            write()
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]
    assert files(tmp_path).write_file(".gitignore", "x") == {"path": ".gitignore", "bytes": 1}


def test_a_long_file_is_read_in_parts(tmp_path: Path) -> None:
    files(tmp_path).write_file("long", "".join(f"{number}\n" for number in range(1, 11)))
    part = files(tmp_path).read_file("long", first_line=4, lines=3)
    assert part == {"content": "4\n5\n6\n", "lines": 10, "next_line": 7}
    assert files(tmp_path).read_file("long", first_line=9) == {"content": "9\n10\n", "lines": 10, "next_line": None}


def test_a_large_file_is_searched_and_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tools, "MAX_READ_CHARACTERS", 40)
    (tmp_path / "log").write_bytes(b"".join(b"line %d of the log\r\n" % number for number in range(1, 7)))
    assert files(tmp_path).search_files("5 of") == [{"path": "log", "line": 5, "text": "line 5 of the log"}]
    assert files(tmp_path).read_file("log") == {
        "content": "line 1 of the log\r\nline 2 of the log\r\n", "lines": 6, "next_line": 3,
    }  # fmt: skip
    last = files(tmp_path).read_file("log", first_line=6, lines=1)
    assert last == {"content": "line 6 of the log\r\n", "lines": 6, "next_line": None}
    assert files(tmp_path).read_file("log", first_line=9) == {"content": "", "lines": 6, "next_line": None}


def test_a_file_of_one_endless_line_is_searched_and_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_tools, "MAX_READ_CHARACTERS", 10)
    (tmp_path / "one").write_text("0123456789abcdefghijKLM\nend")
    parts, following = list[str](), 1
    while following:
        part = cast("dict[str, Any]", files(tmp_path).read_file("one", first_line=following, lines=1))
        parts, following = [*parts, part["content"]], part["next_line"]
    assert parts == ["0123456789", "abcdefghij", "KLM\n", "end"]
    for text, lines in {"89ab": [2], "9": [1], "jK": [3], "a": [2], "Mend": []}.items():
        found = cast("list[dict[str, Any]]", files(tmp_path).search_files(text))
        assert [hit["line"] for hit in found] == lines


def test_a_value_that_is_no_text_further_on_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "bytes").write_bytes(b"needle\n" + b"x" * 100_000 + b"\xff")
    (tmp_path / "text").write_text("needle")
    assert files(tmp_path).search_files("needle") == [{"path": "text", "line": 1, "text": "needle"}]


def test_lists_and_finds_have_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tools, "MOST_LISTED", 2)
    monkeypatch.setattr(file_tools, "MOST_FOUND", 2)
    for name in "abc":
        files(tmp_path).write_file(name, "word")
    assert files(tmp_path).list_files() == {"files": ["a", "b"], "more": 1}
    found = cast("dict[str, Any]", files(tmp_path).search_files("word"))
    assert (len(found["found"]), found["more"]) == (2, True)


def test_hidden_files_are_listed_only_by_name(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").touch()
    files(tmp_path).write_file(".hidden", "x")
    assert files(tmp_path).list_files() == []
    assert files(tmp_path).list_files("./**") == files(tmp_path).list_files(".//*") == []
    assert files(tmp_path).list_files(".git/**") == files(tmp_path).list_files("./.git/**") == [".git/config"]


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/passwd", "", "..", "link/out", "a\0b", "..\\out"])
@pytest.mark.parametrize("tool", ["read_file", "write_file"])
def test_nothing_leads_out_of_the_folder(tmp_path: Path, path: str, tool: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "out").write_text("secret")
    (root / "link").symlink_to(tmp_path)
    arguments = (path, "mine") if tool == "write_file" else (path,)
    with pytest.raises(ToolError, match="is no path below the folder"):
        getattr(files(root), tool)(*arguments)
    assert (tmp_path / "out").read_text() == "secret"
    assert files(root).list_files() == []
    assert files(root).search_files("secret") == []


@given(st.text(max_size=30))
def test_no_path_whatever_leads_out_of_the_folder(tmp_path_factory: pytest.TempPathFactory, path: str) -> None:
    root = tmp_path_factory.mktemp("any") / "root"
    root.mkdir()
    before = sorted(root.parent.iterdir())
    with suppress(ToolError):
        files(root).write_file(path, "x")
    assert sorted(root.parent.iterdir()) == before


def test_what_a_step_does_not_own_is_refused_with_a_helpful_message(tmp_path: Path) -> None:  # Z-05
    made = files(tmp_path, owning("src/*.py", "docs"))
    made.write_file("src/a.py", "x")
    made.write_file("docs/deep/a.md", "x")
    for path in ("src/deep/a.py", "tests/a.py", "./src/a.md"):
        with pytest.raises(ToolError, match=r"this step owns 'src/\*\.py', 'docs': write there"):
            made.write_file(path, "x")
    assert made.list_files() == ["docs/deep/a.md", "src/a.py"]


def test_a_step_that_owns_nothing_reads_but_does_not_write(tmp_path: Path) -> None:  # Z-05
    (tmp_path / "a").write_text("there")
    assert files(tmp_path, owning()).read_file("a") == "there"
    with pytest.raises(ToolError, match="this step owns no path"):
        files(tmp_path, owning()).write_file("a", "x")


def test_a_link_within_the_folder_does_not_change_what_is_owned(tmp_path: Path) -> None:  # Z-05
    (tmp_path / "theirs").mkdir()
    (tmp_path / "mine").symlink_to(tmp_path / "theirs")
    with pytest.raises(ToolError, match="'theirs/a' is not this step's to write"):
        files(tmp_path, owning("mine")).write_file("mine/a", "x")


def test_a_write_is_whole_or_not_there_and_the_same_again_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = files(tmp_path)
    made.write_file("a", "one")
    (tmp_path / "a").chmod(0o755)
    assert made.write_file("a", "two") == made.write_file("a", "two")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(ToolError, match="No space left on device"):
        made.write_file("a", "three")
    assert (tmp_path / "a").read_text() == "two"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda made: made.read_file("nothing"), "There is no file 'nothing'"),
        (lambda made: made.read_file("folder"), "can't be read"),
        (lambda made: made.read_file("bytes"), "is no text"),
        (lambda made: made.write_file("folder", "x"), "is a folder"),
        (lambda made: made.write_file("bytes/below", "x"), "something on the way to it is a file"),
        (lambda made: made.write_file("a", "\ud800"), "What is to stand in 'a' is no text"),
        (lambda made: made.search_files(""), "nothing to search for"),
    ],
)
def test_what_cannot_be_done_is_reported_clearly(tmp_path: Path, call: Any, words: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ToolError, match=words):
        call(files(tmp_path))


def plant(place: Path, what: str) -> None:
    """Something at this place that is no regular file."""
    if what == "pipe":
        os.mkfifo(place)
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(os.path.relpath(place))  # an absolute path may be too long for a socket
    elif what == "link to a pipe":
        os.mkfifo(place.with_name("inner"))
        place.symlink_to("inner")
    else:
        place.symlink_to("/dev/zero")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.parametrize("what", ["pipe", "socket", "link to a pipe", "link to a device"])
@pytest.mark.timeout(10)
def test_what_would_block_or_never_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.chdir(tmp_path)  # S-01
    plant(tmp_path / "thing", what)
    (tmp_path / "notes.md").write_text("x marks the spot")
    made = files(tmp_path)
    for call in (lambda: made.read_file("thing"), lambda: made.write_file("thing", "x")):
        with pytest.raises(ToolError, match=r"is no regular file|is no path below"):
            call()
    assert made.list_files() == ["notes.md"]
    assert made.search_files("x") == [{"path": "notes.md", "line": 1, "text": "x marks the spot"}]
    assert (tmp_path / "thing").is_symlink() or not (tmp_path / "thing").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.timeout(10)
def test_a_file_that_becomes_a_pipe_in_between_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "thing")  # S-01
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    with pytest.raises(ToolError, match="is no regular file"):
        files(tmp_path).read_file("thing")
    assert files(tmp_path).search_files("x") == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such files")
@pytest.mark.parametrize("what", ["pipe", "link", "hard link"])
@pytest.mark.timeout(10)
def test_a_link_under_the_name_of_a_draft_is_not_written_to(tmp_path: Path, what: str) -> None:  # S-01
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.write_text("precious")
    draft = root / ".a.md.key-of-the-c.tmp"
    if what == "pipe":
        os.mkfifo(draft)
    elif what == "link":
        draft.symlink_to(other)
    else:
        draft.hardlink_to(other)
    files(root).write_file("a.md", "new")
    assert ((root / "a.md").read_text(), other.read_text()) == ("new", "precious")
    assert not draft.exists()


async def test_the_tools_come_as_a_group_and_as_an_agent_declares_them(tmp_path: Path) -> None:
    ctx = cast("Context", Recording(owned=owning("a")))
    box = Toolbox([FilesSpec(files=FilesTool(folder=str(tmp_path)))])
    async with box.open(ctx) as tools:
        assert [offer.name for offer in tools.definitions] == list(FILE_TOOLS)
        assert all(offer.description for offer in tools.definitions)
        await tools.call_recorded("write_file", {"path": "a", "content": "x"}, key="k1")
        with pytest.raises(ToolError, match="not this step's to write"):
            await tools.call_recorded("write_file", {"path": "b", "content": "x"}, key="k2")
        with pytest.raises(ToolError, match="do not fit"):
            tools.validate("write_file", {"path": "b"})
    async with box.open(ctx, allow=["read_file"]) as tools:
        assert [offer.name for offer in tools.definitions] == ["read_file"]
    assert box.specs == [FilesSpec(files=FilesTool(folder=str(tmp_path)))]


async def test_without_a_root_it_is_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await FilesSource(FilesTool()).call("write_file", {"path": "a", "content": "x"}, ToolContext("k", "p", FREE))
    assert (tmp_path / "a").read_text() == "x"


async def test_a_write_that_has_begun_ends_before_its_step_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it might be made when another owns the file."""
    replace = file_tools._write_atomically

    def slowly(place: Path, folder: int | None, content: bytes, key: str) -> None:
        import time

        time.sleep(0.2)
        replace(place, folder, content, key)

    monkeypatch.setattr(file_tools, "_write_atomically", slowly)
    with anyio.move_on_after(0.05):
        source = FilesSource(FilesTool(folder=str(tmp_path)))
        await source.call("write_file", {"path": "a", "content": "x"}, ToolContext("k", "p", FREE))
    assert (tmp_path / "a").exists()


def test_two_sets_of_files_or_a_tool_of_the_same_name_are_refused() -> None:
    def read_file() -> str:
        return ""

    with pytest.raises(DuplicateName):
        Toolbox(["files", "files"])
    with pytest.raises(DuplicateName):
        Toolbox(["files", read_file])
    with pytest.raises(UsageError, match="has no tool 'write_fil' to approve"):
        Toolbox(["files"], Confirm(tools=("write_fil",)), "a")
    Toolbox(["files"], Confirm(tools=("write_file",)), "a")


async def test_a_custom_tool_may_ask_what_is_owned(tmp_path: Path) -> None:  # Z-05
    def store(path: str, *, owned: Owned) -> str:
        """Store it."""
        return "stored" if owned.may_write(path) else owned.refusal(path)

    async with Toolbox([store]).open(cast("Context", Recording(owned=owning("mine")))) as tools:
        assert list(tools.definitions[0].parameters["properties"]) == ["path"]  # type: ignore[arg-type]
        assert await tools.call_recorded("store", {"path": "mine/a"}, key="k1") == "stored"
        assert "not this step's to write" in str(await tools.call_recorded("store", {"path": "yours"}, key="k2"))


def writer(name: str, *paths: str, root: Path) -> ScriptedAgent:
    """A member that writes its name to these files, and returns the results."""
    rules = [Rule(tool=ToolRule(name="write_file", args={"path": path, "content": name}), times=1) for path in paths]
    rules += [Rule(match="is not this step's to write", reply="refused"), Rule(reply="written")]
    return ScriptedAgent(name, rules, tools=[FilesSpec(files=FilesTool(folder=str(root)))])


async def test_steps_of_a_plan_write_what_they_own_and_nothing_else(tmp_path: Path) -> None:  # Z-05
    members = [
        writer("a", "src/a", root=tmp_path),
        writer("b", "src/a", root=tmp_path),
        writer("c", "c", root=tmp_path),
    ]
    steps: list[Any] = [{"id": "a", "owns": ["src/**"]}, {"id": "b", "owns": ["docs"]}, {"id": "c"}]
    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=members, strategy="dag", options={"steps": steps}), "go")
    assert {one.name: one.content for one in result.messages} == {"a": "written", "b": "refused", "c": "refused"}
    assert (tmp_path / "src" / "a").read_text() == "a"
    assert not (tmp_path / "c").exists()


def test_a_manifest_may_say_where_the_files_are(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("[{reply: done}]")
    (tmp_path / "team.yaml").write_text(
        "agents:\n"
        "  a: {model: scripted:replies.yaml, tools: [{files: {folder: site}}]}\n"
        "  b: {model: scripted:replies.yaml, tools: [pages]}\n"
        "  c: {model: scripted:replies.yaml, tools: [files], confirm: {tools: [write_file]}}\n"
        "teams: {t: {members: [a, b, c]}}\n"
        "tools: {pages: {files: {folder: ../pages}}}\n"
    )
    team = load_team(tmp_path / "team.yaml", allow_roots=[tmp_path.parent / "pages"])
    sources = [source for member in team.members for source in cast("ScriptedAgent", member).toolbox.sources]
    roots = [source.settings for source in sources if isinstance(source, FilesSource)]
    assert roots == [
        FilesTool(folder=str(tmp_path / "site")),
        FilesTool(folder=str(tmp_path.parent / "pages")),
        FilesTool(),
    ]


def test_a_tool_that_a_manifest_calls_files_is_that_tool() -> None:
    manifest = Manifest.model_validate(
        {
            "agents": {"a": {"model": "openai:x", "tools": ["files"]}},
            "tools": {"files": {"function": "os.path:basename"}},
        }
    )
    (member,) = Builder(manifest).team("a").members
    assert [(one.kind, one.name) for one in cast("ModelAgent", member).toolbox.sources] == [("function", "files")]


def test_a_folder_that_becomes_a_link_after_the_check_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "inner").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (root / "inner" / "secret").write_text("mine")
    resolve = Files._resolve

    def swapped(files: Files, path: str) -> Path:
        place = resolve(files, path)
        (root / "inner").rename(root / "elsewhere")
        (root / "inner").symlink_to(outside)
        return place

    files = Files(root, FREE)
    for act in (partial(files.read_file, "inner/secret"), partial(files.write_file, "inner/new", "x")):
        with monkeypatch.context() as patched:
            patched.setattr(Files, "_resolve", swapped)
            with pytest.raises(ToolError):
                act()
        (root / "inner").unlink()
        (root / "elsewhere").rename(root / "inner")
    assert [one.name for one in outside.iterdir()] == ["secret"]


def test_an_edit_replaces_what_stands_there_once() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder), FREE)
        files.write_file("a", "one\r\ntwo\r\ntwo\r\n")
        files.edit_file("a", "one", "1")
        assert files.read_file("a") == "1\r\ntwo\r\ntwo\r\n"
        for old, message in (("two", "contains the text 2 times"), ("three", "does not contain"), ("", "nothing to")):
            with pytest.raises(ToolError, match=message):
                files.edit_file("a", old, "x")
        with pytest.raises(ToolError, match="are the same, so nothing would change"):
            files.edit_file("a", "1", "1")
        with pytest.raises(ToolError, match="There is no file"):
            files.edit_file("b", "x", "y")
