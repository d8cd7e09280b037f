"""Replies, failures and results of effects, rebuilt from recorded events and bodies."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Engine, load_team
from teamwright.errors import AgentError, JournalCorrupt, LimitReached, ServiceError
from teamwright.history.recorded_asks import (
    RecordedAsk,
    RecordedBodies,
    RecordedCall,
    recorded_reply,
    recorded_result,
    texts_apart,
)
from teamwright.testing.model_server import ModelServer, Say
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
    MessageRef,
    TextRef,
)
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Failure, Reply
from teamwright.values.usage_and_prices import Usage

ASKED = AgentAsked(member="a", member_kind="model", turn=1, task="b1", length=0, digest="d")
BODIES = RecordedBodies({"x": '"hello"', "y": '{"n":1}'})


def ended(ending: AgentReplied | AgentFailed | None) -> RecordedAsk:
    return RecordedAsk(ASKED, 0.0, 1, ending)


def test_a_reply_is_rebuilt_from_its_bodies() -> None:
    known: dict[str, str] = {}
    said = AgentReplied(
        messages=(MessageRef(name="a", body="x"), MessageRef(name="u", body="x", role="user")), data="y", truncated=True
    )
    reply = recorded_reply(ended(said), BODIES, known.__setitem__)
    assert isinstance(reply, Reply)
    assert (reply.text, reply.data, reply.truncated, known) == ("hello", {"n": 1}, True, {"hello": "x"})
    assert [message.role for message in reply.messages] == ["assistant", "user"]


def test_a_failure_is_rebuilt_with_the_messages_before_it() -> None:
    failed = AgentFailed(member="a", error="server", message="down", messages=(MessageRef(name="a", body="x"),))
    rebuilt = recorded_reply(ended(failed), BODIES, lambda text, body: None)
    assert isinstance(rebuilt, Failure)
    assert (rebuilt.member, rebuilt.error, rebuilt.message) == ("a", "server", "down")
    assert [message.content for message in rebuilt.messages] == ["hello"]
    bare = AgentFailed(member="a", error="server", message="down")
    assert recorded_reply(ended(bare), BODIES, lambda text, body: None) == Failure(
        member="a", error="server", message="down"
    )


def test_an_open_ask_has_no_reply() -> None:
    with pytest.raises(AssertionError, match="only an ask that has ended"):
        recorded_reply(ended(None), BODIES, lambda text, body: None)


def test_a_recorded_result_is_rebuilt_with_its_usage() -> None:
    usage = Usage(requests=1, input_tokens=30)
    returned = recorded_result(RecordedCall("r", outcome=AgentReturned(body="y", usage=usage, mark="rule-1")), BODIES)
    assert (returned.value, returned.usage, returned.mark) == ({"n": 1}, usage, "rule-1")


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        (AgentCallFailed(error="server", message="down"), ServiceError),
        (BudgetRefused(level="t", what="tokens", needed=2, left=1, limit=9), LimitReached),
        (None, AgentError),
    ],
)
def test_a_recorded_failure_is_raised_again(
    outcome: AgentCallFailed | BudgetRefused | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        recorded_result(RecordedCall("r", outcome=outcome), RecordedBodies())


def test_a_missing_body_is_reported() -> None:
    with pytest.raises(JournalCorrupt, match="'gone' is missing"):
        RecordedBodies().value("gone")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"parts": [{"content": "x" * 200, "part_kind": "text"}, {"tool": "t"}], "usage": {}}, ("parts",)),
        ({"parts": [{"content": "x" * 200, "part_kind": "thinking"}]}, ("parts",)),
        ({"messages": [{"content": "short"}, {"content": "y" * 200}]}, ("messages",)),
        ({"reply": {"messages": [{"content": "é" * 200}]}}, ("reply", "messages")),
        ({"failure": {"message": "z" * 200}}, ("reply", "messages")),
        ({"parts": [{"content": " \n" + "w" * 200 + "\n", "part_kind": "text"}]}, ("parts",)),
        ({"parts": [{"content": " " * 200, "part_kind": "text"}]}, ("parts",)),
        ({"parts": "damaged"}, ("parts",)),
        ("a text", ("parts",)),
        (None, ("parts",)),
    ],
)
@pytest.mark.parametrize("strips", [False, True])
def test_a_value_whose_texts_are_stored_apart_is_rebuilt_as_it_was(
    value: JsonValue, place: tuple[str, ...], strips: bool
) -> None:
    before = json.dumps(value)
    bodies: dict[str, str] = {}

    def store(one: JsonValue) -> str:
        bodies[digest(json.dumps(one))] = json.dumps(one)
        return digest(json.dumps(one))

    rest, texts = texts_apart(value, place, store, strips=strips)
    fact = AgentReturned(body=store(rest), texts=texts)
    assert json.dumps(value) == before
    assert all(text not in json.dumps(rest) for text in ("y" * 200, "\u00e9" * 200))
    assert set(fact.bodies) == bodies.keys()
    assert RecordedBodies(bodies).result(fact) == value


def test_a_text_without_a_place_in_its_value_is_damage() -> None:
    fact = AgentReturned(body="y", texts=(TextRef(path=("parts", 0, "content"), body="x"),))
    with pytest.raises(JournalCorrupt, match="no place"):
        BODIES.result(fact)


@pytest.mark.parametrize("form", ["{}", "\n  {}", "{}\n\n"])
def test_the_reply_of_a_model_is_stored_once_whatever_is_around_it(tmp_path: Path, form: str) -> None:
    said = "a word that is said once " * 40 + "and ends"
    whole = form.format(said)
    with ModelServer(lambda _: Say(text=whole)) as server:
        path = tmp_path / "team.yaml"
        model = f"{{url: '{server.url}', name: tiny}}"
        path.write_text(f"models: {{m: {model}}}\nagents: {{a: {{model: m}}}}\nteams: {{t: {{members: [a]}}}}\n")

        async def run() -> str | None:
            async with Engine(tmp_path / "journal.db") as engine:
                result = await engine.run(load_team(path), "Go", run_id="one")
                again = await engine.fork("one", new_id="two")
                texts = [await engine.texts(event) for event in (await engine.runs.history("two")).events]
                assert any(found.get("response") == whole for found in texts), "what the model said is in the record"
                assert again.output == result.output
                return result.output

        assert anyio.run(run) == said
        assert len(server.requests) == 1, "the fork replays what is recorded"
    assert (tmp_path / "journal.db").read_bytes().count(said.encode()) == 1
