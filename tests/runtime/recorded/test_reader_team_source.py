"""A run finds the folder of its manifest again after that was moved or renamed, once a caller says where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, load_team
from teamwright.cli.main import main
from teamwright.engine import resume_sync
from teamwright.errors import NotResumable, UsageError
from teamwright.journal.location import default_journal
from teamwright.journal.sqlite.journal import SqliteJournal

MANIFEST = """\
agents:
  first: {function: "orders:first"}
  second: {model: scripted:replies.yaml, tools: [{files: {folder: data}}], confirm: {before: true}}
  third: {function: "orders:last", confirm: {before: true}}
teams:
  shop: {members: [first, second, third]}
"""


def written(folder: Path, manifest: str = MANIFEST) -> Path:
    (folder / "data").mkdir(parents=True)
    (folder / "orders.py").write_text("def first(turn): return 'one'\ndef last(turn): return 'three'\n")
    (folder / "replies.yaml").write_text("rules: [{agent: second, reply: two}]\n")
    (folder / "team.yaml").write_text(manifest)
    return folder / "team.yaml"


async def started(journal: Path, folder: Path) -> None:
    """Start a run that pauses, answer its question, and rename the folder of its manifest."""
    async with Engine(journal) as engine:
        await engine.run(load_team(written(folder)), "go", run_id="r")
        await approve(engine)
    folder.rename(folder.with_name("renamed"))


async def approve(engine: Engine) -> None:
    for key in (await engine.runs.history("r")).questions():
        await engine.runs.answer("r", key, "approve")


async def test_a_run_whose_folder_is_gone_says_so_and_how_to_go_on(tmp_path: Path) -> None:
    await started(tmp_path / "j.db", tmp_path / "shop")
    async with Engine(tmp_path / "j.db") as engine:
        gone = rf"The folder '{tmp_path}/shop' with the manifest of run 'r' is gone.*runs resume r --code DIR"
        with pytest.raises(NotResumable, match=gone):
            await engine.resume("r")
        with pytest.raises(NotResumable, match=gone):
            await engine.fork("r")
        with pytest.raises(UsageError, match="There is no folder 'nowhere'"):
            await engine.resume("r", code="nowhere")


async def test_a_folder_of_files_that_is_gone_is_noticed_before_a_tool_is_called(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: said, times: 9}]\n")
    file = written(tmp_path / "shop", "agents: {second: {tools: [{files: {folder: data}}], confirm: {before: true}}}\n")
    async with Engine(tmp_path / "j.db") as engine:
        await engine.run(load_team(file, model=f"scripted:{tmp_path / 'replies.yaml'}"), "go", run_id="r")
        (tmp_path / "shop").rename(tmp_path / "renamed")
        with pytest.raises(NotResumable, match=r"is gone.*'.*shop/data' of the tools of the agent 'second'"):
            await engine.resume("r")


async def test_the_new_folder_is_recorded_so_that_the_next_resume_finds_it(tmp_path: Path) -> None:
    await started(tmp_path / "j.db", tmp_path / "shop")
    async with Engine(tmp_path / "j.db") as engine:
        paused = await engine.resume("r", code=tmp_path / "renamed")
        assert (paused.status, [one.content for one in paused.messages][:2]) == ("paused", ["one", "two"])
        await approve(engine)
    async with Engine(tmp_path / "j.db") as engine:
        assert (await engine.runs.history("r")).record.source().base == str(tmp_path / "renamed")
        assert (await engine.resume("r")).output == "three"


@pytest.mark.server
async def test_a_server_goes_on_once_the_new_folder_is_recorded(tmp_path: Path) -> None:
    from tests.kit.server import serving

    await started(tmp_path / "j.db", tmp_path / "shop")
    async with serving(SqliteJournal(tmp_path / "j.db"), tmp_path) as server:
        refused = await server.client("run").post("/api/runs/r/resume")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "not_resumable")
        assert "is gone" in refused.json()["error"]["message"]
    async with Engine(tmp_path / "j.db") as engine:
        await engine.resume("r", code=tmp_path / "renamed")
        await approve(engine)
    async with serving(SqliteJournal(tmp_path / "j.db"), tmp_path) as server:
        assert (await server.client("run").post("/api/runs/r/resume")).status_code == 202
        assert (await server.state.engine.runs.wait("r")).output == "three"


def test_commands_take_the_folder_or_another_manifest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str | Path) -> tuple[int, str]:
        code = main([str(one) for one in arguments])
        shown = capsys.readouterr()
        return code, shown.out + shown.err

    for run_id in ("one", "two", "three"):
        assert run("run", written(tmp_path / run_id), "go", "--run-id", run_id, "--no-input", "-q")[0] == 7
        assert run("runs", "answer", run_id, "approve")[0] == 0
        (tmp_path / run_id).rename(tmp_path / f"new-{run_id}")
    code, text = run("runs", "resume", "one")
    assert (code, "is gone" in text) == (1, True), "the run can't be resumed as it is"
    code, text = run("runs", "resume", "one", "--code", tmp_path / "nowhere")
    assert (code, "There is no folder" in text) == (2, True), "an argument is wrong"
    assert run("runs", "resume", "one", "--code", tmp_path / "new-one", "--no-input", "-q")[0] == 7
    assert run("runs", "resume", "two", "--from", tmp_path / "new-two" / "team.yaml", "--no-input", "-q")[0] == 7
    assert run("runs", "fork", "three", "--code", tmp_path / "new-three", "--no-input", "-q")[0] == 7
    both = ("--code", tmp_path / "new-two", "--from", tmp_path / "new-two" / "team.yaml")
    code, text = run("runs", "resume", "two", *both)
    assert (code, "use one of them" in text) == (2, True)


async def test_a_program_that_is_not_async_names_the_folder_too(tmp_path: Path) -> None:
    import anyio

    await started(default_journal(), tmp_path / "shop")
    result = await anyio.to_thread.run_sync(lambda: resume_sync("r", code=tmp_path / "renamed"))
    assert result.status == "paused"
