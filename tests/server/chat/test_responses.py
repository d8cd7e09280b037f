"""Responses by the official client: answers, conversations, background, retries, a killed server, refusals."""

from __future__ import annotations

import base64
import json
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import openai
import pytest

from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.server import driven_runs as awaited_runs
from tests.kit.terminal import write_team
from tests.server.chat.responses_doors import SCHEMA, Doors, opened, said
from tests.server.conftest import PAIR
from tests.server.test_driven_runs import Served

PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f00050001ff"
        "89993d1d0000000049454e44ae426082"
    )
).decode()


async def test_members_comment_and_the_last_message_is_the_answer(doors: Doors) -> None:
    client = doors.client()
    found = await client.responses.create(model="talk", input="Go", metadata={"case": "7"})
    assert found.status == "completed"
    assert said(found) == [("commentary", "one"), ("final_answer", "two")]
    assert [getattr(one, "member", "") for one in found.output] == ["a", "b"]
    assert found.usage is not None
    result = await doors.server.state.engine.runs.result(found.id.removeprefix("resp_"))
    assert (found.usage.total_tokens, found.usage.input_tokens) == (
        result.usage.total_tokens,
        result.usage.input_tokens,
    )
    assert (found.model, found.metadata, found.previous_response_id) == ("talk", {"case": "7"}, None)


async def test_a_response_is_read_from_the_journal_also_after_a_restart(tmp_path: Path, response_teams: Path) -> None:
    journal = tmp_path / "journal.db"
    async with opened(tmp_path, response_teams, SqliteJournal(journal)) as doors:
        client = doors.client()
        first = await client.responses.create(model="gated", input="Go")
        second = await client.responses.create(model="gated", input="approve", previous_response_id=first.id)
        third = await client.responses.create(model="pair", input="And?", previous_response_id=second.id)
    async with opened(tmp_path, response_teams, SqliteJournal(journal)) as doors:
        reader = doors.client("read")
        for made in (first, second, third):
            assert await reader.responses.retrieve(made.id) == made
    assert [one.previous_response_id for one in (first, second, third)] == [None, first.id, second.id]


async def test_the_next_response_continues_the_conversation(doors: Doors) -> None:
    client = doors.client()
    first = await client.responses.create(model="talk", input="first question")
    then = partial(client.responses.create, model="talk", previous_response_id=first.id)
    second = await then(input="and then?")
    assert said(second)[-1] == ("final_answer", "I remember.")
    assert second.conversation is not None
    summary = await doors.server.state.engine.conversations.last(second.conversation.id)
    assert summary is not None
    assert f"resp_{summary.id}" == second.id
    branch = await then(input="and then, once more?")
    assert said(branch)[-1] == ("final_answer", "I remember.")
    assert (branch.previous_response_id, branch.conversation) == (first.id, None)
    third = await client.responses.create(model="talk", input="and then?", previous_response_id=second.id)
    assert third.conversation == second.conversation


async def test_a_conversation_of_the_server_goes_on_by_its_name(doors: Doors) -> None:
    client = doors.client()
    for text in ("first question", "and then?"):
        found = await client.responses.create(model="talk", input=text, conversation="c")
    assert said(found)[-1] == ("final_answer", "I remember.")
    assert found.conversation is not None
    assert found.conversation.id == "c"


async def test_without_a_conversation_the_messages_before_the_last_are_its_history(doors: Doors) -> None:
    client = doors.client()
    first = await client.responses.create(model="talk", input="first question")
    history: list[Any] = [
        {"role": "user", "content": "first question"},
        *(one.model_dump() for one in first.output),
        {"role": "user", "content": [{"type": "input_text", "text": "and then?"}]},
    ]
    found = await client.responses.create(model="talk", input=history, instructions="Be short.")
    assert (said(found)[-1], found.instructions) == (("final_answer", "I remember."), "Be short.")
    run = await doors.server.state.engine.runs.history(found.id.removeprefix("resp_"))
    assert [one.name for one in run.conversation()][:4] == ["user", "user", "a", "b"]


async def test_a_question_leaves_the_response_incomplete_and_the_next_request_answers_it(doors: Doors) -> None:
    client = doors.client()
    first = await client.responses.create(model="asking", input="Go")
    assert first.status == "incomplete"
    assert first.incomplete_details is not None
    assert first.incomplete_details.reason == "input_required"
    assert said(first)[-1] == ("final_answer", "Which colour?\n\nAnswer with one of: red, blue.")
    question: Any = getattr(first.output[-1], "question", None)
    assert (question["choices"], question["reason"]) == (["red", "blue"], "question")
    answer = partial(client.responses.create, model="asking")
    with pytest.raises(openai.BadRequestError, match="is no answer"):
        await answer(input="green", previous_response_id=first.id)
    second = await answer(input="red", previous_response_id=first.id)
    assert (second.status, said(second)) == ("incomplete", [("final_answer", "Why?")])
    assert await answer(input="red", previous_response_id=first.id) == second  # the same request is the same answer
    with pytest.raises(openai.BadRequestError, match="answered already"):
        await answer(input="blue", previous_response_id=first.id)
    third = await answer(input="Because.", previous_response_id=second.id, stream=True)
    events = [one async for one in third]
    assert events[-1].type == "response.completed"
    assert said(events[-1].response)[-1] == ("final_answer", "red because Because.")
    assert await client.responses.retrieve(first.id) == first
    assert len(await doors.runs()) == 1


async def test_several_questions_are_answered_by_their_keys_at_once_or_one_after_the_other(doors: Doors) -> None:
    client = doors.client()
    for together in (True, False):
        first = await client.responses.create(model="twice", input=f"Go {together}")
        keys = [getattr(one, "question")["key"] for one in first.output]  # noqa: B009 - the client does not know it
        assert len(keys) == 2
        answer = partial(client.responses.create, model="twice")
        with pytest.raises(openai.BadRequestError, match="2 questions are open"):
            await answer(input="yes", previous_response_id=first.id)
        with pytest.raises(openai.BadRequestError, match="nothing is asked at 'nowhere'"):
            await answer(input=answers("nowhere"), previous_response_id=first.id)
        if together:
            last = await answer(input=answers(*keys), previous_response_id=first.id)
        else:
            half = await answer(input=answers(keys[0]), previous_response_id=first.id)
            assert (half.status, len(half.output)) == ("incomplete", 1)
            last = await answer(input="yes", previous_response_id=half.id)
        assert (last.status, said(last)[-1]) == ("completed", ("final_answer", "both"))


def answers(*keys: str) -> Any:
    return [{"type": "teamwright:answer", "key": key, "text": "yes"} for key in keys]


async def test_an_answer_from_elsewhere_lets_the_same_response_go_on(doors: Doors) -> None:
    client = doors.client()
    first = await client.responses.create(model="gated", input="Go")
    run_id, (question,) = first.id.removeprefix("resp_"), (await doors.server.client("read").get("/api/inbox")).json()
    reply = {"key": question["key"], "text": "approve"}
    await doors.server.client("answer").post(f"/api/runs/{run_id}/answers", json=reply)
    await doors.server.state.engine.runs.wait(run_id)
    found = await client.responses.retrieve(first.id)
    assert (found.status, said(found)[-1]) == ("completed", ("final_answer", "two"))


async def test_a_response_in_the_background_is_polled_and_cancelled(doors: Doors) -> None:
    client = doors.client()
    found = await client.responses.create(model="slow", input="Go", background=True)
    assert found.status in ("queued", "in_progress")
    found = await doors.settled(found.id)
    assert (found.status, said(found)[-1]) == ("completed", ("final_answer", "word word word"))
    held = await client.responses.create(model="held", input="Go", background=True)
    ended = await client.responses.cancel(held.id)
    assert (ended.status, (await client.responses.retrieve(held.id)).status) == ("cancelled", "cancelled")
    assert (await client.responses.cancel(found.id)).status == "completed"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_run_without_an_answer_has_failed_and_is_not_asked_again(doors: Doors, stream: bool) -> None:
    client = doors.client()
    create: Any = client.responses.create
    made = await create(model="talk", input="break", stream=stream)
    found = [one async for one in made][-1].response if isinstance(made, openai.AsyncStream) else made
    assert (found.status, len(await doors.runs())) == ("failed", 1)
    assert found.error is not None
    assert (found.error.code, "is failed" in found.error.message) == ("run_failed", True)
    assert (await client.responses.retrieve(found.id)).error == found.error


async def test_a_run_that_has_spent_its_budget_is_incomplete(doors: Doors) -> None:
    found: Any = await doors.client().responses.create(model="poor", input="Go")
    assert found.status == "incomplete"
    assert found.incomplete_details is not None
    assert found.incomplete_details.reason == "budget"
    assert said(found)[-1] == ("final_answer", "one")
    assert found.output[-1].status == "incomplete"


async def test_a_call_that_timed_out_finds_its_run_again(doors: Doors) -> None:
    client = doors.client(timeout=0.9)
    found = await client.responses.create(model="slow", input="Go")
    assert said(found)[-1] == ("final_answer", "word word word")
    assert await doors.runs() == [found.id.removeprefix("resp_")]
    again = await client.responses.create(model="slow", input="Go", timeout=20)
    assert again.id != found.id  # it was answered: who asks again wants another answer


async def test_a_call_that_was_given_up_ends_its_run_unless_it_is_stored(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(awaited_runs, "RETURN_SECONDS", 0.3)
    client = doors.client(timeout=0.3, max_retries=0)
    for store in (None, True):
        with pytest.raises(openai.APITimeoutError):
            await client.responses.create(model="held", input="Go", store=store)
    kept, left = await doors.runs()
    assert (await doors.settled(f"resp_{left}")).status == "cancelled"
    assert (await doors.client("read").responses.retrieve(f"resp_{kept}")).status == "in_progress"


async def test_requests_with_one_key_are_one_response_also_in_a_conversation(doors: Doors) -> None:
    client = doors.client()
    first = await client.responses.create(model="pair", input="Go")
    asked = partial(client.responses.create, model="pair", extra_headers={"Idempotency-Key": "k"})
    found = [await asked(input="And?", previous_response_id=first.id) for _ in range(3)]
    assert (len({one.id for one in found}), len(await doors.runs())) == (1, 2)
    with pytest.raises(openai.ConflictError):
        await asked(input="Or?", previous_response_id=first.id)
    with pytest.raises(openai.ConflictError):
        await asked(input="And?")
    branch = await client.responses.create(model="pair", input="Or?", previous_response_id=first.id)
    with pytest.raises(openai.ConflictError, match="continues"):
        await asked(input="And?", previous_response_id=branch.id)
    assert len(await doors.runs()) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_killed_server_keeps_responses_in_the_background_and_their_questions(response_teams: Path) -> None:
    with Served(response_teams) as server:
        working = create(server, model="slow", input="Go", background=True)
        server.wait_for(working["id"].removeprefix("resp_"), "agent.replied")
        waiting = create(server, model="asking", input="Go")
        server.process.send_signal(signal.SIGKILL)
    with Served(response_teams) as server:
        assert retrieve(server, waiting["id"]) == waiting
        answered = create(server, model="asking", input="red", previous_response_id=waiting["id"], background=True)
        server.process.send_signal(signal.SIGKILL)
    with Served(response_teams) as server:
        again = create(server, model="asking", input="red", previous_response_id=waiting["id"], background=True)
        assert again["id"] == answered["id"]
        streamed = server.client.get(f"/v1/responses/{working['id']}?stream=true", timeout=40).text
        assert '"type": "response.completed"' in streamed
        found = retrieve(server, working["id"])
        assert (found["status"], found["output"][-1]["content"][0]["text"]) == ("completed", "word word word")
        asked = server.client.get(f"/v1/responses/{answered['id']}?stream=true", timeout=40).text
        assert "Why?" in asked


def create(server: Served, **asked: Any) -> dict[str, Any]:
    answer = server.client.post("/v1/responses", json=asked, timeout=40)
    assert answer.status_code == 200, answer.text
    return answer.json()


def retrieve(server: Served, response: str) -> dict[str, Any]:
    return server.client.get(f"/v1/responses/{response}").json()


async def test_structured_output_is_that_of_the_team(doors: Doors) -> None:
    client = doors.client()
    strict = {**SCHEMA, "title": "Colour", "additionalProperties": False}
    form: Any = {"format": {"type": "json_schema", "name": "colour", "schema": strict, "strict": True}}
    found = await client.responses.create(model="formed", input="Go", text=form)
    assert said(found)[-1] == ("final_answer", '{"colour": "red"}')
    assert found.text is not None
    other: Any = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}
    with pytest.raises(openai.BadRequestError, match="by the output schema that it declares"):
        await client.responses.create(model="formed", input="Go", text=other)
    with pytest.raises(openai.BadRequestError, match="has no output schema") as error:
        await client.responses.create(model="pair", input="Go", text={"format": {"type": "json_object"}})
    assert (error.value.param, error.value.type) == ("text.format", "invalid_request_error")
    assert len(await doors.runs()) == 1


async def test_images_and_files_go_with_the_task(doors: Doors) -> None:
    data = f"data:image/png;base64,{PNG}"
    parts: list[Any] = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": data, "detail": "low"},
        {"type": "input_file", "filename": "a.txt", "file_data": base64.b64encode(b"hello").decode()},
        {"type": "input_file", "filename": "b.txt", "file_data": "data:text/plain;base64,aGk="},
    ]
    found = await doors.client().responses.create(model="pair", input=[{"role": "user", "content": parts}])
    assert found.status == "completed"
    run = await doors.server.state.engine.runs.result(found.id.removeprefix("resp_"))
    assert [(one.name, one.media_type) for one in run.attachments] == [
        ("file.png", "image/png"),
        ("a.txt", "text/plain"),
        ("b.txt", "text/plain"),
    ]


async def test_each_visitor_needs_the_role_of_what_is_done(doors: Doors) -> None:
    asked = {"model": "gated", "input": "Go"}
    for role in ("read", "answer"):
        assert (await doors.server.client(role).post("/v1/responses", json=asked)).status_code == 403
    assert await doors.runs() == []
    first = await doors.client().responses.create(model="gated", input="Go")
    with pytest.raises(openai.PermissionDeniedError):
        await doors.client("read").responses.create(model="gated", input="approve", previous_response_id=first.id)
    with pytest.raises(openai.PermissionDeniedError):
        await doors.client("answer").responses.cancel(first.id)
    last = await doors.client("answer").responses.create(model="gated", input="approve", previous_response_id=first.id)
    assert last.status == "completed"
    with pytest.raises(openai.PermissionDeniedError):  # the next turn of the conversation is a run
        await doors.client("answer").responses.create(model="gated", input="And?", previous_response_id=last.id)
    lines = doors.server.state.audit.read(20)
    run_id = first.id.removeprefix("resp_")
    assert {one.on.get("run_id") for one in lines if one.status == 200} == {run_id}


@pytest.mark.parametrize(
    ("changed", "status", "param", "words"),
    [
        ({"model": "nobody"}, 404, "model", "no team 'nobody'"),
        ({"model": None}, 422, "model", "is missing"),
        ({"input": 5}, 422, "input", "expects text or a list"),
        ({"input": []}, 400, "input", "has no message"),
        ({"input": " "}, 400, None, "blank"),
        ({"input": [{"role": "assistant", "content": "Hi"}]}, 400, None, "has to be the user's"),
        ({"input": [{"role": "odd", "content": "Hi"}]}, 422, "input.0.role", "'odd'"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, 422, "input.0", "reads no 'item_reference'"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, 422, "input.0", "functions"),
        ({"input": [{"type": "teamwright:answer", "text": "x"}]}, 400, "input", "none waits"),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, 422, "input.0.content.0", "input_audio"),
        ({"previous_response_id": "resp_none"}, 400, "previous_response_id", "no response 'resp_none'"),
        ({"previous_response_id": "../x"}, 400, "previous_response_id", "no response"),
        ({"previous_response_id": "resp_x", "conversation": "c"}, 422, None, "not both"),
        ({"conversation": "../x"}, 400, None, "conversation"),
        ({"metadata": {"a": 5}}, 422, "metadata.a", "expects text"),
        ({"stream": "maybe"}, 422, "stream", "true or false"),
        ({"text": {"format": {"type": "xml"}}}, 422, "text.format.type", "'xml'"),
    ],
)
async def test_a_bad_request_gets_the_error_of_the_protocol_and_starts_nothing(
    doors: Doors, changed: dict[str, Any], status: int, param: str | None, words: str
) -> None:
    for stream in (False, True):
        asked = {"model": "pair", "input": "Go", "stream": stream, **changed}
        answer = await doors.server.client("run").post("/v1/responses", json=asked)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (status, param), answer.text
        assert words in error["message"]
        assert error["type"] == ("not_found" if status == 404 else "invalid_request_error")
    assert await doors.runs() == []


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "input_image", "image_url": "https://example.com/a.png"}, "fetches no addresses"),
        ({"type": "input_image", "file_id": "f"}, "fetches no addresses"),
        ({"type": "input_file", "file_url": "https://example.com"}, "fetches no addresses"),
        ({"type": "input_file", "filename": "a", "file_data": "%%%"}, "not in base64"),
        ({"type": "input_image", "image_url": "data:image/png;base64,%"}, "not in base64"),
        ({"type": "input_image", "image_url": "data:image/png;base64"}, "comma"),
        ({"type": "input_file", "filename": "a", "file_data": "data:text/plain;base64,"}, "empty"),
    ],
)
async def test_a_file_that_can_not_be_read_is_refused_and_starts_nothing(
    doors: Doors, part: dict[str, str], words: str
) -> None:
    content = [{"type": "input_text", "text": "Look"}, part]
    asked = {"model": "pair", "input": [{"role": "user", "content": content}]}
    answer = await doors.server.client("run").post("/v1/responses", json=asked)
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert await doors.runs() == []


@pytest.mark.parametrize("odd", ['"\\ud800"', "1e999", "NaN", '{"\\ud800": 1}'])
async def test_a_schema_that_is_no_json_is_refused_and_starts_nothing(doors: Doors, odd: str) -> None:
    form = json.dumps({"type": "json_schema", "name": "x", "schema": {**SCHEMA, "description": "ODD"}})
    body = f'{{"model": "formed", "input": "Go", "text": {{"format": {form}}}}}'.replace('"ODD"', odd)
    http = doors.server.client("run")
    answer = await http.post("/v1/responses", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert await doors.runs() == []


async def test_two_answers_to_one_question_are_refused(doors: Doors) -> None:
    client = doors.client()
    first = await client.responses.create(model="asking", input="Go")
    key = getattr(first.output[-1], "question")["key"]  # noqa: B009 - the client does not know it
    texts = {key: "red", "": "blue"}
    both: Any = [{"type": "teamwright:answer", "key": name, "text": text} for name, text in texts.items()]
    with pytest.raises(openai.BadRequestError, match="answered twice"):
        await client.responses.create(model="asking", input=both, previous_response_id=first.id)
    assert await client.responses.retrieve(first.id) == first


async def test_the_model_of_a_response_is_the_id_of_its_team_also_when_it_is_read_again(
    doors: Doors, response_teams: Path
) -> None:
    write_team(response_teams / "shop", PAIR.replace("pair:", "sales:"), "rules: [{reply: hello}]")
    client = doors.client()
    first = await client.responses.create(model="shop", input="Go")
    found = await client.responses.retrieve(first.id)
    assert found == first
    after = await client.responses.create(model=found.model, input="And?", previous_response_id=found.id)
    assert after.status == "completed"


async def test_what_only_a_model_has_is_ignored(doors: Doors) -> None:
    tool = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
    more: dict[str, Any] = {"tools": [tool], "temperature": 0.5, "top_p": None, "max_output_tokens": 16, "odd": [1]}
    asked = {"model": "pair", "input": "Go", **more}
    answer = await doors.server.client("run").post("/v1/responses", json=asked)
    assert (answer.status_code, answer.json()["tools"]) == (200, [])


@pytest.mark.parametrize(
    "name", ["resp_none", "none", "resp_", "resp_~x", "resp_none~", "resp_%00", "resp_é", "r" * 300]
)
async def test_an_unknown_response_is_not_found(doors: Doors, name: str) -> None:
    client = doors.server.client("admin")
    for method, path in (("GET", ""), ("GET", "?stream=true"), ("POST", "/cancel")):
        answer = await client.request(method, f"/v1/responses/{name}{path}")
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found")


async def test_an_unknown_answer_of_a_run_is_not_found(doors: Doors) -> None:
    found = await doors.client().responses.create(model="pair", input="Go")
    with pytest.raises(openai.NotFoundError):
        await doors.client().responses.retrieve(f"{found.id}~0123")
