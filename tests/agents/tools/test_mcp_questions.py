"""Questions of MCP servers: what a person is asked, what the server gets, and what it is refused."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from teamwright import Answer, Context, Engine, FunctionAgent, RunResult, Turn
from teamwright.agents.tools.mcp_questions import (
    MOST_FIELDS,
    MOST_REQUESTS,
    MOST_ROUNDS,
    Dialogue,
    question_of,
    response_of,
)
from teamwright.agents.tools.mcp_source import McpServer
from teamwright.agents.tools.protocol import McpPool, ToolContext
from teamwright.agents.tools.toolbox import Toolbox
from teamwright.errors import AgentError, ToolError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.call_limits import MAX_BYTES
from teamwright.values.people import Question
from teamwright.values.specs.tools import McpSpec, McpTool
from tests.paths import ROOT

Json = dict[str, Any]
PROGRAM = str(ROOT / "tests" / "agents" / "asking_server.py")
APPROVE, REJECT = Answer.approve(), Answer.reject()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[McpSpec]:
    """A server on loopback, which is killed at the end."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        notes = tmp_path_factory.mktemp("asking") / "notes"
        command = [sys.executable, PROGRAM, str(notes), str(listener.fileno())]
        with subprocess.Popen(command, pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL) as process:
            try:
                yield McpSpec(mcp=McpTool(url=f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"))
            finally:
                process.kill()


def clerk(server: McpSpec, tool: str, **arguments: JsonValue) -> FunctionAgent:
    """An agent that calls one tool of the server and replies with what came back."""
    toolbox = Toolbox([("asking", server)], owner="clerk")

    async def work(turn: Turn, ctx: Context) -> str:
        async with toolbox.open(ctx) as tools:
            try:
                return str(await tools.call_recorded(tool, arguments, key="tool-1"))
            except AgentError as error:
                return f"failed: {error}"

    return FunctionAgent("clerk", work)


async def through(agent: FunctionAgent, *answers: Answer) -> tuple[RunResult, list[Question]]:
    """Run the agent, and answer each question in an engine of its own."""
    journal, asked, left = MemoryJournal(), list[Question](), list(answers)
    async with Engine(journal) as engine:
        result = await engine.run(agent, "Go.", run_id="r")
    while result.status == "paused":
        async with Engine(journal) as engine:
            ((key, question),) = (await engine.runs.history("r")).questions().items()
            asked.append(question)
            await engine.runs.answer("r", key, left.pop(0))
            result = await engine.resume("r", team=agent)
    assert not left
    return result, asked


def edit(**fields: Any) -> Answer:
    return Answer.edit(fields)


def form(required: tuple[str, ...] = (), **fields: Json) -> Json:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return {"method": "elicitation/create", "params": {"message": "What?", "requestedSchema": schema}}


async def test_a_server_asks_a_person_and_the_call_goes_on_with_the_answer_and_the_state(server: McpSpec) -> None:
    result, (asked,) = await through(clerk(server, "delete", name="x"), Answer(text="yes"))
    assert (result.output, result.usage.tool_calls) == ("deleted x (about x)", 1)
    assert asked.text.startswith("The MCP server 'asking' asks: Delete it?")
    assert "there is no way back" in asked.text
    assert asked.choices == ("yes", "no", "decline")


@pytest.mark.parametrize(("said", "action"), [("no", "accept"), ("decline", "decline")])
async def test_a_person_who_does_not_agree_is_heard(server: McpSpec, said: str, action: str) -> None:
    result, _ = await through(clerk(server, "delete", name="x"), Answer(text=said))
    assert result.output == f"kept: {action}"


async def test_questions_of_one_round_and_of_the_next_are_asked_until_the_answers_fit(server: McpSpec) -> None:
    answers = [Answer(text=one) for one in ("large", "many", "3")]
    result, asked = await through(clerk(server, "order"), *answers, APPROVE, edit(name="Ada", news=True))
    assert result.output == '[{"size": "large"}, {"count": 3}] {"name": "Ada", "news": true}'
    assert [one.text.partition("asks: ")[2].partition("\n")[0] for one in asked] == [
        "Which size?",
        "How many?",
        "How many?",
        "For whom?",
        "For whom?",
    ]
    assert "The last answer can't be used: 'count' has to be integer" in asked[2].text
    assert "The last answer can't be used: 'name' is missing" in asked[4].text
    assert json.loads(asked[3].draft or "") == {"name": None, "news": False}


@pytest.mark.timeout(180)  # it imports the library in two processes
async def test_a_server_that_was_restarted_meanwhile_gets_the_answers_that_it_asked_for(tmp_path: Path) -> None:
    """It lives as long as its run, and seals its state with a key of its process: the call begins again."""
    notes = tmp_path / "notes"
    program = McpSpec(mcp=McpTool(command=(sys.executable, PROGRAM, str(notes))))
    result, asked = await through(clerk(program, "delete", name="x"), Answer(text="yes"))
    assert (result.output, len(asked)) == ("deleted x (about x)", 1)
    done = [json.loads(line) for line in notes.read_text().splitlines()]
    assert [one["did"] for one in done] == ["asked about x", "asked about x", "deleted x"]
    assert len({one["key"] for one in done}) == 1


async def test_a_person_opens_an_address_and_says_so(server: McpSpec) -> None:
    result, (asked,) = await through(clerk(server, "visit"), Answer(text="accept"))
    assert (result.output, asked.choices) == ("accept", ("accept", "decline"))
    assert "https://example.com/in" in asked.text


async def test_a_server_that_asks_no_one_only_has_its_call_made_again(server: McpSpec) -> None:
    assert (await through(clerk(server, "later")))[0].output == "now"


@pytest.mark.parametrize(("tool", "method"), [("think", "sampling/createMessage"), ("look", "roots/list")])
async def test_a_server_never_uses_the_model_or_the_folders_of_a_run(server: McpSpec, tool: str, method: str) -> None:
    result, _ = await through(clerk(server, tool))
    assert (
        result.output
        == f"failed: The MCP server 'asking' asked for {method!r}, which is refused: only people are asked."
    )


async def test_only_a_server_that_asks_in_its_results_hears_that_people_answer(server: McpSpec, tmp_path: Path) -> None:
    """One of an earlier revision would ask while its call waits, and no person answers so fast."""
    assert (await through(clerk(server, "declared")))[0].output == "elicitation"
    args = ("-S", "-m", "tests.agents.small_arithmetic_server", str(tmp_path / "notes"))
    earlier = McpSpec(mcp=McpTool(command=(sys.executable, *args), env={"PYTHONPATH": str(ROOT)}))
    result, _ = await through(clerk(earlier, "where"))
    assert "'declared': {}" in (result.output or "")


async def test_a_call_that_is_made_by_hand_says_what_it_needs(server: McpSpec) -> None:
    pool = McpPool()
    source = McpServer("asking", server.mcp, pool.connection(server.mcp, MAX_BYTES), MAX_BYTES)
    try:
        with pytest.raises(ToolError, match="needs an answer first: The MCP server 'asking' asks: Delete it"):
            await source.call("delete", {"name": "x"}, ToolContext("key", "call"))
    finally:
        await pool.close()


@pytest.mark.parametrize(
    ("field", "choices", "text", "value"),
    [
        ({"type": "boolean"}, ("yes", "no", "decline"), "no", False),
        ({"type": "string", "enum": ["a", "b"]}, ("a", "b", "decline"), "b", "b"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, ("a", "decline"), "a", "a"),
        ({"type": "string", "enum": ["decline"]}, ("decline", "decline to answer"), "decline", "decline"),
        ({"type": "string"}, (), "words", "words"),
        ({"type": "integer"}, (), " 7 ", 7),
        ({"type": "number"}, (), "7.5", 7.5),
        ({}, (), "anything", "anything"),
    ],
)
def test_a_form_of_one_field_is_a_plain_question(
    field: Json, choices: tuple[str, ...], text: str, value: object
) -> None:
    request = form(("it",), it=field)
    assert question_of("s", request).choices == choices
    assert response_of(request, Answer(text=text)) == {"action": "accept", "content": {"it": value}}
    refusal = choices[-1] if choices else "decline"
    assert response_of(request, Answer(text=refusal)) == {"action": "decline"}


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ({"type": "integer"}, "7.5"),
        ({"type": "number"}, "1e999"),
        ({"type": "number"}, "nan"),
        ({"type": "integer"}, ""),
    ],
)
def test_a_number_that_is_none_is_refused(field: Json, text: str) -> None:
    with pytest.raises(ToolError, match="'it' has to be"):
        response_of(form(("it",), it=field), Answer(text=text))


def test_a_field_that_is_not_required_may_stay_empty() -> None:
    assert response_of(form(it={"type": "integer"}), Answer(text="")) == {"action": "accept", "content": {}}


def test_a_form_without_fields_is_accepted_or_declined() -> None:
    assert question_of("s", form()).choices == ("accept", "decline")
    assert response_of(form(), Answer(text="accept")) == {"action": "accept"}
    assert response_of(form(), Answer(text="decline")) == {"action": "decline"}


LIST: Json = {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (APPROVE, "'name' is missing"),
        (edit(name="Ada", colours="red"), "'colours' has to be array of red, blue"),
        (edit(name="Ada", other=1), "'other' is no field"),
        (edit(name=3), "'name' has to be string"),
    ],
)
def test_a_draft_that_does_not_fit_the_form_is_refused(answer: Answer, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        response_of(form(("name",), name={"type": "string"}, colours=LIST), answer)


def test_a_form_of_several_fields_is_a_draft() -> None:
    request = form(("name",), name={"type": "string"}, colours=LIST)
    asked = question_of("s", request)
    assert (asked.reason, asked.form) == ("approval", "json")
    content: dict[str, JsonValue] = {"name": "Ada", "colours": ["red"]}
    assert response_of(request, Answer.edit(content)) == {"action": "accept", "content": content}
    assert response_of(request, REJECT) == {"action": "decline"}
    assert question_of("s", form(colours=LIST)).reason == "approval"


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        ({str(number): form() for number in range(MOST_REQUESTS + 1)}, "21 questions at once"),
        ({"x": form((), **{f"f{number}": {} for number in range(MOST_FIELDS + 1)})}, "51 fields at once"),
        ({"x": {"method": "sampling/createMessage", "params": {}}}, "is refused"),
        ({"x": {"method": "roots/list"}}, "is refused"),
        ({"x": {"method": "elicitation/create", "params": {"mode": "url", "url": "javascript:x"}}}, "no web address"),
        (
            {"x": {"method": "elicitation/create", "params": {"mode": "url", "url": "https://a/${KEY}"}}},
            "no web address",
        ),
    ],
)
def test_what_no_person_can_be_asked_fails_the_call(requests: Json, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        Dialogue().ask({"inputRequests": requests}, "s")


def test_a_long_question_is_cut_and_a_server_may_not_ask_without_end() -> None:
    request = form(it={"description": "y" * 100_000})
    request["params"]["message"] = "x" * 100_000
    assert len(question_of("s", request).text) < 9_000
    dialogue = Dialogue()
    for _ in range(MOST_ROUNDS):
        dialogue = dialogue.ask({"inputRequests": {"it": form()}}, "s")
        dialogue, _ = Dialogue.of(dialogue.to_json()).answered([Answer(text="accept")])
    with pytest.raises(ToolError, match="more than 20 times"):
        dialogue.ask({"inputRequests": {"it": form()}}, "s")


def test_after_a_restart_each_answer_counts_once_and_for_the_same_question_alone() -> None:
    asked = {"inputRequests": {"it": form(it={"type": "string"})}, "requestState": "s1"}
    dialogue, _ = Dialogue().ask(asked, "s").answered([Answer(text="blue")])
    again = Dialogue.of(dialogue.restarted().to_json())
    assert again.state is None
    assert again.ask({"inputRequests": {"it": form(it={"type": "integer"})}}, "s").waiting == ["it"]
    resumed = again.ask(asked, "s")
    assert resumed.responses == {"it": {"action": "accept", "content": {"it": "blue"}}}
    assert resumed.ask(asked, "s").waiting == ["it"]
