from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from teamwright import Engine, load_team
from teamwright.cli.foreground_run import ViewOptions, drive
from teamwright.errors import JournalError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.testing.model_server import ModelServer, Say
from tests.kit.terminal import REPLIES, TEAM, Call, write_team

ANSWER = "That is right, and short.\n"
RESULT_FIELDS = {
    "run_id", "status", "stop_reason", "output", "data", "messages", "usage", "warnings", "started_at", "seconds",
}  # fmt: skip
USAGE_FIELDS = {
    "requests", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "total_tokens", "tool_calls",
    "usd",
}  # fmt: skip


def test_the_answer_goes_to_stdout_and_who_said_what_to_stderr(call: Call, team: Path) -> None:
    done = call("run", team, "Explain B-trees")
    assert done.code == 0
    assert done.out == ANSWER
    assert "writer      ▸ A B-tree keeps its keys sorted. …" in done.err
    assert "critic      ▸ That is right, and short." in done.err
    assert " tok " in done.err
    summary = done.err.splitlines()[-1]
    assert summary.startswith("completed (done) · ")
    assert "price" not in summary  # M-10: a script costs nothing
    assert " · run " in summary


async def test_a_run_that_could_not_be_recorded_says_why(team: Path) -> None:
    class ReadOnly(MemoryJournal):
        instant = False

        def append(self, batch: Batch, done: Committed) -> None:
            asyncio.get_running_loop().call_later(0.05, done, JournalError("its user may only read"))

    async with Engine(ReadOnly()) as engine:
        handle = await engine.start(load_team(team), "Explain")
        with pytest.raises(JournalError, match="may only read"):
            await drive(engine, handle, ViewOptions(quiet=True))


def test_quiet_leaves_only_the_answer(call: Call, team: Path) -> None:
    done = call("run", team, "Explain", "--quiet")
    assert (done.out, done.err) == (ANSWER, "")


def test_json_is_one_document_with_the_agreed_fields(call: Call, team: Path) -> None:
    result = call("run", team, "Explain", "--json").json
    assert result.keys() >= RESULT_FIELDS
    assert result["usage"].keys() >= USAGE_FIELDS
    assert [message["name"] for message in result["messages"]] == ["writer", "critic"]
    assert result["status"] == "completed"
    assert result["usage"]["usd"] is None


def test_events_are_lines_of_json_and_nothing_else(call: Call, team: Path) -> None:
    done = call("run", team, "Explain", "--events")
    events = [line for line in done.lines if line["domain"] != "delta"]
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    assert done.lines[0]["kind"] == "run.started"
    assert done.lines[-1]["kind"] == "run.ended"


def test_events_and_json_exclude_each_other(call: Call, team: Path) -> None:
    assert call("run", team, "Explain", "--events", "--json").code == 2


def test_a_result_can_go_to_a_file(call: Call, team: Path, tmp_path: Path) -> None:
    done = call("run", team, "Explain", "--out", tmp_path / "answer.md")
    assert done.out == ""
    assert (tmp_path / "answer.md").read_text() == ANSWER


def test_the_task_comes_from_a_file_or_from_stdin(call: Call, team: Path, tmp_path: Path) -> None:
    (tmp_path / "task.txt").write_text("\ufeffExplain größe", encoding="utf-8")
    assert call("run", team, "--file", tmp_path / "task.txt").code == 0
    assert "Explain größe" in call("runs", "show", "last").out
    assert call("run", team, "-", stdin="from a pipe").code == 0
    assert "from a pipe" in call("runs", "show", "last").out


@pytest.mark.parametrize("stdin", [b"x" * 10_000_000, b"\xff\xfe", b"", b"  \n"])
def test_a_task_that_is_too_large_or_no_text_is_refused(call: Call, team: Path, stdin: bytes) -> None:
    done = call("run", team, "-", stdin=stdin)
    assert done.code == 2
    assert "task" in done.err
    assert call("runs", "list", "--json").json == []


def test_a_task_given_twice_or_not_at_all_is_refused(call: Call, team: Path) -> None:
    assert call("run", team).code == 2
    assert call("run", team, "a", "--file", team / "team.yaml").code == 2
    assert call("run", team, "--file", team / "missing.txt").code == 2
    assert call("run", team, "--file", team).code == 2


@pytest.mark.parametrize("text", ["agents: {a: {modle: x}}", "agents: [", "- just\n- a list", "", "\x00"])
def test_a_bad_manifest_is_reported_with_its_problems(call: Call, tmp_path: Path, text: str) -> None:
    (tmp_path / "team.yaml").write_text(text)
    done = call("run", tmp_path / "team.yaml", "x", "--json")
    assert done.code == 2
    assert done.json["error"]["kind"] == "ManifestError"
    assert done.json["error"]["problems"][0].keys() == {"file", "line", "column", "message", "suggestion"}
    assert "team.yaml" in done.err


@pytest.mark.parametrize("name", ["missing.yaml", "no\0where", ""])
def test_a_manifest_that_is_not_there_is_exit_code_2(call: Call, name: str) -> None:
    assert call("run", name, "x").code == 2


def test_the_same_id_twice_runs_once(call: Call, team: Path) -> None:
    first = call("run", team, "Explain", "--run-id", "mine", "--json").json
    assert call("run", team, "Explain", "--run-id", "mine", "--json").json == first
    assert len(call("runs", "list", "--json").json) == 1
    assert call("run", team, "x", "--run-id", "böse").code == 2


def test_the_id_of_another_run_is_refused_with_what_differs(call: Call, team: Path, tmp_path: Path) -> None:
    first = call("run", team, "Explain", "--run-id", "mine", "--json").json
    refused = call("run", team, "Something else", "--run-id", "mine", "--json")
    assert (refused.code, refused.json["error"]["kind"]) == (2, "RunExists")
    assert "its task, 'Explain' there and 'Something else' here" in refused.err
    (tmp_path / "other.yaml").write_text("rules: [{reply: Other.}]")
    model = f"scripted:{tmp_path / 'other.yaml'}"
    refused = call("run", team, "Explain", "--run-id", "mine", "--model", model)
    assert (refused.code, refused.out) == (2, "")
    assert "in its team (agents." in refused.err
    attached = call("run", team, "Explain", "--run-id", "mine", "--attach", tmp_path / "other.yaml")
    assert (attached.code, "the files of its task" in attached.err) == (2, True)
    assert call("run", team, "Explain", "--run-id", "mine", "--json").json == first
    assert len(call("runs", "list", "--json").json) == 1


def test_a_manifest_in_another_folder_is_the_same_team(call: Call, team: Path, tmp_path: Path) -> None:
    assert call("run", team, "Explain", "--run-id", "mine").code == 0
    moved = tmp_path / "moved"
    shutil.copytree(team if team.is_dir() else team.parent, moved)
    again = call("run", moved if team.is_dir() else moved / team.name, "Explain", "--run-id", "mine")
    assert (again.code, "exists already" in again.err) == (0, True)


def test_a_model_replaces_every_model(call: Call, team: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("rules: [{reply: Other.}]")
    assert call("run", team, "Explain", "--model", f"scripted:{tmp_path / 'other.yaml'}").out == "Other.\n"


def test_a_model_at_a_server_is_named_by_its_address(call: Call, team: Path) -> None:
    with ModelServer(lambda request: Say(text=f"I am {request.model}.")) as server:
        done = call("run", team, "Explain", "--model", f"{server.url}#qwen/qwen3:4b", "--run-id", "mine")
        assert (done.code, done.out) == (0, "I am qwen/qwen3:4b.\n")
        assert call("run", team, "Explain", "--model", f"{server.url}#qwen/qwen3:4b", "--run-id", "mine").code == 0
        other = call("run", team, "Explain", "--model", f"{server.url}#other", "--run-id", "mine")
        assert (other.code, "agents.writer.model" in other.err) == (2, True)
        assert call("show", team, "--model", f"{server.url}#m").code == 0
    for wrong in (server.url, f"{server.url}#", "http://#m", "https:// x#m"):
        refused = call("run", team, "Explain", "--model", wrong)
        assert (refused.code, "http://localhost:8000/v1#qwen3" in refused.err) == (2, True), wrong


def test_a_further_manifest_can_be_added_and_a_team_chosen(call: Call, team: Path, tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text("teams: {short: {members: [writer]}}")
    both = ("run", team, "Explain", "--with", tmp_path / "more.yaml")
    assert call(*both).code == 2
    assert call(*both, "--team", "short").out.startswith("A B-tree")
    assert call("run", team, "Explain", "--team", "writer").out.startswith("A B-tree")
    assert "did you mean 'report'" in call("run", team, "Explain", "--team", "reprot").err


#
def test_a_query_in_the_manifest_gives_the_task_and_the_team(call: Call) -> None:
    folder = Path("examples/ark/banking")
    done = call("run", folder, "--model", f"scripted:{folder / 'replies.yaml'}")
    assert done.code == 0
    assert "loan" in done.out


def test_a_finished_run_is_continued_in_its_conversation(call: Call, team: Path, tmp_path: Path) -> None:
    call("run", team, "Explain", "--run-id", "first")
    (tmp_path / "next.yaml").write_text("rules: [{match: 'B-tree keeps[\\s\\S]*And now', reply: I remember.}]")
    model = ("--model", f"scripted:{tmp_path / 'next.yaml'}")
    assert call("run", team, "And now?", "--continue", "first", *model).out == "I remember.\n"
    assert call("run", "And now?", "--continue", "first", *model).out == "I remember.\n"
    assert call("run", "And now?", "--continue", "nothing").code == 2


@pytest.mark.parametrize(
    ("team", "replies", "code", "status", "words"),
    [
        (TEAM, "rules: [{agent: writer, error: refused}]", 1, "failed", "runs fork"),
        (TEAM, "rules: [{agent: writer, reply: hello}]", 1, "failed", "no rule"),
        (TEAM.replace("members", "limits: {tokens: 30}, members"), None, 4, "degraded", "--max-tokens"),
        (TEAM.replace("members", "limits: {calls: 1}, members"), None, 4, "degraded", "--max-tokens"),
        (
            TEAM.replace("members", "limits: {seconds: 0.2}, members"),
            "rules: [{delay: 9, reply: x}]",
            5,
            "timeout",
            "fork",
        ),
    ],
)
def test_each_ending_has_its_exit_code_and_says_what_to_do_next(
    call: Call, tmp_path: Path, team: str, replies: str | None, code: int, status: str, words: str
) -> None:
    folder = write_team(tmp_path / "team", team, replies or REPLIES)
    done = call("run", folder, "Explain", "--json")
    assert done.code == code
    assert done.json["status"] == status
    assert words in done.err


def test_control_characters_of_a_model_never_reach_the_terminal(call: Call, tmp_path: Path) -> None:
    evil = 'rules: [{reply: "\\e]0;owned\\a\\e[31mred\\e[0m\\r\\nnext\\x9b1m"}]'
    (tmp_path / "evil.yaml").write_text(evil)
    team = write_team(tmp_path / "team", TEAM, REPLIES)
    done = call("run", team, "Say \x1b[31mred", "--model", f"scripted:{tmp_path / 'evil.yaml'}")
    assert done.out == "red\nnext1m\n"
    shown = call("runs", "show", "last")
    tail = call("runs", "show", "last", "--follow")
    exported = call("runs", "export", "last")
    for text in (done.err, shown.out, tail.out, exported.out):
        assert not [char for char in text if (ord(char) < 32 and char not in "\n\t") or 127 <= ord(char) < 160]


def test_secrets_are_in_no_output(call: Call, team: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "very-secret-value")
    call("run", team, "My key is very-secret-value", "--run-id", "one")
    for command in (("show", "one"), ("show", "one", "--follow"), ("export", "one")):
        assert "very-secret" not in call("runs", *command).out


def test_functions_beside_the_manifest_are_found(call: Call, tmp_path: Path) -> None:
    team = write_team(tmp_path / "own", "agents: {adder: {function: 'own_sums:add'}}")
    (team / "own_sums.py").write_text("def add(task: str) -> str:\n    return task + '!'\n")
    assert call("validate", team).code == 0
    assert call("run", team, "hello").out == "hello!\n"


def test_the_tiny_local_model_comes_with_a_hint_for_a_real_one(call: Call, team: Path) -> None:
    from teamwright.cli.foreground_run import local_hint
    from teamwright.teams.team_loader import read_manifest

    hint = local_hint(read_manifest([Path("examples/first_team")]).manifest, "teamwright run examples/first_team")
    assert hint is not None
    assert "OPENAI_API_KEY" in hint
    assert "teamwright run examples/first_team --model openai:gpt-5-mini" in hint
    assert local_hint(read_manifest([team]).manifest, "x") is None


def test_the_first_team_runs_with_any_model(call: Call, tmp_path: Path) -> None:
    folder, script = Path("examples/first_team"), tmp_path / "replies.yaml"
    script.write_text("rules: [{agent: clerk, json: {name: Tom Baker, room: 7}}]")
    done = call("run", folder, "--file", folder / "task.txt", "--model", f"scripted:{script}")
    assert (done.code, done.out.splitlines()[1:3]) == (0, ["  room 7: Tom Baker", "To ask at the desk:"])
    said = [line.split()[0] for line in done.err.splitlines() if "▸" in line]
    assert said == ["postman", *["clerk"] * 4, "checker"]


def test_files_are_attached_and_named_without_their_bytes(call: Call, team: Path, tmp_path: Path) -> None:  # L-A-1
    photo, notes = tmp_path / "photo.png", tmp_path / "notes.md"
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + b"\xff" * 100)
    notes.write_text("Short.")
    result = call("run", team, "Explain", "--run-id", "one", "--attach", photo, "--attach", notes, "--json").json
    named = [(one["name"], one["media_type"], one["size"]) for one in result["attachments"]]
    assert named == [("photo.png", "image/png", 108), ("notes.md", "text/markdown", 6)]
    photo.unlink()
    shown = call("runs", "show", "one").out
    assert "  with 'photo.png' (image/png, 108 B)\n  with 'notes.md' (text/markdown, 6 B)\n" in shown
    assert call("runs", "show", "one", "--json").json["attachments"] == result["attachments"]
    assert "run started: Explain (with 'photo.png' (image/png, 108 B)" in call("runs", "logs", "one").out
    exported = call("runs", "export", "one")
    assert exported.json["events"][0]["attachments"] == result["attachments"]
    assert "$bytes" not in exported.out
    assert call("run", "--continue", "one", "And now?").code == 0


def test_a_file_that_can_not_be_attached_is_an_error_before_the_run(call: Call, team: Path, tmp_path: Path) -> None:
    done = call("run", team, "Explain", "--attach", tmp_path / "gone.png")
    assert done.code == 2
    assert "gone.png' can't be attached: No such file or directory." in done.err
    assert call("runs", "list", "--json").json == []


def test_an_attached_file_is_never_overwritten(call: Call, team: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("Short.")
    assert call("run", team, "Explain", "--attach", notes, "--out", notes).code == 2
    assert notes.read_text() == "Short."
