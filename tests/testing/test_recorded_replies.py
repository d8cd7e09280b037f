"""What came from outside is in a case: what people did to a run, files, and MCP servers; no secrets and no paths."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright import Engine, Limits
from teamwright.testing import CallTools, ModelServer, Say, ToolCall
from teamwright.testing.case_file import recording_path
from teamwright.testing.case_replay import replay_case
from teamwright.values.value import JsonValue
from tests.kit.cases import WAITING, made_case
from tests.kit.steering import Act
from tests.kit.terminal import write_team
from tests.paths import ROOT

SCRIPT = "rules:\n  - {reply: Fine.}\n"
MEMBERS = """\
agents:
  a: {function: 'own:wait'}
  b: {model: m, instructions: B.}
  c: {model: m, instructions: C.}
models: {m: 'scripted:replies.yaml'}
"""
ROW = MEMBERS + "teams: {t: {members: [a, b, c], strategy: round_robin, max_turns: 6}}\n"
STEPS = MEMBERS + (
    "teams: {t: {members: [a, b, c], strategy: dag, dag: {steps:"
    " [{id: one, agent: a}, {id: two, agent: b, needs: [one]}, {id: three, agent: c, needs: [two]}]}}}\n"
)
MORE: JsonValue = {
    "put": [{"id": "more", "agent": "b", "needs": ["one"], "task": "More."}],
    "reason": "too few",
}
KEY = "sk-proj-" + "a1B2" * 8


async def hold_a_member(engine: Engine) -> None:
    await engine.runs.pause_member("r", "b")
    await engine.runs.resume_member("r", "b")


async def add_a_member_with_a_step(engine: Engine) -> None:
    await engine.runs.add_member("r", "d", {"model": "m", "instructions": "D."})
    await engine.runs.edit_plan("r", {"put": [{"id": "more", "agent": "d", "needs": ["one"]}]})


async def change_the_plan_and_change_it_back(engine: Engine) -> None:
    await engine.runs.edit_plan("r", MORE)
    await engine.runs.restore_plan("r", 1)


DEEDS: list[tuple[str, str, Act, str]] = [
    ("a message", ROW, lambda engine: engine.runs.say("r", "Be brief.", to="c"), "completed"),
    ("a member that is held", ROW, hold_a_member, "completed"),
    ("a raised budget", ROW, lambda engine: engine.runs.raise_budget("r", Limits(tokens=90_000)), "completed"),
    ("another plan", STEPS, lambda engine: engine.runs.edit_plan("r", MORE), "completed"),
    ("an earlier plan", STEPS, change_the_plan_and_change_it_back, "completed"),
    ("a step that is stopped", STEPS, lambda engine: engine.runs.stop_step("r", "one", reason="enough"), "degraded"),
    ("a new member", STEPS, add_a_member_with_a_step, "completed"),
    ("a member that leaves", STEPS, lambda engine: engine.runs.remove_member("r", "c"), "completed"),
    ("an end", ROW, lambda engine: engine.runs.cancel("r", "enough", wait=False), "cancelled"),
]


@pytest.mark.parametrize(("manifest", "act", "status"), [pytest.param(*deed[1:], id=deed[0]) for deed in DEEDS])
def test_what_a_person_does_to_a_run_is_done_again(tmp_path: Path, manifest: str, act: Act, status: str) -> None:
    folder = write_team(tmp_path / "t", manifest, SCRIPT)
    (folder / "own.py").write_text(WAITING)
    case = made_case(folder, "Go", Limits(tokens=50_000), act=act)
    assert case.case.expect.status == status
    assert any(one.intervention is not None for one in case.recording.sent)
    result = replay_case(case, kill=True)
    assert (list(result.lines()), result.kills > 0) == ([], True)


def test_what_people_say_and_give_has_no_secrets_and_no_paths(tmp_path: Path) -> None:
    folder = write_team(tmp_path / "t", ROW, SCRIPT)
    (folder / "own.py").write_text(WAITING)
    (note := folder / "note.txt").write_text(f"The key is {KEY}, and it is in {folder}/keys.")
    said = f"See {folder}/keys: {KEY}"
    case = made_case(folder, "Go", files=[note], act=lambda engine: engine.runs.say("r", said))
    written = case.path.read_text() + recording_path(case.path).read_text()
    assert (KEY in written, str(folder) in written, "./keys" in written) == (False, False, True)
    assert replay_case(case, kill=True).passes


def test_files_of_the_task_and_of_tools_are_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: Iterator[CallTools | Say] = iter((CallTools(calls=(ToolCall(name="draw", args={}),)), Say(text="A dot.")))
    folder = write_team(tmp_path / "t", "", SCRIPT)
    (folder / "art.py").write_text(
        "from teamwright.agents import Attachment\n\ndef draw() -> Attachment:\n"
        "    return Attachment(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(60), 'dot.png', 'image/png')\n"
    )
    (photo := tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(90))
    monkeypatch.setenv("OWN_KEY", "secret-key-0123456789")
    with ModelServer(lambda _: next(answers)) as server:
        model = f"{{url: '{server.url}', name: big, api_key: '${{OWN_KEY}}'}}"
        (folder / "team.yaml").write_text(
            f"agents: {{a: {{model: m, tools: [draw]}}}}\nmodels: {{m: {model}}}\ntools: {{draw: 'art:draw'}}\n"
        )
        case = made_case(folder, "What is this?", files=[photo])
    photo.unlink()
    assert len(case.recording.files) == 2
    assert (list(replay_case(case, kill=True).lines()), case.case.expect.output) == ([], "A dot.")


def test_an_mcp_server_is_neither_started_nor_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTES", str(notes := tmp_path / "notes"))
    server = f"{{command: [{sys.executable}, -m, tests.agents.small_arithmetic_server, '${{NOTES}}']"
    manifest = (
        "agents: {a: {model: 'scripted:replies.yaml', tools: [arithmetic]}}\n"
        f"tools: {{arithmetic: {{mcp: {server}, env: {{PYTHONPATH: '{ROOT}'}}}}}}}}\n"
    )
    rules = "rules:\n  - {tool: {name: add, args: {a: 1, b: 2}}, times: 1}\n  - {match: '3$', reply: Three.}\n"
    folder = write_team(tmp_path / "t", manifest, rules)
    case = made_case(folder, "Add.")
    assert (case.case.expect.output, notes.exists()) == ("Three.", True)
    notes.unlink()
    monkeypatch.delenv("NOTES")
    (folder / "team.yaml").write_text(manifest.replace(sys.executable, "/nowhere/python"))
    assert (list(replay_case(case, kill=True).lines()), notes.exists()) == ([], False)
