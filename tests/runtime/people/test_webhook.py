"""When a run pauses for a person, a webhook is called once, after the pause is durable, with no effect on the run."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from teamwright import Context, Engine, FunctionAgent, Team, Turn, load_team
from teamwright.errors import Refused
from teamwright.people import Question
from teamwright.runtime.people.webhook import LONGEST_DRAFT, answer_command
from teamwright.values.events.run import RunNotified, RunPaused
from teamwright.values.people import Answer, Confirm, Notify, approval_question, review_question
from tests.kit.records import wait_for_question


@pytest.fixture(autouse=True)
def loopback_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_ALLOW_PRIVATE_WEBHOOK", "1")


class Hook:
    """A webhook on loopback that records its requests."""

    def __init__(self, status: int = 204, look: Callable[[], object] = lambda: None) -> None:
        self.told: list[dict[str, Any]] = []
        self.saw: list[object] = []
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.saw.append(look())
                hook.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    @contextmanager
    def open(self) -> Generator[Hook]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


async def ask(turn: Turn, ctx: Context) -> str:
    answer = await ctx.ask_person(Question(text="Which colour?", choices=("red", "blue")), key="colour")
    return f"It is {answer.text}."


def painter(webhook: str | None, name: str = "painter") -> Team:
    notify = Notify.model_validate({"webhook": webhook}) if webhook else None
    return Team("paint", members=[FunctionAgent(name, ask)], notify=notify)


async def test_a_webhook_receives_what_is_asked_and_how_to_continue(tmp_path: Path) -> None:  # P-11
    def paused_on_disk() -> object:
        with closing(sqlite3.connect(tmp_path / "j.db")) as connection:
            return connection.execute("SELECT count(*) FROM events WHERE kind = 'run.paused'").fetchone()

    with Hook(look=paused_on_disk).open() as hook:
        async with Engine(tmp_path / "j.db") as engine:
            result = await engine.run(painter(hook.url), "go", run_id="r")
            assert (result.status, result.stop_reason) == ("paused", "person")
            await engine.delivered()
            events = await engine.journal.read("r")
            (summary,) = await engine.runs.list()
            assert (summary.status, summary.stop_reason) == ("paused", "person")
            await engine.runs.answer("r", "paint/step-1/colour", "red")
            done = await engine.resume("r", team=painter(hook.url))
        assert done.output == "It is red."
    (told,) = hook.told
    paused = next(event.number for event in events if isinstance(event.fact, RunPaused))
    assert told == {
        "run_id": "r",
        "team": "paint",
        "stop_reason": "person",
        "checkpoint": paused,
        "questions": [
            {
                "key": "paint/step-1/colour",
                "text": "Which colour?",
                "choices": ["red", "blue"],
                "reason": "question",
                "to": "",
                "draft": None,
            }
        ],
        "answer": ["teamwright runs answer r --key paint/step-1/colour red   (or blue)"],
        "resume": "teamwright runs resume r",
        "url": None,
    }
    assert hook.saw == [(1,)]
    assert [event.fact for event in events if isinstance(event.fact, RunNotified)] == [RunNotified()]


async def test_the_environment_names_a_webhook_for_teams_that_name_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # P-11
    with Hook().open() as general, Hook().open() as own:
        monkeypatch.setenv("TEAMWRIGHT_WEBHOOK", general.url)
        async with Engine("memory") as engine:
            await engine.run(painter(None), "go")
            await engine.run(painter(own.url), "go")
    assert (len(general.told), len(own.told)) == (1, 1)


async def test_approvals_and_critical_failures_are_reported_with_their_drafts() -> None:  # P-10, P-11, P-12
    async def fail(turn: Turn) -> str:
        raise Refused("no")

    with Hook().open() as hook:
        draft = FunctionAgent("writer", lambda turn: "x" * 2 * LONGEST_DRAFT, confirm=Confirm(after=True))
        team = Team("t", members=[draft, FunctionAgent("a", fail, critical=True)], notify=Notify(webhook=hook.url))
        async with Engine("memory") as engine:
            await engine.run(team, "go", run_id="r")
            await engine.runs.answer("r", "t/step-1/confirm-after", Answer.approve())
            await engine.resume("r", team=team)
    told = {one["stop_reason"]: one for one in hook.told}
    assert told.keys() == {"approval", "retries_exhausted"}
    assert len(told["approval"]["questions"][0]["draft"]) == LONGEST_DRAFT + 1
    assert told["retries_exhausted"]["answer"] == [
        "teamwright runs answer r --key t/step-2/failure-1 retry   (or skip, abort)"
    ]


@pytest.mark.parametrize("webhook", ["http://127.0.0.1:9/nobody", "file:///etc/passwd", "http://["])
async def test_a_webhook_that_fails_has_no_effect_on_the_run(webhook: str, caplog: pytest.LogCaptureFixture) -> None:
    async with Engine("memory") as engine:
        with caplog.at_level(logging.WARNING, "teamwright"):
            engine.driver.deliveries.backoff = ()
            result = await engine.run(painter(webhook), "go", run_id="r")
            await engine.delivered()
        assert result.status == "paused"
        assert "no webhook could be notified that run r waits" in caplog.text
        events = await engine.journal.read("r")
        (notified,) = [event.fact for event in events if isinstance(event.fact, RunNotified)]
        assert notified.error
        await engine.runs.answer("r", "paint/step-1/colour", "blue")
        assert (await engine.resume("r", team=painter(None))).output == "It is blue."


async def test_a_webhook_that_answers_with_an_error_is_a_failed_notice() -> None:
    with Hook(status=500).open() as hook:
        async with Engine("memory") as engine:
            engine.driver.deliveries.backoff = ()
            await engine.run(painter(hook.url), "go", run_id="r")
            await engine.delivered()
            (notified,) = [e.fact for e in await engine.journal.read("r") if isinstance(e.fact, RunNotified)]
    assert notified.error is not None
    assert "500" in notified.error


async def test_no_webhook_is_called_for_a_run_that_is_attended_or_paused_by_hand() -> None:
    with Hook().open() as hook:
        async with Engine("memory") as engine:
            handle = await engine.start(painter(hook.url), "go", run_id="r")
            handle.set_interactive(True)
            await wait_for_question(engine)
            assert (await engine.runs.pause("r")).stop_reason == "pause"
    assert hook.told == []


async def test_a_webhook_from_the_environment_is_in_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Hook().open() as hook:
        monkeypatch.setenv("HOOK", hook.url)
        (tmp_path / "team.yaml").write_text(
            "agents: {painter: {function: 'tests.cli.people:ask'}}\n"
            "teams: {paint: {members: [painter], notify: {webhook: '${HOOK}'}}}"
        )
        async with Engine(tmp_path / "j.db") as engine:
            await engine.run(load_team(tmp_path / "team.yaml"), "go")
    assert len(hook.told) == 1
    assert not [file for file in tmp_path.glob("j.db*") if hook.url.encode() in file.read_bytes()]


async def test_a_run_whose_webhook_was_written_out_can_still_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record holds no address, so the environment names the webhook; else a warning says that there is none."""
    with Hook().open() as written, Hook().open() as general:
        (tmp_path / "team.yaml").write_text(
            "agents: {painter: {function: 'tests.cli.people:ask'}}\n"
            f"teams: {{paint: {{members: [painter], notify: {{webhook: '{written.url}'}}}}}}"
        )
        async with Engine(tmp_path / "j.db") as engine:
            await engine.run(load_team(tmp_path / "team.yaml"), "go", run_id="r")
            await engine.delivered()
            assert (await engine.resume("r")).status == "paused"
            await engine.delivered()
            monkeypatch.setenv("TEAMWRIGHT_WEBHOOK", general.url)
            assert (await engine.resume("r")).status == "paused"
            await engine.delivered()
            events = await engine.journal.read("r")
    assert (len(written.told), len(general.told)) == (1, 1)
    first, second, third = [event.fact.error for event in events if isinstance(event.fact, RunNotified)]
    assert (first, third) == (None, None)
    assert second is not None
    assert "${NAME}" in second


@pytest.mark.parametrize(
    ("question", "command"),
    [
        (Question(text="?"), 'teamwright runs answer r --key k "…"'),
        (Question(text="?", choices=("yes", "not yet")), "teamwright runs answer r --key k yes   (or 'not yet')"),
        (
            approval_question("?", "x"),
            'teamwright runs answer r --key k approve   (or reject "why", or edit "…")',
        ),
        (review_question("?", "x"), 'teamwright runs answer r --key k accept   (or revise "…", or stop)'),
    ],
)
def test_what_to_type_depends_on_the_question(question: Question, command: str) -> None:
    assert answer_command("r", "k", question) == command
