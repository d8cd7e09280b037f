"""Any Python callable as an agent.

A callable with one parameter is one effect: called once, recorded, and replayed from the record. A callable with two
parameters also receives the context and makes effects of its own.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Literal, Unpack, cast

from msgspec import convert, to_builtins
from pydantic import JsonValue
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from teamwright.agents.agent import ONE_CALL, Agent, Context, Policy
from teamwright.agents.constructor_arguments import Mistakes, checked_call
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.confined import run_in_sandbox
from teamwright.agents.functions.imports import Function, import_path
from teamwright.agents.functions.threads import (
    await_steps,
    blocked_text,
    is_async,
    run_in_process,
    run_in_thread,
)
from teamwright.agents.json_schema import check_input, with_data, with_preferred_data
from teamwright.agents.settings import AgentKeywords, shared_settings
from teamwright.errors import AgentError, MemberFailed, UsageError
from teamwright.values.call_limits import MAX_BYTES, reply_cut_warning
from teamwright.values.events.agent import AgentAbandoned
from teamwright.values.events.run import RunLogged
from teamwright.values.names import check_name
from teamwright.values.specs.manifest import AgentSpec
from teamwright.values.specs.tools import TERMINATE, AnySandbox, SandboxSettings, sandbox_settings
from teamwright.values.text.display import error_text
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Reply, Turn

EMPTY_SPEC = AgentSpec.model_construct()
BLOCKED = "blocked-loop"
"""The place of the log line about a function that held the event loop."""


class FunctionAgent(Agent):
    """An agent that calls a function with the turn (or only its text, if annotated `str`) and replies with the result.

    The function returns a string, a `Reply`, or any JSON value, which becomes structured output. Returning `None` is an
    error, unless an output schema says what it means: nearly always a `return` is missing.
    """

    kind = "function"

    @checked_call("agent", AgentKeywords.__optional_keys__, kind="a function", fields=AgentSpec.model_fields)
    def __init__(
        self,
        name: str,
        function: Function,
        *,
        isolate: Literal["thread", "process"] = "thread",
        sandbox: AnySandbox | None = None,
        can_terminate: bool | None = None,
        **settings: Unpack[AgentKeywords],
    ) -> None:
        self.name, owner, mistakes = check_name("agent", name), f"The agent {name!r}", Mistakes()
        collect = mistakes.collect
        parameters = collect(required_parameters, function, owner) or []
        self._wants_context = len(parameters) > 1
        self._wants_text = bool(parameters) and parameters[0].annotation in (str, "str")
        one_call = None if self._wants_context else True
        own = {"can_terminate": can_terminate, "one_call": one_call}
        shared = shared_settings(name, settings, mistakes, {"isolate": isolate, "sandbox": sandbox}, **own)
        self.policy, self._input_schema, self._output_schema = shared.policy, shared.input_schema, shared.output_schema
        collect(_check_no_tools, owner, self.policy)
        self.sandbox = None if sandbox is None else collect(self._checked_sandbox, owner, function, isolate, sandbox)
        mistakes.raise_all()
        self.description, self.capabilities = shared.description, shared.capabilities
        self._function, self._async, self._timeout = function, is_async(function), shared.timeout
        self._isolate: Literal["thread", "process"] = isolate
        declared = {
            "function": import_path(function),
            "description": self.description,
            "capabilities": self.capabilities,
            "input_schema": self._input_schema,
            "output_schema": self._output_schema,
            "timeout": self._timeout,
            "isolate": isolate if isolate != "thread" else None,
            "sandbox": sandbox,
        }
        self._declared = {field: value for field, value in declared.items() if value}

    def _checked_sandbox(self, owner: str, function: Function, isolate: str, sandbox: AnySandbox) -> SandboxSettings:
        """Return the settings of the sandbox; raises `UsageError` if the function can't run in one."""
        if isolate != "process":
            raise UsageError(f"{owner}: sandbox goes with  isolate='process'.")
        if not self._wants_text or is_async(function) or import_path(function) is None:
            raise UsageError(
                f"{owner}: a function in a sandbox is importable, not async, and takes the text of the turn; write"
                "  def f(text: str)"
            )
        return sandbox_settings(sandbox)

    @property
    def spec(self) -> AgentSpec:
        """The agent as a declaration, without a function that can't be imported by name."""
        if self.policy is ONE_CALL and not self._declared:
            return EMPTY_SPEC
        given = {**self._declared, **self.policy.declared(self.name)}
        if self.policy.can_terminate:
            given["tools"] = (TERMINATE,)
        return AgentSpec.model_validate(given) if given else EMPTY_SPEC

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        if self._input_schema is not None:
            check_input(self._input_schema, turn.task, f"The task of {self.name!r}")
        if self._wants_context:
            pending = self._function(turn, ctx)
            if not inspect.isawaitable(pending):
                raise AgentError(f"{self.name!r} takes the context, so its function must be async; write  async def")
            held: list[float] = []
            try:
                answer = await await_steps(cast("Awaitable[object]", pending), held.append)
            finally:
                if held:
                    await ctx.emit(self._warning(held), key=BLOCKED)
            return self._reply(answer if type(answer) is str else self._recordable(answer), turn)
        effect = Effect(
            kind="function",
            name=self.name,
            request=turn.digest,
            call=partial(self._call, turn, ctx),
            retry=self.policy.retry,
            timeout=self._timeout,
            max_bytes=self.policy.max_bytes or MAX_BYTES,
        )
        returned = await ctx.effect("call", effect)
        answer = returned.value if type(returned.value) is str else _recorded_answer(returned)
        if returned.capped is None:
            return self._reply(answer, turn, truncated=returned.truncated)
        reply = self._reply(answer, turn, truncated=True)
        return reply.changed(warnings=(*reply.warnings, reply_cut_warning(self.name, returned.capped)))

    async def _call(self, turn: Turn, ctx: Context, attempt: Attempt) -> Returned:
        argument = turn.prompt if self._wants_text else turn
        held: list[float] = []
        try:
            if self._async:
                answer = await await_steps(cast("Awaitable[object]", self._function(argument)), held.append)
            else:
                answer = await self._call_off_loop(argument, ctx)
        except KeyboardInterrupt as error:  # raised by the function: Ctrl-C goes to the event loop, which cancels it
            raise AgentError(error_text(error)) from error
        finally:
            if held:
                attempt.emit(self._warning(held))
        if type(answer) is str:
            return Returned(answer)
        if inspect.isawaitable(answer):  # of a lambda or a partial around an async function
            answer = await cast("Awaitable[object]", answer)
        recordable = self._recordable(answer)
        if isinstance(recordable, Reply):
            return Returned(self._jsonable(recordable), recordable.usage, form="reply")
        return Returned(recordable, form="data")

    async def _call_off_loop(self, argument: object, ctx: Context) -> object:
        if self.sandbox is not None:
            return await run_in_sandbox(self._function, str(argument), self.sandbox)
        if self._isolate == "process":
            return await run_in_process(self._function, argument)

        async def abandoned(grace: float) -> None:
            await ctx.emit(AgentAbandoned(name=self.name, grace=grace))

        return await run_in_thread(partial(self._function, argument), f"agent {self.name}", abandoned)

    def _warning(self, held: Sequence[float]) -> RunLogged:
        """Return the log line about a function that held the event loop, for each of these times."""
        return RunLogged(text=blocked_text("agent", self.name, max(held)), level="warning")

    def _recordable(self, answer: object) -> Reply | JsonValue:
        """Return the answer in a form that can be recorded and read back; raises if it is another agent's failure."""
        match answer:
            case Failure():
                raise MemberFailed(answer.error, f"{answer.asked!r} failed: {answer.message}", member=answer.member)
            case str():
                return str.__str__(answer)  # the plain text of an enum or another subclass of str
            case Reply():
                if (wrong := answer.misfit()) is not None:
                    raise AgentError(f"{self.name!r} returned a Reply that can't be recorded: {wrong}")
                return answer if answer.data is None else answer.changed(data=self._jsonable(answer.data))
            case None if self._output_schema is None:
                raise AgentError(
                    f"{self.name!r} returned None, which is no answer; its function must return a text, JSON data or a"
                    " Reply (is a `return` missing?)"
                )
            case _:
                return self._jsonable(answer)

    def _jsonable(self, answer: object) -> JsonValue:
        try:
            value: JsonValue = to_jsonable_python(answer, fallback=_as_builtins)
            _check_round_trip(value)
        except (TypeError, ValueError) as error:
            text = f"{self.name!r} returned {type(answer).__name__}, which is neither text nor JSON ({error})"
            raise AgentError(text) from error
        return value

    def _reply(self, answer: Reply | JsonValue, turn: Turn, *, truncated: bool = False) -> Reply:
        if isinstance(answer, str):
            reply = Reply(messages=(Message(name=self.name, content=answer),), truncated=truncated)
        elif isinstance(answer, Reply):
            reply = answer
        else:
            reply = Reply(messages=(Message(name=self.name, content=_text_of(answer)),), data=answer)
        if self._output_schema is None:
            return reply if turn.output_schema is None else with_preferred_data(reply, turn.output_schema)
        if reply.transfer_to is not None:
            return reply
        return with_data(reply, self._output_schema, f"The reply of {self.name!r}")


def _check_no_tools(owner: str, policy: Policy) -> None:
    if policy.confirm is not None and policy.confirm.tools:
        raise UsageError(f"{owner} is a function and has no tools that a person could approve.")


def _recorded_answer(returned: Returned) -> Reply | JsonValue:
    """Decode a recorded answer by its recorded form, which nothing inside the value can change."""
    return convert(returned.value, Reply) if returned.form == "reply" else returned.value


def required_parameters(function: Function, who: str) -> list[inspect.Parameter]:
    """The required parameters of a function; raises `UsageError` if it can't be called with a turn."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{who} can't be {function!r}: wrap it in a function of one parameter.") from error
    parameters = signature.parameters.values()
    if not any(_can_be_called(signature, count) for count in (1, 2)):
        raise UsageError(f"{who} must be a function (turn) or (turn, ctx); its parameters are {signature}.")
    return [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _can_be_called(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def _text_of(data: JsonValue) -> str:
    try:
        return to_json(data).decode()
    except PydanticSerializationError:  # a lone surrogate, which is replaced when the text is recorded
        return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _as_builtins(value: object) -> object:
    """Convert a struct inside an answer to JSON types; refuse a failure, whose text must not reach other members."""
    if isinstance(value, Failure):
        raise TypeError(f"{value.asked!r} failed: {value.message}")
    return to_builtins(value)


def _check_round_trip(value: JsonValue) -> None:
    """Refuse values that can be written but not read back: NaN, infinities, huge numbers and deep nesting."""
    from_json(json.dumps(value, allow_nan=False, ensure_ascii=False).encode(errors="replace"))
