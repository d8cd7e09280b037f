"""Functions as agents: sync and async, in threads and processes, with schemas, timeouts and retries."""

from __future__ import annotations

import functools
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Literal

import anyio
import anyio.lowlevel
import pytest

from teamwright.agents.agent import Context
from teamwright.agents.functions import threads as module
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import AgentError, InvalidInput, InvalidOutput, ServiceError, UsageError
from teamwright.runtime.engine import Engine
from teamwright.runtime.sync import run_sync
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentAbandoned, AgentCalled
from teamwright.values.events.event import Event
from teamwright.values.limits import Limits
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Failure, Reply, Turn
from teamwright.values.usage_and_prices import Usage
from tests.agents.recording import Recording
from tests.agents.sample_functions import (
    end_the_process,
    exit_at_once,
    interrupt_itself,
    leave_a_trace_and_hang,
    outlive_ctrl_c,
    process_id,
    shout,
)

NUMBER: JsonSchema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
AT_ONCE = RetryPolicy(times=2, backoff=0.0)


async def answer(agent: FunctionAgent, task: str = "go") -> Reply:
    return await agent.respond(Turn(task), Recording().ctx)


async def run(agent: FunctionAgent, task: str = "go") -> tuple[RunResult, list[Event]]:
    async with Engine("memory") as engine:
        result = await engine.run(agent, task, run_id="r")
        return result, await engine.journal.read("r")


def failure_of(result: RunResult) -> tuple[str, str]:
    assert result.failure is not None
    return result.failure.error, result.failure.message


async def test_a_function_receives_the_text_or_the_turn() -> None:
    def longest(turn: Turn) -> str:
        return f"{turn.number}: {turn.task}"

    assert (await answer(FunctionAgent("a", shout), "quiet")).text == "QUIET"
    assert (await answer(FunctionAgent("a", longest), "quiet")).text == "1: quiet"


async def test_an_async_function_runs_in_the_loop_and_a_sync_one_in_a_thread() -> None:
    async def here(text: str) -> bool:
        return threading.current_thread() is threading.main_thread()

    def there(text: str) -> bool:
        return threading.current_thread() is threading.main_thread()

    assert (await answer(FunctionAgent("a", here))).data is True
    assert (await answer(FunctionAgent("a", there))).data is False


async def test_objects_and_partials_are_functions_too() -> None:
    class Echo:
        async def __call__(self, text: str) -> str:
            return f"{text}!"

    def twice(mark: str, text: str) -> str:
        return text + mark

    assert (await answer(FunctionAgent("a", Echo()))).text == "go!"
    assert (await answer(FunctionAgent("a", functools.partial(twice, "?")))).text == "go?"


async def test_a_parameter_with_a_default_or_a_rest_is_no_context() -> None:
    def first(text: str, more: str = "-", *rest: str, **named: str) -> str:
        return text + more

    assert (await answer(FunctionAgent("a", first))).text == "go-"


async def test_a_function_of_two_parameters_gets_the_context() -> None:
    async def respond(turn: Turn, ctx: Context) -> str:
        return f"{turn.task} {ctx.clock.random() < 1}"

    result, _ = await run(FunctionAgent("a", respond))
    assert result.output == "go True"


async def test_a_function_that_takes_the_context_must_be_async() -> None:
    def respond(turn: Turn, ctx: Context) -> str:
        return "x"

    with pytest.raises(AgentError, match="must be async"):
        await answer(FunctionAgent("a", respond))


def test_a_callable_without_a_signature_is_refused_with_a_clear_message() -> None:
    with pytest.raises(UsageError, match="wrap it in a function"):
        FunctionAgent("a", max)


@pytest.mark.parametrize(
    ("returned", "text", "data"),
    [
        ("x", "x", None), ("", "", None), (3, "3", 3), (False, "false", False), ({}, "{}", {}),
        ({"a": (1, 2)}, '{"a":[1,2]}', {"a": [1, 2]}),
        ([datetime(2026, 1, 2, tzinfo=UTC)], '["2026-01-02T00:00:00Z"]', None),
        (Usage(requests=1), None, None),
    ],
)  # fmt: skip
async def test_any_json_is_an_answer(returned: object, text: str | None, data: object) -> None:
    async def give(task: str) -> object:
        return returned

    result, _ = await run(FunctionAgent("a", give))
    assert result.status == "completed", result.failure
    if text is not None:
        assert result.output == text
    if data is not None:
        assert result.data == data


def nested(depth: int) -> object:
    value: object = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (object(), "object"), ({"a": object()}, "object"), (lambda: 1, "function"),
        (math.nan, "not JSON compliant"), ({"score": math.inf}, "not JSON compliant"),
        (nested(250), "recursion limit"), ([10**5000], "4300 digits"),
        (Reply.of("a", "x", data={"score": math.nan}), "not JSON compliant"),
        (Reply.of("a", "x", data=nested(250)), "recursion limit"),
    ],
)  # fmt: skip
async def test_a_value_that_is_no_json_or_cannot_be_read_back_is_refused(returned: object, why: str) -> None:
    async def alone(task: str) -> object:
        return returned

    async def with_context(turn: Turn, ctx: Context) -> object:
        return returned

    for function in (alone, with_context):
        result, _ = await run(FunctionAgent("a", function))
        kind, message = failure_of(result)
        assert kind == "error"
        assert "which is neither text nor JSON (" in message
        assert why in message


async def test_a_function_without_a_return_is_an_error_that_says_so() -> None:
    def forgetful(turn: Turn) -> None:
        turn.task.upper()

    async def with_context(turn: Turn, ctx: Context) -> None: ...

    for function in (forgetful, with_context):
        result, _ = await run(FunctionAgent("a", function))
        assert "'a' returned None" in failure_of(result)[1]


async def test_none_is_an_answer_where_the_output_schema_says_so() -> None:
    def nothing(turn: Turn) -> None: ...

    result, _ = await run(FunctionAgent("a", nothing, output_schema={"type": ["integer", "null"]}))
    assert result.status == "completed", result.failure


async def test_an_awaitable_that_a_plain_function_returns_is_awaited() -> None:
    async def shouted(turn: Turn) -> str:
        return turn.task.upper()

    result, _ = await run(FunctionAgent("a", lambda turn: shouted(turn)))  # noqa: PLW0108 - the lambda is not async
    assert result.output == "GO"


async def test_a_reply_is_refused_that_is_too_deep_only_as_it_is_recorded() -> None:
    result, _ = await run(FunctionAgent("a", lambda turn: Reply.of("a", "x", data=nested(200))))
    assert "recursion limit" in failure_of(result)[1]


class Mood(str, Enum):  # noqa: UP042 - the older way to write it, which is a string too
    GLAD = "glad"


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()


@pytest.mark.parametrize(("returned", "text"), [(Mood.GLAD, "glad"), (Loud("low"), "low")])
async def test_any_kind_of_string_is_handed_on_as_plain_text(returned: str, text: str) -> None:
    async def with_context(turn: Turn, ctx: Context) -> str:
        return returned

    for function in (lambda turn: returned, with_context):  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
        result, _ = await run(FunctionAgent("a", function))
        assert (result.output, type(result.output)) == (text, str), result.failure


LATE = Failure(member="z", error="timeout", message="late")


@pytest.mark.parametrize("returned", [LATE, [Reply.of("y", "fine"), LATE]])
async def test_a_failure_that_a_function_returns_fails_its_turn_and_is_sent_to_no_member(returned: object) -> None:
    async def with_context(turn: Turn, ctx: Context) -> object:
        return returned

    told: list[str] = []
    for function in (lambda turn: returned, with_context):  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
        members = [FunctionAgent("a", function), FunctionAgent("b", lambda turn: told.append(turn.task) or "x")]
        async with Engine("memory") as engine:
            result = await engine.run(Team("t", members=members, share="output"), "go")
        assert not told
        assert failure_of(result)[0] == ("timeout" if returned is LATE else "error")
        assert "'z' failed: late" in failure_of(result)[1]


async def test_the_failure_of_a_helper_is_that_of_the_function_with_the_messages_until_then() -> None:
    async def broken(text: str) -> str:
        raise ServiceError("down")

    first, second = FunctionAgent("first", shout), FunctionAgent("second", broken, retry=RetryPolicy(times=0))

    async def asking(turn: Turn, ctx: Context) -> object:
        await ctx.ask(first, Turn("loud"), key="first")
        return await ctx.ask(second, Turn("x"), key="second")

    result, _ = await run(FunctionAgent("a", asking))
    assert failure_of(result) == ("server", "'a' failed: 'second' failed: down")
    assert [message.content for message in result.messages] == ["LOUD"]


async def test_a_returned_failure_fails_the_same_way_on_replay() -> None:
    agent, recording = FunctionAgent("a", lambda turn: LATE), Recording()
    for ctx in (recording.ctx, recording.again().ctx):
        with pytest.raises(AgentError, match=r"^'z' failed: late$") as caught:
            await agent.respond(Turn("go"), ctx)
        assert caught.value.kind == "timeout"


async def test_a_reply_is_handed_on_whole() -> None:
    said = Reply(
        messages=(Message(name="a", content="one"), Message(name="a", content="two")),
        data={"n": 1},
        usage=Usage(requests=1, input_tokens=5, output_tokens=2),
        signal="terminate",
        truncated=True,
        warnings=("careful",),
    )

    async def give(task: str) -> Reply:
        return said

    recording = Recording()
    agent = FunctionAgent("a", give)
    assert await agent.respond(Turn("go"), recording.ctx) == said
    assert await agent.respond(Turn("go"), recording.again().ctx) == said


async def test_both_schemas_are_checked() -> None:  # P-01
    async def give(text: str) -> str:
        return text

    strict_input = FunctionAgent("a", give, input_schema=NUMBER)
    assert (await answer(strict_input, '{"n": 1}')).text == '{"n": 1}'
    for bad in ("no json", '{"n": "x"}'):
        with pytest.raises(InvalidInput, match="The task of 'a'"):
            await answer(strict_input, bad)
    strict_output = FunctionAgent("a", give, output_schema=NUMBER)
    assert (await answer(strict_output, '{"n": 2}')).data == {"n": 2}
    for bad in ("no json", '{"n": "x"}'):
        with pytest.raises(InvalidOutput, match="The reply of 'a'"):
            await answer(strict_output, bad)


async def test_a_function_that_raises_fails_its_turn_by_name() -> None:
    async def broken(text: str) -> str:
        raise KeyError("missing")

    result, _ = await run(FunctionAgent("a", broken))
    assert failure_of(result) == ("error", "'a' failed: KeyError: 'missing'")


ENDINGS: list[tuple[Callable[[str], str], str]] = [
    (exit_at_once, "SystemExit: 3"),
    (interrupt_itself, "KeyboardInterrupt"),
]


@pytest.mark.parametrize("isolate", ["thread", "process"])
@pytest.mark.parametrize(("function", "why"), ENDINGS)
def test_a_function_that_ends_the_program_ends_only_its_turn(
    isolate: Literal["thread", "process"], function: Callable[[str], str], why: str
) -> None:
    result, _ = anyio.run(run, FunctionAgent("a", function, isolate=isolate))
    assert failure_of(result)[0] == "error"
    assert failure_of(result)[1].startswith(f"'a' failed: {why}")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, BaseException, GeneratorExit])
async def test_whatever_a_function_raises_is_the_failure_of_its_turn(error: type[BaseException]) -> None:
    def beside(text: str) -> str:
        raise error

    async def here(text: str) -> str:
        raise error

    for function in (beside,) if error is GeneratorExit else (beside, here):  # in the loop it closes a coroutine
        result, events = await run(FunctionAgent("a", function))
        assert failure_of(result)[0] == "error"
        assert failure_of(result)[1].startswith(f"'a' failed: {error.__name__}")
        assert events[-1].kind == "run.ended"


@pytest.mark.parametrize(("function", "why"), [*ENDINGS, (end_the_process, "its process ended before it had answered")])
def test_a_process_that_was_ended_is_not_given_to_the_next(function: Callable[[str], str], why: str) -> None:
    async def main() -> tuple[RunResult, RunResult]:
        async with Engine("memory") as engine:
            broken = await engine.run(FunctionAgent("a", function, isolate="process"), "go")
            return broken, await engine.run(FunctionAgent("b", shout, isolate="process"), "go")

    broken, fine = anyio.run(main)
    assert why in failure_of(broken)[1]
    assert fine.output == "GO", fine.failure


async def test_stop_iteration_does_not_stop_the_wrong_thing() -> None:
    def broken(text: str) -> str:
        return next(iter(()))

    result, _ = await run(FunctionAgent("a", broken))
    assert result.status == "failed"


def test_ctrl_c_in_a_function_reaches_the_caller_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    program = """
import os
import signal
import sys
from teamwright import Engine, FunctionAgent, run_sync
import anyio
async def ask(text: str) -> str:
    os.kill(os.getpid(), signal.SIGINT)
    await anyio.sleep(60)
try:
    run_sync(FunctionAgent("a", ask), "go", journal=sys.argv[1], run_id="r")
except BaseException as error:
    print(type(error).__name__)
async def again(text: str) -> str:
    return "fine"
async def main():
    async with Engine(sys.argv[1]) as engine:
        print((await engine.resume("r", team=FunctionAgent("a", again))).output)
anyio.run(main)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "j.db")], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["KeyboardInterrupt", "fine"], done.stderr


async def test_a_retryable_failure_is_tried_again_and_another_is_not() -> None:
    calls: list[str] = []

    async def flaky(text: str) -> str:
        calls.append(text)
        if len(calls) < 3:
            raise ServiceError("down")
        return "up"

    result, events = await run(FunctionAgent("a", flaky, retry=AT_ONCE))
    assert result.output == "up"
    assert [e.fact.attempt for e in events if isinstance(e.fact, AgentCalled)] == [2, 3]  # the first is the ask


async def test_a_timeout_is_tried_again() -> None:
    calls: list[str] = []

    async def slow_once(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            await anyio.sleep(60)
        return "in time"

    result, _ = await run(FunctionAgent("a", slow_once, timeout=0.05, retry=AT_ONCE))
    assert result.output == "in time"


async def test_a_thread_that_ends_within_the_grace_time_is_not_abandoned() -> None:
    stop = threading.Event()

    def patient(text: str) -> str:
        stop.wait(30)
        return "late"

    agent = FunctionAgent("a", patient, timeout=0.05, retry=RetryPolicy(times=0))
    threading.Timer(0.2, stop.set).start()
    result, events = await run(agent)
    assert failure_of(result)[0] == "timeout"
    assert not [e for e in events if isinstance(e.fact, AgentAbandoned)]


async def test_a_thread_that_does_not_end_is_left_behind_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "THREAD_GRACE", 0.05)
    stop = threading.Event()
    agent = FunctionAgent("a", lambda turn: stop.wait(30), timeout=0.05, retry=RetryPolicy(times=0))
    result, events = await run(agent)
    stop.set()
    assert result.status == "failed"
    assert [e.fact.name for e in events if isinstance(e.fact, AgentAbandoned)] == ["a"]
    assert events[-1].kind == "run.ended"


async def test_cancelling_a_run_leaves_a_stubborn_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "THREAD_GRACE", 0.05)
    stop, started = threading.Event(), threading.Event()

    def stubborn(text: str) -> str:
        started.set()
        stop.wait(30)
        return "late"

    async with Engine("memory") as engine:
        handle = await engine.start(FunctionAgent("a", stubborn), "go", run_id="r")
        while not started.is_set():  # noqa: ASYNC110 - a thread sets it
            await anyio.sleep(0.01)
        await engine.runs.cancel("r")
        result = await handle.result()
        kinds = [event.kind for event in await engine.journal.read("r")]
    stop.set()
    assert result.status == "cancelled"
    assert "agent.abandoned" in kinds


def test_a_thread_that_never_ends_does_not_keep_the_process_alive() -> None:
    program = """
import time
from teamwright import FunctionAgent, run_sync
from teamwright.values.retries import RetryPolicy
from teamwright.agents.functions import threads
threads.THREAD_GRACE = 0.05
def hang(text: str) -> str:
    time.sleep(600)
    return ""
agent = FunctionAgent("a", hang, timeout=0.05, retry=RetryPolicy(times=0))
print(run_sync(agent, "go", journal="memory").status)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout.strip() == "failed", done.stderr


async def test_context_variables_reach_the_thread() -> None:
    from contextvars import ContextVar

    variable: ContextVar[str] = ContextVar("variable", default="unset")
    variable.set("set")

    def look(text: str) -> str:
        return variable.get()

    assert (await answer(FunctionAgent("a", look))).text == "set"


async def test_a_synchronous_function_may_run_its_own_event_loop() -> None:
    async def inside() -> str:
        await anyio.lowlevel.checkpoint()
        return "inside"

    def nest(text: str) -> str:
        inner = run_sync(FunctionAgent("inner", shout), "go", journal="memory")
        return f"{inner.output} {anyio.run(inside)}"

    assert (await answer(FunctionAgent("a", nest))).text == "GO inside"


# Worker processes are kept for the next call as long as the event loop lives, so these tests have one of their own.


def test_a_function_may_run_in_its_own_process() -> None:
    reply = anyio.run(answer, FunctionAgent("a", process_id, isolate="process"))
    assert isinstance(reply.data, int)
    assert reply.data != os.getpid()
    assert gone(reply.data)


def gone(process: int) -> bool:
    """Whether a process is no more: not even as a zombie."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_process_is_really_ended_when_its_run_is_cancelled(tmp_path: Path) -> None:
    trace = tmp_path / "pid"

    async def main() -> bool:
        agent = FunctionAgent("a", leave_a_trace_and_hang, isolate="process")
        async with Engine("memory") as engine:
            handle = await engine.start(agent, str(trace), run_id="r")
            while not (trace.exists() and trace.read_text()):  # noqa: ASYNC110 - another process writes it
                await anyio.sleep(0.02)
            await engine.runs.cancel("r")
            assert (await handle.result()).status == "cancelled"
            return gone(int(trace.read_text()))

    assert anyio.run(main)


def test_a_process_is_ended_at_a_timeout_and_the_next_attempt_has_another(tmp_path: Path) -> None:
    trace = tmp_path / "pids"
    for timeout in (1.5, 5.0, 15.0):  # a busy machine may take longer to start a process
        trace.write_text("")
        agent = FunctionAgent(
            "a", leave_a_trace_and_hang, isolate="process", timeout=timeout, retry=RetryPolicy(times=1, backoff=0.0)
        )
        result, events = anyio.run(run, agent, str(trace))
        assert failure_of(result)[0] == "timeout"
        assert [e.fact.attempt for e in events if isinstance(e.fact, AgentCalled)] == [2]  # the first is the ask
        if len(processes := set(trace.read_text().split())) == 2:
            break
    assert len(processes) == 2
    assert all(gone(int(process)) for process in processes)


def test_ctrl_c_is_for_the_process_that_waits_and_fails_no_call_in_another() -> None:
    assert anyio.run(answer, FunctionAgent("a", outlive_ctrl_c, isolate="process")).text == "still here"


def test_a_function_that_no_process_can_be_sent_is_a_failure() -> None:
    result, _ = anyio.run(run, FunctionAgent("a", lambda turn: "x", isolate="process"))
    assert result.status == "failed"


def test_the_declaration_says_what_was_set() -> None:  # P-01
    agent = FunctionAgent(
        "a", shout, description="loud", capabilities=("shouting",), output_schema=NUMBER, timeout=2.0, retry=AT_ONCE,
        limits=Limits(calls=1), isolate="process",
    )  # fmt: skip
    spec = agent.spec
    assert (spec.function, spec.description, spec.capabilities) == (
        "tests.agents.sample_functions:shout",
        "loud",
        ("shouting",),
    )
    assert (spec.timeout, spec.retry, spec.limits, spec.isolate) == (2.0, AT_ONCE, Limits(calls=1), "process")
    assert FunctionAgent("a", lambda turn: "x").spec.function is None


@pytest.mark.parametrize(
    ("said", "data"),
    [('{"n": 1}', {"n": 1}), ('{"m": 1}', None), ("one", None), ({"m": 1}, {"m": 1}), (Reply.of("a", "[1]"), None)],
)
async def test_data_that_the_asker_would_like_is_read_from_the_answer(said: object, data: object) -> None:
    turn = Turn("go", output_schema=NUMBER)
    assert (await FunctionAgent("a", lambda turn: said).respond(turn, Recording().ctx)).data == data

    async def with_context(turn: Turn, ctx: Context) -> object:
        return said

    assert (await FunctionAgent("a", with_context).respond(turn, Recording().ctx)).data == data
