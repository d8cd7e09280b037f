from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import count

import anyio
import pytest
from pydantic import BaseModel, JsonValue, model_validator

from teamwright.agents.agent import Agent
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.clients.model_client import ChatCompletionsModel
from teamwright.agents.model.agent import ModelAgent
from teamwright.errors import (
    AgentError,
    AgentTimeout,
    ContextTooLong,
    InvalidInput,
    InvalidOutput,
    InvalidRequest,
    LimitReached,
    RateLimited,
    ServiceError,
    UsageError,
)
from teamwright.testing.model_server import (
    CallTools,
    ChatAnswer,
    ChatRequest,
    Drop,
    Fail,
    ModelServer,
    Say,
    SayJson,
    ToolCall,
)
from teamwright.values.limits import Pace
from teamwright.values.specs.models import NamedModel, ServerModel
from teamwright.values.turns.messages import History, Message, digest
from teamwright.values.turns.turn import Turn
from tests.agents.recording import Recording

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def answers(*given: ChatAnswer) -> Callable[[ChatRequest], ChatAnswer]:
    """Answer the requests in order."""
    left: Iterator[ChatAnswer] = iter(given)
    return lambda _: next(left)


def calls(*wanted: ToolCall, text: str = "") -> CallTools:
    return CallTools(calls=wanted, text=text)


def at(server: ModelServer, **more: str) -> ServerModel:
    return ServerModel.model_validate({"url": server.url, "name": "tiny", **more})


def key_of(call_id: str) -> str:
    """The key of a tool call, by its id."""
    return f"tool-{digest(call_id)[:12]}"


async def test_the_text_of_a_model_streams_and_becomes_the_reply() -> None:
    text = "A B-tree keeps its keys sorted in wide nodes."
    record = Recording()
    with ModelServer(answers(Say(text=text))) as server:
        reply = await ModelAgent("writer", model=at(server)).respond(Turn("Explain."), record.ctx)
    assert reply.messages == (Message(name="writer", content=text),)
    assert len(record.deltas) > 1
    assert "".join(record.deltas) == text
    assert list(record.effects) == ["request-1"]
    assert (reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens) == (1, 2, 12)
    assert reply.usage.usd is None
    assert not reply.truncated


async def test_a_replay_gives_the_same_reply_and_asks_no_member() -> None:
    record = Recording()
    with ModelServer(answers(calls(ToolCall(name="add", args={"a": 1, "b": 2})), Say(text="3"))) as server:
        agent = ModelAgent("adder", model=at(server), instructions="Add.", tools=[add])
        first = await agent.respond(Turn("1 + 2?"), record.ctx)
        replay = record.again()
        again = await agent.respond(Turn("1 + 2?"), replay.ctx)
        assert server.count == 2
    assert again == first
    assert replay.made == []
    assert {key: effect.request for key, effect in replay.effects.items()} == {
        key: effect.request for key, effect in record.effects.items()
    }


async def test_a_different_turn_has_a_different_request_digest() -> None:
    first, second = Recording(), Recording()
    with ModelServer() as server:
        await ModelAgent("a", model=at(server)).respond(Turn("one"), first.ctx)
        await ModelAgent("a", model=at(server), settings={"temperature": 0.5}).respond(Turn("one"), second.ctx)
        assert server.requests[1].body["temperature"] == 0.5
    assert first.effects["request-1"].request != second.effects["request-1"].request


async def test_history_has_names_and_the_task_comes_last() -> None:
    history = History.of(
        [
            Message(name="user", content="Hello.", role="user"),
            Message(name="ann", content="I begin."),
            Message(name="bob", content="I go on."),
            Message(name="ann", content="And I."),
        ]
    )
    turn = Turn("Now finish.", history=history)
    before = (turn.digest, tuple(turn.history))
    with ModelServer() as server:
        await ModelAgent("bob", model=at(server), instructions="Be short.").respond(turn, Recording().ctx)
        told = [(one.role, one.content) for one in server.requests[0].messages]
    assert told == [
        ("system", "Be short."),
        ("user", "Hello."),
        ("user", "# ann:\nI begin."),
        ("assistant", "I go on."),
        ("user", "# ann:\nAnd I."),
        ("user", "Now finish."),
    ]
    assert (turn.digest, tuple(turn.history)) == before


async def test_a_conversation_never_opens_with_the_assistant() -> None:
    history = History.of([Message(name="bob", content="First."), Message(name="bob", content="Second.")])
    with ModelServer() as server:
        await ModelAgent("bob", model=at(server)).respond(Turn("Go on.", history=history), Recording().ctx)
        told = [(one.role, one.content) for one in server.requests[0].messages]
    assert told == [("user", "# bob:\nFirst."), ("assistant", "Second."), ("user", "Go on.")]


async def test_a_request_is_sized_by_all_that_is_sent() -> None:
    record = Recording()
    with ModelServer() as server:
        agent = ModelAgent("a", model=at(server), instructions="Seid höflich.", max_tokens=50)
        await agent.respond(Turn("Grüße!"), record.ctx)
    effect = record.effects["request-1"]
    assert effect.prompt_bytes == len("Seid höflich.".encode()) + len("Grüße!".encode())
    assert effect.messages == 2
    assert (effect.kind, effect.name, effect.max_output) == ("model", "tiny", 50)


async def test_tools_count_in_the_size_of_a_request() -> None:
    plain, armed = Recording(), Recording()
    with ModelServer() as server:
        await ModelAgent("a", model=at(server)).respond(Turn("Hi"), plain.ctx)
        await ModelAgent("a", model=at(server), tools=[add]).respond(Turn("Hi"), armed.ctx)
    assert armed.effects["request-1"].prompt_bytes > plain.effects["request-1"].prompt_bytes + 50


@pytest.mark.parametrize("spelling", ["max_completion_tokens", "max_tokens"])
async def test_the_cap_that_the_engine_sets_goes_out_and_cuts(spelling: str) -> None:
    record = Recording(max_output=3)
    with ModelServer(answers(Say(text="x" * 100))) as server:
        agent = ModelAgent("a", model=at(server, max_tokens_field=spelling), max_tokens=500)
        reply = await agent.respond(Turn("Write."), record.ctx)
        body = server.requests[0].body
    assert {key: body[key] for key in body if "tokens" in key} == {spelling: 3}
    assert (reply.text, reply.truncated) == ("x" * 12, True)


async def test_the_turn_may_cap_the_output() -> None:
    with ModelServer() as server:
        await ModelAgent("a", model=at(server)).respond(Turn("Hi", max_output=7), Recording().ctx)
        assert server.requests[0].max_tokens == 7


def add(a: int, b: int = 0) -> int:
    """Add two numbers."""
    return a + b


async def test_a_tool_call_is_an_effect_with_an_idempotency_key() -> None:
    keys: list[str] = []

    def charge(amount: int, *, idempotency_key: str) -> str:
        keys.append(idempotency_key)
        return f"charged {amount}"

    record = Recording()
    script = answers(calls(ToolCall(name="charge", args={"amount": 5}, id="c1")), Say(text="Done."))
    with ModelServer(script) as server:
        reply = await ModelAgent("cashier", model=at(server), tools=[charge]).respond(Turn("Charge 5."), record.ctx)
        offered, told = server.requests[0].body["tools"], server.requests[1].messages[-1]
    assert list(record.effects) == ["request-1", key_of("c1"), "request-2"]
    assert (record.effects[key_of("c1")].kind, record.effects[key_of("c1")].name) == ("tool", "charge")
    assert keys == [digest("run", key_of("c1"))]
    assert "idempotency_key" not in json.dumps(offered)
    assert (told.role, told.content) == ("tool", "charged 5")
    assert (reply.text, reply.usage.requests, reply.usage.tool_calls) == ("Done.", 2, 1)


async def test_tool_calls_of_one_response_run_concurrently() -> None:
    met = threading.Barrier(2, timeout=20)

    def meet(who: str) -> str:
        met.wait()
        return who

    script = answers(
        calls(ToolCall(name="meet", args={"who": "a"}), ToolCall(name="meet", args={"who": "b"})), Say(text=".")
    )
    with ModelServer(script) as server:
        await ModelAgent("host", model=at(server), tools=[meet]).respond(Turn("Meet."), Recording().ctx)
        assert [one.content for one in server.requests[1].messages if one.role == "tool"] == ["a", "b"]


async def test_repeated_and_missing_tool_call_ids_get_keys_of_their_own() -> None:
    def same(a: int) -> ToolCall:
        return ToolCall(name="add", args={"a": a}, id="call_0")

    record = Recording()
    script = answers(calls(same(1), same(2)), calls(same(3)), Say(text="."))
    with ModelServer(script) as server:
        agent = ModelAgent("a", model=at(server), tools=[add])
        await agent.respond(Turn("Add."), record.ctx)
        results = [one.content for one in server.requests[2].messages if one.role == "tool"]
    assert [key for key in record.effects if key.startswith("tool-")] == [
        key_of("call_0"), key_of("call-1-2"), key_of("call-2-1"),
    ]  # fmt: skip
    assert results == ["1", "2", "3"]
    assert (await agent.respond(Turn("Add."), (replay := record.again()).ctx)).text == "."
    assert replay.made == []


async def test_a_failing_tool_fails_its_effect_and_the_model_may_continue() -> None:
    def search(query: str) -> str:
        raise ConnectionError(f"no network for {query}")

    record = Recording()
    script = answers(calls(ToolCall(name="search", args={"query": "x"}, id="c1")), Say(text="I could not look it up."))
    with ModelServer(script) as server:
        agent = ModelAgent("a", model=at(server), tools=[search])
        reply = await agent.respond(Turn("Search."), record.ctx)
        told = server.requests[1].messages[-1].content
    assert reply.text == "I could not look it up."
    assert record.failures[key_of("c1")].kind == "tool"
    assert "The tool 'search' failed: ConnectionError: no network for x" in told
    assert (await agent.respond(Turn("Search."), record.again().ctx)) == reply


async def test_arguments_that_do_not_fit_are_reported_to_the_model_and_cost_no_tool_call() -> None:
    script = answers(
        calls(ToolCall(name="add", args={"a": "many"}, id="c1")),
        calls(ToolCall(name="add", args={"a": 1}, id="c2")),
        Say(text="1"),
    )
    record = Recording()
    with ModelServer(script) as server:
        await ModelAgent("a", model=at(server), tools=[add]).respond(Turn("Add."), record.ctx)
        assert "do not fit the tool 'add': a: expects a whole number" in server.requests[1].messages[-1].content
    assert list(record.effects) == ["request-1", "request-2", key_of("c2"), "request-3"]


async def test_a_tool_outside_the_allowlist_is_neither_offered_nor_callable() -> None:
    used: list[str] = []

    def forbidden() -> None:
        used.append("forbidden")

    script = answers(calls(ToolCall(name="forbidden", id="c1")), Say(text="Then not."))
    record = Recording()
    with ModelServer(script) as server:
        agent = ModelAgent("a", model=at(server), tools=[add, forbidden, "terminate"])
        await agent.respond(Turn("Try it.", tools=("add",)), record.ctx)
        assert server.requests[0].tools == ("add",)
    assert used == []
    assert [key for key in record.effects if key.startswith("tool-")] == []


@pytest.mark.parametrize(
    ("args", "text", "said"),
    [
        ({"response": "All done."}, "", "All done."),
        ({"response": "All done."}, "Well,", "All done."),
        ({}, "That is all.", "That is all."),
        ("{broken", "That is all.", "That is all."),
        ({"response": 7}, "That is all.", "That is all."),
        ('["a", "list"]', "", ""),
    ],
)
async def test_terminate_ends_the_turn_whatever_its_arguments_after_the_tools_beside_it(
    args: dict[str, JsonValue] | str, text: str, said: str
) -> None:
    used: list[str] = []

    def note() -> None:
        used.append("note")

    script = answers(calls(ToolCall(name="note"), ToolCall(name="terminate", args=args), text=text))
    record = Recording()
    with ModelServer(script) as server:
        agent = ModelAgent("a", model=at(server), tools=[note, "terminate"])
        reply = await agent.respond(Turn("Finish."), record.ctx)
        assert server.count == 1
    assert (reply.signal, reply.text) == ("terminate", said)
    assert ([key.partition("-")[0] for key in record.effects], used) == (["request", "tool"], ["note"])
    assert (reply.usage.requests, reply.usage.tool_calls) == (1, 1)


async def test_terminate_called_twice_in_one_response_ends_the_turn_with_the_first() -> None:
    first, second = (ToolCall(name="terminate", args={"response": said}) for said in ("All done.", "Again."))
    with ModelServer(answers(calls(first, second))) as server:
        agent = ModelAgent("a", model=at(server), tools=["terminate"])
        reply = await agent.respond(Turn("Finish."), Recording().ctx)
    assert (reply.signal, reply.text) == ("terminate", "All done.")


async def test_structured_output_is_data_and_its_json_the_message() -> None:  # P-01
    with ModelServer(answers(SayJson(data={"n": 3}))) as server:
        agent = ModelAgent("counter", model=at(server), output_schema=NUMBER)
        reply = await agent.respond(Turn("Count."), Recording().ctx)
        assert "response_format" in server.requests[0].body
    assert (reply.data, reply.text) == ({"n": 3}, '{"n": 3}')


async def test_output_that_does_not_fit_costs_another_request() -> None:  # P-01
    record = Recording()
    with ModelServer(answers(SayJson(data={"n": "three"}), SayJson(data={"n": 3}))) as server:
        agent = ModelAgent("counter", model=at(server), output_schema=NUMBER)
        reply = await agent.respond(Turn("Count."), record.ctx)
        assert "'three' is not of type 'integer'" in server.requests[1].prompt
    assert (reply.data, list(record.effects)) == ({"n": 3}, ["request-1", "request-2"])


async def test_output_that_never_fits_fails_the_turn() -> None:  # P-01
    with ModelServer(lambda _: Say(text="no JSON at all")) as server:
        agent = ModelAgent("counter", model=at(server), output_schema=NUMBER)
        with pytest.raises(InvalidOutput, match="'tiny' gave no usable answer"):
            await agent.respond(Turn("Count."), Recording().ctx)
        assert server.count == 3


async def test_output_may_be_other_than_an_object() -> None:
    schema = {"type": "array", "items": {"$ref": "#/$defs/name"}, "$defs": {"name": {"type": "string"}}}
    with ModelServer(answers(SayJson(data={"value": ["a", "b"]}))) as server:
        agent = ModelAgent("lister", model=at(server), output_schema=schema)
        assert (await agent.respond(Turn("List."), Recording().ctx)).data == ["a", "b"]


class Range(BaseModel):
    low: int
    high: int

    @model_validator(mode="after")
    def ordered(self) -> Range:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


async def test_a_model_class_checks_the_output_by_its_own_rules() -> None:
    with ModelServer(answers(SayJson(data={"low": 2, "high": 1}), SayJson(data={"low": 1, "high": 2}))) as server:
        agent = ModelAgent("ranger", model=at(server), output_schema=Range)
        assert (await agent.respond(Turn("A range."), Recording().ctx)).data == {"low": 1, "high": 2}
        assert "low is above high" in server.requests[1].prompt


async def test_input_is_checked_before_anything_is_sent() -> None:  # P-01
    with ModelServer() as server:
        agent = ModelAgent("counter", model=at(server), input_schema=NUMBER)
        for task in ("three", '{"n": "three"}'):
            with pytest.raises(InvalidInput, match="The task of 'counter'"):
                await agent.respond(Turn(task), Recording().ctx)
        assert server.count == 0
        await agent.respond(Turn('{"n": 3}'), Recording().ctx)
        assert server.count == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Fail(status=429, retry_after=7), RateLimited),
        (Fail(status=429, code="insufficient_quota"), InvalidRequest),
        (Fail(status=400, code="context_length_exceeded"), ContextTooLong),
        (Fail(status=400, body={"error": {"type": "exceed_context_size_error", "code": 400}}), ContextTooLong),
        (Fail(status=400), InvalidRequest),
        (Fail(status=401), InvalidRequest),
        (Fail(status=403), InvalidRequest),
        (Fail(status=404), InvalidRequest),
        (Fail(status=408), AgentTimeout),
        (Fail(status=500), ServiceError),
        (Fail(status=502, body="<html>bad gateway</html>"), ServiceError),
        (Fail(status=503), ServiceError),
        (Drop(), ServiceError),
        (Drop(text="Half an answ"), ServiceError),
    ],
)  # fmt: skip
async def test_failures_are_distinguished_by_type_and_never_retried_unseen(
    answer: ChatAnswer, error: type[AgentError]
) -> None:
    record = Recording()
    with ModelServer(lambda _: answer) as server:
        with pytest.raises(AgentError) as caught:
            await ModelAgent("a", model=at(server)).respond(Turn("Hi"), record.ctx)
        assert server.count == 1
    assert type(caught.value) is error
    assert record.failures["request-1"] is caught.value
    assert caught.value.retry_after == (7 if error is RateLimited else None)
    assert "'tiny'" in str(caught.value)


async def test_a_server_that_is_not_there_is_a_service_error() -> None:
    with ModelServer() as server:
        gone = at(server)
    with pytest.raises(ServiceError, match="can't be reached"):
        await ModelAgent("a", model=gone).respond(Turn("Hi"), Recording().ctx)


async def test_a_model_that_says_nothing_gave_no_usable_answer() -> None:
    with ModelServer(lambda _: Say(text="")) as server, pytest.raises(InvalidOutput):
        await ModelAgent("a", model=at(server)).respond(Turn("Hi"), Recording().ctx)


async def test_a_model_that_never_stops_calling_tools_is_stopped() -> None:
    numbers = count()
    with ModelServer(lambda _: calls(ToolCall(name="add", args={"a": next(numbers)}))) as server:
        with pytest.raises(InvalidOutput, match="50 requests"):
            await ModelAgent("a", model=at(server), tools=[add]).respond(Turn("Hi"), Recording().ctx)
        assert server.count == 50


@pytest.mark.parametrize("key", ["request-1", key_of("c1")])
async def test_what_the_engine_raises_passes_through_untouched(key: str) -> None:
    refusal = LimitReached("nothing left")
    record = Recording(refuse={key: refusal})
    script = answers(calls(ToolCall(name="add", args={"a": 1}, id="c1")))
    with ModelServer(script) as server, pytest.raises(LimitReached) as caught:
        await ModelAgent("a", model=at(server), tools=[add]).respond(Turn("Hi"), record.ctx)
    assert caught.value is refusal


async def test_cancelling_in_the_middle_of_an_answer_leaves_nothing_behind() -> None:
    with ModelServer(lambda _: Say(text="late", delay=30)) as server:
        with anyio.move_on_after(20) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(ModelAgent("a", model=at(server)).respond, Turn("Hi"), Recording().ctx)
                await anyio.to_thread.run_sync(server.wait_for, 1)
                group.cancel_scope.cancel()
        assert not scope.cancelled_caught


async def test_cancelling_in_the_middle_of_a_tool_leaves_nothing_behind() -> None:
    begun = anyio.Event()

    async def forever() -> None:
        begun.set()
        await anyio.sleep_forever()

    with ModelServer(answers(calls(ToolCall(name="forever")))) as server:
        async with anyio.create_task_group() as group:
            group.start_soon(ModelAgent("a", model=at(server), tools=[forever]).respond, Turn("Hi"), Recording().ctx)
            await begun.wait()
            group.cancel_scope.cancel()


async def test_a_server_that_withholds_usage_gives_none() -> None:
    with ModelServer(report_usage=False) as server:
        reply = await ModelAgent("a", model=at(server)).respond(Turn("Hi"), Recording().ctx)
    assert (reply.usage.requests, reply.usage.total_tokens, reply.usage.usd) == (1, 0, None)


async def test_the_key_of_a_server_goes_out_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-for-this-server")
    with ModelServer() as server:
        await ModelAgent("a", model=at(server, api_key="own")).respond(Turn("Hi"), Recording().ctx)
        await ModelAgent("a", model=at(server)).respond(Turn("Hi"), Recording().ctx)
        sent = [request.headers["authorization"] for request in server.requests]
    assert sent[0] == "Bearer own"
    assert "not-for-this-server" not in sent[1]


async def test_a_missing_key_and_an_unknown_model_are_reported_clearly() -> None:
    with pytest.raises(UsageError, match=r"'openai:gpt-5-mini' can't be used: set OPENAI_API_KEY in the environment$"):
        await ModelAgent("a", model="openai:gpt-5-mini").respond(Turn("Hi"), Recording().ctx)
    with pytest.raises(UsageError, match="'nobody:gpt' can't be used: there is no provider 'nobody'; known are"):
        async with Models() as models:
            await models.client("nobody:gpt")
    with pytest.raises(UsageError, match="'gpt' can't be used"):
        await ModelAgent("a", model="gpt").respond(Turn("Hi"), Recording().ctx)


@pytest.mark.parametrize(
    ("model", "message"),
    [("anthropic:claude-sonnet-4-5", r"teamwright\[anthropic\]"), ("groq:llama-3.3-70b-versatile", "groq")],
)
async def test_a_provider_that_is_not_installed_says_what_to_install(model: str, message: str) -> None:
    if find_spec(model.partition(":")[0]) is not None:
        pytest.skip("it is installed here")
    with pytest.raises(UsageError, match=message):
        await ModelAgent("a", model=model).respond(Turn("Hi"), Recording().ctx)


async def test_a_named_provider_is_asked_through_its_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer(answers(Fail(status=500), Say(text="Hello."))) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        agent = ModelAgent("a", model="openai-chat:gpt-5-mini")
        with pytest.raises(ServiceError):
            await agent.respond(Turn("Hi"), Recording().ctx)
        reply = await agent.respond(Turn("Hi"), Recording().ctx)
        assert server.count == 2
    assert reply.text == "Hello."
    assert reply.usage.usd is not None


async def test_agents_of_one_engine_share_a_client_that_is_closed_with_it() -> None:
    with ModelServer() as server:
        async with Models() as models:
            for name in ("a", "b"):
                await ModelAgent(name, model=at(server), models=models).respond(Turn("Hi"), Recording().ctx)
            client = await models.client(at(server))
            assert client is await models.client(at(server))
            assert isinstance(client.model, ChatCompletionsModel)
            assert not client.model.http.is_closed
        assert client.model.http.is_closed


def test_a_model_agent_is_declared_without_the_model_library() -> None:
    program = (
        "import sys; from teamwright.agents.model.agent import ModelAgent; ModelAgent('a', model='openai:gpt-5-mini');"
        "sys.exit('pydantic_ai' in sys.modules or 'openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_model_agent_needs_a_name_and_a_model() -> None:
    assert isinstance(ModelAgent("a", model="local"), Agent)
    with pytest.raises(UsageError, match="'my-agent'"):
        ModelAgent("my agent", model="local")
    with pytest.raises(UsageError, match="needs a model"):
        ModelAgent("a", model="")


async def test_a_request_says_which_model_it_goes_to_and_how_fast_that_may_be_called() -> None:  # P-13
    record = Recording()
    with ModelServer() as server:
        model = ServerModel(url=server.url, name="tiny", max_parallel=3)
        await ModelAgent("a", model=model).respond(Turn("Hello"), record.ctx)
    effect = record.effects["request-1"]
    assert (effect.name, effect.model) == ("tiny", f"tiny at {server.url}")
    assert effect.pace is model


async def test_the_long_form_of_a_model_shares_its_client_with_the_short_one() -> None:
    async with Models() as models:
        client = await models.client("test")
        assert await models.client(NamedModel(model="test", max_parallel=3)) is client


async def test_the_embedded_model_is_asked_as_much_at_once_as_it_has_slots() -> None:
    async with Models() as models:
        assert (await models.client("local")).pace == Pace(max_parallel=4)


async def test_the_reply_of_a_turn_that_is_reviewed_has_its_tool_calls_in_order() -> None:
    def look(place: str) -> dict[str, str]:
        """Look there."""
        if place == "attic":
            raise ValueError("dark")
        return {"found": place}

    wanted = (ToolCall(name="look", args={"place": one}) for one in ("cellar", "attic"))
    places = [calls(*wanted)]
    for keeps in (True, False):
        with ModelServer(answers(*places, Say(text="done"))) as server:
            agent = ModelAgent("writer", model=at(server), tools=[look])
            reply = await agent.respond(Turn("Look.", keeps_tool_uses=keeps), Recording().ctx)
        found = [(one.tool, one.arguments, one.failed) for one in reply.tool_uses]
        kept = [("look", '{"place":"cellar"}', False), ("look", '{"place":"attic"}', True)]
        assert found == (kept if keeps else [])
