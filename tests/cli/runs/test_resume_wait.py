"""Runs whose provider takes no calls for a while: what the commands say of them, and `runs resume --wait`."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

from teamwright.testing.model_server import ChatAnswer, ChatRequest, Fail, ModelServer, Say
from tests.kit.terminal import Call, write_team

TEAM = """\
agents:
  scout: {{model: open}}
  writer: {{model: closed, retry: {{backoff: {{max: 0.2}}, outlast: 6h}}}}
  editor: {{model: closed, retry: {{backoff: {{max: 0.2}}, outlast: 6h}}}}
teams:
  paper: {{members: [scout, writer, editor]}}
models:
  open: {{url: "{url}", name: open}}
  closed: {{url: "{url}", name: closed}}
"""


class Closed:
    """Answers of a server whose model `closed` takes no calls for some seconds from its first call."""

    def __init__(self, seconds: int) -> None:
        self.seconds, self.opens = seconds, 0.0

    def __call__(self, request: ChatRequest) -> ChatAnswer:
        if request.model == "closed":
            self.opens = self.opens or time.time() + self.seconds
            if time.time() < self.opens:
                return Fail(status=429, retry_after=self.seconds)
        return Say(text=f"{request.model} answers")


def counts(server: ModelServer) -> dict[str, int]:
    models = [request.model for request in server.requests]
    return {name: models.count(name) for name in ("open", "closed")}


def test_a_provider_that_takes_no_calls_for_two_hours_pauses_the_run_and_gets_no_call_before(
    call: Call, tmp_path: Path
) -> None:
    with ModelServer(Closed(7200)) as server:
        folder = write_team(tmp_path / "paper", TEAM.format(url=server.url))
        paused = call("run", folder, "Write", "--run-id", "p", "--json")
        assert paused.code == 7, paused
        assert (paused.json["status"], paused.json["stop_reason"]) == ("paused", "quota")
        resume_at = datetime.fromisoformat(paused.json["resume_at"]).timestamp()
        assert 7190 < resume_at - time.time() < 7201
        assert "resume with: teamwright runs resume p --wait" in paused.err
        before = counts(server)
        again = call("runs", "resume", "p", "--json")
        assert (again.code, again.json["resume_at"]) == (7, paused.json["resume_at"])
        assert counts(server) == before == {"open": 1, "closed": before["closed"]}
    (listed,) = call("runs", "list", "--json").json
    assert (listed["stop_reason"], listed["resume_at"]) == ("quota", paused.json["resume_at"])
    table = call("runs", "list").out
    assert "paused (quota)" in table
    assert datetime.fromtimestamp(resume_at).astimezone().strftime("%Y-%m-%d %H:%M") in table
    shown = call("runs", "show", "p").out
    assert "A provider takes no calls for now. It can go on from" in shown
    assert "a provider takes no calls before" in shown
    assert call("runs", "cancel", "p").code == 0


def test_resume_waits_and_goes_on_with_nothing_paid_twice(call: Call, tmp_path: Path) -> None:
    with ModelServer(Closed(2)) as server:
        folder = write_team(tmp_path / "paper", TEAM.format(url=server.url))
        assert call("run", folder, "Write", "--run-id", "p").code == 7
        refused = counts(server)["closed"]
        waited = call("runs", "resume", "p", "--wait")
        assert (waited.code, waited.out.strip().splitlines()[-1]) == (0, "closed answers")
        assert "waits until" in waited.err
        assert counts(server) == {"open": 1, "closed": refused + 2}


def test_workers_wait_by_themselves(call: Call) -> None:
    wrong = call("runs", "resume", "p", "--wait", "--submit")
    assert wrong.code == 2
    assert "leave out --wait" in wrong.err
