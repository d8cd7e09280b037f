"""A server drives what it starts, and resumes it after a restart; nothing else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from teamwright import Engine, load_team
from teamwright.errors import UsageError
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.server.driven_runs import DRIVER
from tests.kit.program import Program
from tests.kit.server import PATIENCE, serving
from tests.kit.terminal import write_team
from tests.kit.workers import eventually

OWN_ORDER = """\
agents:
  a: {model: scripted:replies.yaml}
  b: {model: scripted:replies.yaml, confirm: {after: true}}
teams:
  own: {strategy: "order:Order", members: [a, b]}
"""
REPLIES = "rules:\n  - {agent: a, reply: one}\n  - {agent: b, reply: two}\n"
ORDER = """\
from teamwright import Strategy
from teamwright.strategies import TeamConversation

class Order(Strategy):
    name, version = "order", 1

    async def run(self, task, members, ctx):
        talk = TeamConversation(task)
        for member in members:
            talk.receive(await ctx.ask(member, talk.turn(1), key=member.name))
        return talk.ended("done")
"""


async def test_a_server_that_stops_resumes_its_runs_when_it_starts_again(tmp_path: Path, teams: Path) -> None:
    journal = tmp_path / "journal.db"
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        answer = await server.client("run").post("/api/runs", json={"team": "slow", "task": "Go"})
        run_id = answer.json()["run_id"]
    async with Engine(journal) as engine:
        assert (await engine.runs.result(run_id)).status == "interrupted"
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        result = await server.state.engine.runs.wait(run_id)
        while result.status != "completed":
            result = await server.state.engine.runs.wait(run_id)
    assert result.output == "word word word"
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        assert run_id not in server.state.driven


async def test_runs_of_other_programs_are_left_alone(tmp_path: Path, teams: Path) -> None:
    journal = tmp_path / "journal.db"
    async with Engine(journal) as engine:
        await engine.start(load_team(teams / "slow" / "team.yaml"), "Go", run_id="mine")
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        assert (await server.client("read").get("/api/runs/mine")).json()["status"] == "interrupted"
        assert "mine" not in server.state.driven
        assert (await server.client("run").post("/api/runs/mine/resume")).status_code == 202
        assert "mine" in server.state.driven
        again = await server.client("run").post("/api/runs/mine/resume")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "run_is_live")


async def test_a_second_server_on_the_journal_is_refused(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    async with serving(SqliteJournal(journal), tmp_path):
        with pytest.raises(UsageError, match="Another server"):
            async with serving(SqliteJournal(journal), tmp_path):
                pass


async def test_an_answer_lets_a_paused_run_go_on(tmp_path: Path, teams: Path) -> None:
    async with serving(SqliteJournal(tmp_path / "journal.db"), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "gated", "task": "Go"})).json()["run_id"]
        assert (await server.state.engine.runs.wait(run_id)).status == "paused"
        (question,) = (await client.get("/api/inbox")).json()
        assert (question["run_id"], question["reason"], question["draft"]) == (run_id, "approval", "two")
        given = {"key": question["key"], "text": "approve"}
        taken = await client.post(f"/api/runs/{run_id}/answers", json=given)
        assert (taken.status_code, taken.json()["resumed"]) == (202, True), taken.text
        assert (await server.state.engine.runs.wait(run_id)).status == "completed"
        assert (await client.get("/api/inbox")).json() == []


async def test_an_answer_before_a_crash_is_used_after_it(tmp_path: Path, teams: Path) -> None:
    journal = tmp_path / "journal.db"
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "gated", "task": "Go"})).json()["run_id"]
        await server.state.engine.runs.wait(run_id)
        (question,) = (await client.get(f"/api/runs/{run_id}/questions")).json()
        await server.state.engine.runs.answer(run_id, question["key"], "approve")  # and no resume: it crashed here
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        while (await server.state.engine.runs.result(run_id)).status != "completed":
            await server.state.engine.runs.wait(run_id)


async def test_the_record_of_a_run_names_the_server_until_another_program_resumes_it(
    tmp_path: Path, teams: Path
) -> None:
    journal = tmp_path / "journal.db"
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        answer = await server.client("run").post("/api/runs", json={"team": "held", "task": "Go"})
        run_id = answer.json()["run_id"]
        fork = (await server.client("run").post(f"/api/runs/{run_id}/forks", json={"at": 1})).json()["run_id"]
        for one in (run_id, fork):
            found = await server.state.engine.runs.find(one)
            assert found is not None
            assert found.driver.startswith(DRIVER)
    async with Engine(journal) as engine:
        handle = await engine.start_resume(run_id)
        copy = await engine.start_fork(fork, at=1, new_id="copy")
        handle.interrupt()
        copy.interrupt()
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        assert run_id not in server.state.driven
        assert "copy" not in server.state.driven
        assert fork in server.state.driven


async def test_a_paused_run_waits_for_its_answer_also_after_a_restart(tmp_path: Path, teams: Path) -> None:
    journal = tmp_path / "journal.db"
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "gated", "task": "Go"})).json()["run_id"]
        await server.state.engine.runs.wait(run_id)
    async with serving(SqliteJournal(journal), tmp_path, [teams]) as server:
        client = server.client("run")
        assert run_id not in server.state.driven
        (question,) = (await client.get(f"/api/runs/{run_id}/questions")).json()
        given = {"key": question["key"], "text": "approve"}
        assert (await client.post(f"/api/runs/{run_id}/answers", json=given)).json()["resumed"]
        assert (await server.state.engine.runs.wait(run_id)).status == "completed"


async def test_a_run_whose_strategy_has_changed_is_named_at_the_start_and_left_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, journal = tmp_path / "teams" / "own", tmp_path / "journal.db"
    write_team(folder, OWN_ORDER, REPLIES)
    (folder / "order.py").write_text(ORDER)
    async with serving(SqliteJournal(journal), tmp_path, [folder.parent]) as server:
        client = server.client("run")
        run_id = (await client.post("/api/runs", json={"team": "own", "task": "Go"})).json()["run_id"]
        assert (await server.state.engine.runs.wait(run_id)).status == "paused"
        before = await server.state.engine.journal.read(run_id)
    (folder / "order.py").write_text(ORDER.replace("in members", "in reversed(list(members))"))
    for module in [one for one in sys.modules if one.endswith(".order")]:  # as in another process
        del sys.modules[module]
    async with serving(SqliteJournal(journal), tmp_path, [folder.parent]) as server:
        client = server.client("run")
        await eventually(lambda: f"run {run_id} would not resume: the record has " in caplog.text, "it is named")
        (question,) = (await client.get(f"/api/runs/{run_id}/questions")).json()
        await client.post(f"/api/runs/{run_id}/answers", json={"key": question["key"], "text": "approve"})
        await eventually(lambda: run_id not in server.state.driven, "it is not driven")
        assert await server.state.engine.journal.read(run_id) == before
        assert (await server.state.engine.runs.result(run_id)).status == "paused"


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_server_resumes_its_runs_and_asks_no_member_twice(teams: Path) -> None:
    with Served(teams) as server:
        run_id = server.client.post("/api/runs", json={"team": "slow", "task": "Go"}).json()["run_id"]
        server.wait_for(run_id, "agent.replied")
        server.process.send_signal(signal.SIGKILL)
    with Served(teams) as server:
        events = server.wait_for(run_id, "run.ended")
    kinds = [event["kind"] for event in events]
    assert kinds.count("run.resumed") == 1
    assert [event["key"] for event in events if event["kind"] == "agent.replied"] == [
        "slow/step-1",
        "slow/step-2",
        "slow",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_server_resumes_runs_whose_modules_have_equal_names(tmp_path: Path) -> None:
    names = [f"team{number}" for number in range(6)]
    for name in names:
        folder = tmp_path / "teams" / name
        folder.mkdir(parents=True)
        (folder / "team.yaml").write_text(
            "agents: {a: {function: 'steps:first'}, b: {function: 'steps:last'}}\n"
            f"teams: {{{name}: {{members: [a, b]}}}}\n"
        )
        (folder / "steps.py").write_text(
            "import words, pathlib, time\ndef first(turn): return 'first'\n"
            "GO = pathlib.Path(__file__).parent.parent.parent / 'go'\n"
            "def last(turn):\n    while not GO.exists(): time.sleep(0.05)\n"
            "    import late\n    return late.WORD + words.WORD\n"
        )
        (folder / "words.py").write_text(f"WORD = {name!r}")
        (folder / "late.py").write_text("import decimal, fractions, statistics\nWORD = 'of '")
    with Served(tmp_path / "teams") as server, ThreadPoolExecutor(6) as pool:
        started = list(pool.map(lambda name: server.client.post("/api/runs", json={"team": name, "task": "Go"}), names))
        assert [answer.status_code for answer in started] == [201] * 6, [answer.text for answer in started]
        runs = {name: answer.json()["run_id"] for name, answer in zip(names, started, strict=True)}
        for run_id in runs.values():
            server.wait_for(run_id, "agent.replied")
        server.process.send_signal(signal.SIGKILL)
    (tmp_path / "go").touch()
    with Served(tmp_path / "teams") as server:
        for name, run_id in runs.items():
            server.wait_for(run_id, "run.ended")
            assert server.client.get(f"/api/runs/{run_id}").json()["output"] == f"of {name}"


class Served:
    """A server in a process of its own, and a client with its session."""

    def __init__(self, teams: Path) -> None:
        self.process = Program("serve", teams, "--port", "0", "--json", stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        address = json.loads(self.process.stdout.readline())["url"]
        base, _, code = address.partition("/?code=")
        self.client = httpx2.Client(base_url=base, timeout=PATIENCE)
        session = self.client.post("/api/session", json={"code": code}).json()["session"]
        self.client.headers["Authorization"] = f"Bearer {session}"

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()
        self.process.terminate()
        self.process.communicate(timeout=20)

    def wait_for(self, run_id: str, kind: str) -> list[dict[str, str]]:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            events = self.client.get(f"/api/runs/{run_id}/events").json()
            if any(event["kind"] == kind for event in events):
                return events
            time.sleep(0.05)
        raise AssertionError(f"no {kind} in time")
