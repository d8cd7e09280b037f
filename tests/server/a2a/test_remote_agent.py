"""A remote agent as a member: its answer, its questions, the same task after an interruption, and liars."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from teamwright import Engine
from teamwright.engine import Handle
from teamwright.journal import MemoryJournal
from teamwright.server.a2a import remote_agent, sdk
from teamwright.server.a2a.sdk import RemoteClient
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.values.limits import Limits
from tests.server.a2a.conftest import Agents


def team_of(folder: Path, address: str, token: str = "none") -> Team:
    folder.mkdir(exist_ok=True)
    text = f"""\
agents:
  far:
    a2a: {{url: "{address}", headers: {{Authorization: "Bearer ${{A2A_TOKEN}}"}}}}
    retry: {{times: 1, backoff: 0.01}}
teams:
  local: {{members: [far]}}
"""
    (folder / "team.yaml").write_text(text)
    return load_team(folder / "team.yaml")


@pytest.fixture
def far(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("A2A_TOKEN", agents.server.token("run"))
    return f"{agents.server.url}/a2a"


async def test_a_remote_agent_answers(agents: Agents, far: str, tmp_path: Path) -> None:
    async with Engine("memory") as engine:
        result = await engine.run(team_of(tmp_path / "local", f"{far}/pair"), "Go")
        record = str((await engine.runs.history(result.run_id)).manifest)
    assert (result.status, result.output) == ("completed", "two")
    assert "${A2A_TOKEN}" in record
    assert os.environ["A2A_TOKEN"] not in record
    assert len(await agents.server.state.engine.runs.list()) == 1


@pytest.mark.usefixtures("agents")
async def test_its_questions_are_those_of_the_run(far: str, tmp_path: Path) -> None:
    async with Engine("memory") as engine:
        handle = await engine.start(team_of(tmp_path / "local", f"{far}/asking"), "Go", run_id="r")
        assert (await handle.result()).status == "paused"
        for text in ("red", "it is warm"):
            ((key, question),) = (await engine.runs.history("r")).questions().items()
            assert "far asks: " in question.text
            await engine.runs.answer("r", key, text)
            result = await engine.resume("r")
    assert result.output == "red because it is warm"


async def test_an_interrupted_run_asks_for_the_same_task_again(agents: Agents, far: str, tmp_path: Path) -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        handle: Handle = await engine.start(team_of(tmp_path / "local", f"{far}/slow"), "Go", run_id="r")
        async for item in engine.runs.follow("r"):
            if getattr(item, "kind", "") == "agent.returned":
                break
        assert handle.run_id == "r"
    (task,) = await agents.server.state.engine.runs.list()
    async with Engine(journal) as engine:
        result = await engine.resume("r")
        events = (await engine.runs.history("r")).events
    assert result.output == "word word word"
    assert [one.id for one in await agents.server.state.engine.runs.list()] == [task.id]
    assert sum(event.kind == "agent.called" and event.key.endswith("send") for event in events) == 1


async def test_what_fails_there_fails_here_with_its_words(agents: Agents, far: str, tmp_path: Path) -> None:
    assert agents.server.url in far
    async with Engine("memory") as engine:
        result = await engine.run(team_of(tmp_path / "local", f"{far}/failing"), "Go")
    assert result.status == "failed"
    assert result.failure is not None
    assert "no luck" in result.failure.message


@pytest.mark.parametrize("role", ["read", "none"])
async def test_a_token_without_rights_is_said(
    agents: Agents, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    monkeypatch.setattr(remote_agent, "AWAY_SECONDS", 0.3)
    monkeypatch.setenv("A2A_TOKEN", agents.server.token("read") if role == "read" else "tw_wrong")
    async with Engine("memory") as engine:
        result = await engine.run(team_of(tmp_path / "local", f"{agents.server.url}/a2a/pair"), "Go")
    assert result.status == "failed"
    assert await agents.server.state.engine.runs.list() == []


class Liar:
    """A server that answers each address with fixed JSON, or with the next of a list; `heads` are what it was sent."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.heads: list[str] = []
        self.more = ""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except asyncio.IncompleteReadError:  # its client has given up
            writer.close()
            return
        length = next((int(line[15:]) for line in head.lower().splitlines() if line.startswith("content-length:")), 0)
        await reader.readexactly(length)
        self.heads.append(head)
        path = head.split()[1]
        found = next((answer for part, answer in self.answers.items() if part in path), {})
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        body = found if isinstance(found, bytes) else json.dumps(found).encode()
        writer.write(
            f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{self.more}".encode()
            + f"content-length: {len(body)}\r\n\r\n".encode()
        )
        writer.write(body)
        await writer.drain()
        writer.close()

    def asked(self, part: str) -> int:
        """How often an address with this part was called."""
        return sum(part in head.split()[1] for head in self.heads)


@asynccontextmanager
async def listening(liar: Liar) -> AsyncGenerator[str]:
    """Let a liar answer, and return its address; its card names it, unless it has another."""
    async with await asyncio.start_server(liar, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        liar.answers.setdefault("agent-card", card(url))
        yield url


def card(url: str) -> dict[str, Any]:
    return {
        "name": "liar",
        "description": "lies",
        "version": "1",
        "supportedInterfaces": [{"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}],
        "capabilities": {},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [],
    }


WORKING = {"id": "t", "status": {"state": "TASK_STATE_WORKING"}}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"agent-card": b"<html>"}, "far"),
        ({"agent-card": {}}, "far"),
        ({"send": b"no json", "agent-card": None}, "far"),
        ({"send": {"task": WORKING}, "/tasks": {"id": "other", "status": {}}, "agent-card": None}, "another task"),
        ({"send": {"task": WORKING}, "/tasks": {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}},
          "agent-card": None}, "without an answer"),
        ({"send": {"task": WORKING}, "/tasks": WORKING, "agent-card": None}, "time"),
        ({"send": {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []}}, "agent-card": None}, "without"),
    ],
)  # fmt: skip
async def test_an_agent_that_lies_or_never_ends_fails_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv("A2A_TOKEN", "x")
    monkeypatch.setattr(remote_agent, "AWAY_SECONDS", 0.2)
    monkeypatch.setattr(remote_agent, "SECONDS", 1.0)
    liar = Liar(answers)
    async with await asyncio.start_server(liar, "127.0.0.1", 0) as listening, Engine("memory") as engine:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        if liar.answers.get("agent-card") is None:
            liar.answers["agent-card"] = card(url)
        result = await engine.run(team_of(tmp_path / "local", url), "Go")
    assert result.status in ("failed", "timeout")
    assert result.failure is not None
    assert words in f"{result.failure.message} {result.failure.error} {result.failure.member}"


async def test_an_agent_that_is_away_fails_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOKEN", "x")
    monkeypatch.setattr(remote_agent, "AWAY_SECONDS", 0.2)
    async with Engine("memory") as engine:
        result = await engine.run(team_of(tmp_path / "local", "http://127.0.0.1:9/a2a/x"), "Go")
    assert result.failure is not None
    assert "can't be reached" in result.failure.message


NEVER_DONE = {"send": {"task": WORKING}, ":cancel": WORKING, "/tasks": WORKING}


@pytest.mark.parametrize("how", ["person", "deadline", "timeout", "interruption"])
async def test_a_turn_that_ends_for_good_cancels_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setenv("A2A_TOKEN", "x")
    monkeypatch.setattr(remote_agent, "CANCEL_SECONDS", 20.0)
    if how == "timeout":
        monkeypatch.setattr(remote_agent, "SECONDS", 2.0)
    limits = Limits(seconds=3) if how == "deadline" else None
    liar, journal = Liar(dict(NEVER_DONE)), MemoryJournal()
    async with listening(liar) as url:
        team = team_of(tmp_path / "local", url)
        async with Engine(journal) as engine:
            handle = await engine.start(team, "Go", run_id="r", limits=limits)
            while not liar.asked("/tasks"):  # noqa: ASYNC110 - the timeout of the test ends it
                await asyncio.sleep(0.02)
            if how == "person":
                await engine.runs.cancel("r")
            if how == "interruption":
                handle.interrupt()
            result = await handle.result()
        assert liar.asked(":cancel") == (how != "interruption")
        assert result.status == {"person": "cancelled", "interruption": "interrupted", "deadline": "timeout"}.get(
            how, result.status
        )
        async with Engine(journal) as engine:
            await engine.runs.history("r")
            assert liar.asked(":cancel") == (how != "interruption")


async def test_a_slow_agent_is_told_of_the_cancellation_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOKEN", "x")
    opened = remote_agent.remote_client

    @asynccontextmanager
    async def slowly(*args: Any, **kwargs: Any) -> AsyncGenerator[RemoteClient]:
        async with opened(*args, **kwargs) as client:
            if is_cancelled:
                await asyncio.sleep(1)  # meanwhile the turn is cancelled again
            yield client

    monkeypatch.setattr(remote_agent, "remote_client", slowly)
    liar, is_cancelled = Liar(dict(NEVER_DONE)), False
    async with listening(liar) as url, Engine("memory") as engine:
        handle = await engine.start(team_of(tmp_path / "local", url), "Go", run_id="r")
        while not liar.asked("/tasks"):  # noqa: ASYNC110 - the timeout of the test ends it
            await asyncio.sleep(0.02)
        is_cancelled = True
        await engine.runs.cancel("r")
        await handle.result()
        assert liar.asked(":cancel")


async def test_an_agent_that_does_not_cancel_holds_up_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOKEN", "x")
    monkeypatch.setattr(remote_agent, "CANCEL_SECONDS", 0.1)
    liar = Liar(NEVER_DONE | {":cancel": b"no json"})
    async with listening(liar) as url, Engine("memory") as engine:
        handle = await engine.start(team_of(tmp_path / "local", url), "Go", run_id="r")
        while not liar.asked("/tasks"):  # noqa: ASYNC110 - the timeout of the test ends it
            await asyncio.sleep(0.02)
        assert (await engine.runs.cancel("r")).status == "cancelled"
        await handle.result()


async def test_a_card_can_not_send_the_headers_to_another_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2A_TOKEN", "secret")
    done = {"task": WORKING | {"status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [
        {"artifactId": "a", "parts": [{"text": "stolen"}]}]}}  # fmt: skip
    thief = Liar({"send": done, "/tasks": done["task"]})
    async with listening(thief) as elsewhere, Engine("memory") as engine:
        async with listening(Liar({"agent-card": card(elsewhere)})) as url:
            result = await engine.run(team_of(tmp_path / "local", url), "Go")
        assert result.failure is not None
        assert "names another server" in result.failure.message
        assert thief.heads == []


@pytest.mark.parametrize("packed", [False, True])
async def test_a_response_that_is_too_large_fails_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, packed: bool
) -> None:
    monkeypatch.setenv("A2A_TOKEN", "x")
    monkeypatch.setattr(sdk, "LARGEST_RESPONSE", 2000)
    huge = json.dumps({"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "x" * 1_000_000}]}})
    liar = Liar({"send": gzip.compress(huge.encode()) if packed else huge.encode()})
    async with listening(liar) as url, Engine("memory") as engine:
        if packed:
            liar.more = "content-encoding: gzip\r\n"
            liar.answers["agent-card"] = gzip.compress(json.dumps(card(url)).encode())
        result = await engine.run(team_of(tmp_path / "local", url), "Go")
    assert result.failure is not None
    assert ("far" if packed else "more than 2000 bytes") in f"{result.failure.message} {result.failure.member}"


async def test_an_answered_question_that_still_stands_is_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A2A_TOKEN", "x")
    message = {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": "Which?"}]}
    asks = {"id": "t", "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": message}}
    done = {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"text": "so be it"}]}]}  # fmt: skip
    liar = Liar({"send": {"task": asks}, "/tasks": [asks, asks, asks, done]})
    async with listening(liar) as url, Engine("memory") as engine:
        handle = await engine.start(team_of(tmp_path / "local", url), "Go", run_id="r")
        assert (await handle.result()).status == "paused"
        ((key, _),) = (await engine.runs.history("r")).questions().items()
        await engine.runs.answer("r", key, "this")
        assert (await engine.resume("r")).output == "so be it"


async def test_a_token_that_is_echoed_is_not_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2A_TOKEN", "opensesame-4711-xyz")
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "I got Bearer opensesame-4711-xyz"}]}
    async with listening(Liar({"send": {"message": said}})) as url, Engine("memory") as engine:
        result = await engine.run(team_of(tmp_path / "local", url), "Go")
    assert result.output is not None
    assert "I got" in result.output
    assert "opensesame" not in result.output
