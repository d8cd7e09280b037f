"""Webhook deliveries beside the run: retried with backoff and recorded, and never blocking the run."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Team, Turn, load_team
from teamwright.errors import UsageError
from teamwright.people import Question
from teamwright.runtime.people import webhook
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunNotified
from teamwright.values.people import Notify
from tests.runtime.people.test_webhook_request import SECRET, verify


class Receiver:
    """A webhook on loopback that answers with a sequence of statuses, and may hang first."""

    def __init__(self, *statuses: int, hangs: bool = False) -> None:
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.released = threading.Event()
        answers = iter(statuses)
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
                if hangs:
                    receiver.released.wait(50)
                self.send_response(next(answers, 204))
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    async def called(self) -> None:
        for _ in range(500):
            if self.requests:
                return
            await anyio.sleep(0.01)
        raise AssertionError("nobody called")

    @contextmanager
    def open(self) -> Generator[Receiver]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.released.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_ALLOW_PRIVATE_WEBHOOK", "1")


async def ask(turn: Turn, ctx: Context) -> str:
    return (await ctx.ask_person(Question(text="Which colour?"), key="colour")).text


def painter(url: str, secret: str | None = None) -> Team:
    return Team("paint", members=[FunctionAgent("painter", ask)], notify=Notify(webhook=url, secret=secret))


def notices(events: list[Event]) -> list[RunNotified]:
    return [event.fact for event in events if isinstance(event.fact, RunNotified)]


@pytest.mark.usefixtures("allowed")
async def test_a_notice_is_retried_with_backoff_and_each_attempt_is_recorded() -> None:  # S-07
    with Receiver(503, 429, 204).open() as receiver:
        async with Engine("memory") as engine:
            engine.driver.deliveries.backoff = (0.01, 0.02, 0.04)
            await engine.run(painter(receiver.url, SECRET), "go", run_id="r")
            await engine.delivered()
            found = notices(await engine.journal.read("r"))
            (summary,) = await engine.runs.list()
    assert found == [
        RunNotified(error="HTTP 503", attempt=1, retry_in=0.01),
        RunNotified(error="HTTP 429", attempt=2, retry_in=0.02),
        RunNotified(attempt=3),
    ]
    assert summary.status == "paused"
    ids = {headers["webhook-id"] for headers, _ in receiver.requests}
    assert len(ids) == 1
    assert all(verify(SECRET, headers, body) for headers, body in receiver.requests)
    assert json.loads(receiver.requests[0][1])["run_id"] == "r"


@pytest.mark.usefixtures("allowed")
async def test_a_notice_is_given_up_after_its_last_attempt() -> None:
    with Receiver(*[500] * 10).open() as receiver:
        async with Engine("memory") as engine:
            engine.driver.deliveries.backoff = (0.01, 0.01)
            await engine.run(painter(receiver.url), "go", run_id="r")
            await engine.delivered()
            found = notices(await engine.journal.read("r"))
    assert [(one.attempt, one.retry_in is None) for one in found] == [(1, False), (2, False), (3, True)]
    assert len(receiver.requests) == 3


@pytest.mark.usefixtures("allowed")
async def test_what_will_not_pass_is_not_tried_again() -> None:
    with Receiver(410).open() as receiver:
        async with Engine("memory") as engine:
            await engine.run(painter(receiver.url), "go", run_id="r")
            await engine.delivered()
            found = notices(await engine.journal.read("r"))
    assert found == [RunNotified(error="HTTP 410")]


async def test_a_private_address_is_not_called_unless_that_is_allowed() -> None:  # S-07
    with Receiver().open() as receiver:
        async with Engine("memory") as engine:
            await engine.run(painter(receiver.url), "go", run_id="r")
            await engine.delivered()
            (found,) = notices(await engine.journal.read("r"))
    assert receiver.requests == []
    assert found.error is not None
    assert "TEAMWRIGHT_ALLOW_PRIVATE_WEBHOOK=1" in found.error
    assert found.retry_in is None


@pytest.mark.usefixtures("allowed")
async def test_a_webhook_that_hangs_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:  # S-07
    """The result is available at once, and the run can be answered, resumed and ended meanwhile."""
    monkeypatch.setattr(webhook, "DELIVERY_GRACE", 0.2)
    monkeypatch.setattr(webhook, "TIMEOUT", 50.0)
    with Receiver(hangs=True).open() as receiver:
        with anyio.fail_after(20):
            async with Engine("memory") as engine:
                paused = await engine.run(painter(receiver.url), "go", run_id="r")
                await receiver.called()
                await engine.runs.answer("r", "paint/step-1/colour", "red")
                done = await engine.resume("r", team=painter(receiver.url))
        assert (paused.status, done.output) == ("paused", "red")


@pytest.mark.usefixtures("allowed")
async def test_a_run_that_no_longer_waits_gets_no_further_delivery() -> None:
    with Receiver(*[500] * 10).open() as receiver:
        async with Engine("memory") as engine:
            engine.driver.deliveries.backoff = (0.3, 0.3, 0.3)
            await engine.run(painter(receiver.url), "go", run_id="r")
            await receiver.called()
            await engine.runs.answer("r", "paint/step-1/colour", "red")
            done = await engine.resume("r", team=painter(receiver.url))
            with anyio.fail_after(10):
                await engine.delivered()
            events = await engine.journal.read("r")
    assert done.output == "red"
    assert len(receiver.requests) == 1
    assert [event.number for event in events] == list(range(1, len(events) + 1))


@pytest.mark.usefixtures("allowed")
async def test_leaving_the_engine_ends_deliveries_in_bounded_time_and_says_so(tmp_path: Path) -> None:
    with Receiver(*[500] * 10).open() as receiver:
        with anyio.fail_after(20):
            async with Engine(tmp_path / "j.db") as engine:
                engine.driver.deliveries.backoff = (60.0,)
                await engine.run(painter(receiver.url), "go", run_id="r")
        async with Engine(tmp_path / "j.db") as engine:
            found = notices(await engine.journal.read("r"))
    assert found[-1].error is not None
    assert found[-1].retry_in is None
    assert len(receiver.requests) == 1


@pytest.mark.usefixtures("allowed")
async def test_closing_the_engine_at_once_still_calls_the_webhook(tmp_path: Path) -> None:
    with Receiver().open() as receiver:
        async with Engine(tmp_path / "j.db") as engine:
            await engine.run(painter(receiver.url), "go", run_id="r")
        async with Engine(tmp_path / "j.db") as engine:
            assert notices(await engine.journal.read("r")) == [RunNotified()]
    assert len(receiver.requests) == 1


@pytest.mark.usefixtures("allowed")
async def test_a_secret_of_a_manifest_signs_and_is_in_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # S-07
    with Receiver(500).open() as receiver:
        monkeypatch.setenv("HOOK", receiver.url)
        monkeypatch.setenv("HOOK_SECRET", SECRET)
        (tmp_path / "team.yaml").write_text(
            "agents: {painter: {function: 'tests.cli.people:ask'}}\n"
            "teams: {paint: {members: [painter], notify: {webhook: '${HOOK}', secret: '${HOOK_SECRET}'}}}"
        )
        async with Engine(tmp_path / "j.db") as engine:
            engine.driver.deliveries.backoff = (0.01,)
            await engine.run(load_team(tmp_path / "team.yaml"), "go")
            await engine.delivered()
    assert len(receiver.requests) == 2
    assert all(verify(SECRET, headers, body) for headers, body in receiver.requests)
    written = b"".join(file.read_bytes() for file in tmp_path.glob("j.db*"))
    assert SECRET.encode() not in written
    assert base64.b64decode(SECRET[6:]) not in written


async def test_an_invalid_secret_is_refused_when_the_team_is_made() -> None:
    with pytest.raises(UsageError, match="whsec_"):
        painter("https://hooks.example/", "guess me")


@pytest.mark.usefixtures("allowed")
async def test_a_delivery_that_breaks_affects_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(webhook, "post", broken)
    async with Engine("memory") as engine:
        await engine.run(painter("http://127.0.0.1:9/"), "go", run_id="r")
        await engine.delivered()
        (found,) = notices(await engine.journal.read("r"))
        assert (await engine.run(painter("http://127.0.0.1:9/"), "go")).status == "paused"
    assert found.error is not None
    assert "unforeseen" in found.error
