"""One turn of a model agent: pydantic-ai runs its loop, and each request and tool call inside it is an effect.

Imported at the first model call. The loop must reach model and tools only through the two wrappers here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from pydantic_ai import Agent, ModelRetry, ToolFailed
from pydantic_ai.exceptions import AgentRunError, UsageLimitExceeded, UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import UsageLimits
from pydantic_core import SchemaValidator, core_schema

from teamwright.agents.budget_notice import CUT_TOKENS, cut_line, left_line
from teamwright.agents.context import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.handoff import asked_for, with_handoff
from teamwright.agents.model.clients import ModelClient
from teamwright.agents.model.errors import classify
from teamwright.agents.model.http_transport import ReadBounds, read_within
from teamwright.agents.model.messages import (
    Sent,
    cut_response,
    from_record,
    new_output,
    new_text,
    spent,
    to_record,
    told,
    with_note,
    with_plain_usage,
)
from teamwright.agents.model.output import Shape
from teamwright.agents.model.output_meter import OutputMeter, Stop
from teamwright.agents.prices import rate_of
from teamwright.agents.tools.terminate import final_response
from teamwright.agents.tools.toolbox import Tools
from teamwright.errors import AgentError, InvalidOutput, TeamwrightError, ToolError, UsageError
from teamwright.values.limits.limits import Pace
from teamwright.values.limits.reply import MOST_REQUESTS, REPLY_SECONDS, reply_cut_warning
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.specs.manifest import TERMINATE, AnyModel, model_key
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply, Signal, Turn

if TYPE_CHECKING:
    from teamwright.agents.model.agent import ModelAgent

OUTPUT_RETRIES = 2
TOOL_RETRIES = 3
RECORD_FACTOR = 8
"""By how much a recorded response may be larger than its text: a character may take six bytes in JSON."""
ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


class Settled(Exception):
    """The turn is over before pydantic-ai would end it: the model called `terminate`, or its words will do."""

    def __init__(self, content: str, signal: Signal | None = None) -> None:
        self.content: str = content
        self.signal: Signal | None = signal
        super().__init__(content)


class RecordedModel(WrapperModel):
    """A model whose every request is one effect of the turn, named by its number."""

    def __init__(
        self,
        agent: ModelAgent,
        model: AnyModel,
        turn: Turn,
        ctx: Context,
        client: ModelClient,
        tools: Tools,
        shape: Shape | None,
    ) -> None:
        super().__init__(client.model)
        self._agent, self._chosen, self._ctx, self._source, self._tools = agent, model, ctx, client, tools
        self._shape = shape
        self._max_output = agent.max_tokens or turn.max_output
        self.tool_keys: dict[str, str] = {}
        self._requests = 0
        self._spent: Usage = NOTHING
        self.truncated = False
        self.said = ""
        self._capped: int | None = None

    @property
    def spent(self) -> Usage:
        """What the turn has cost so far, requests and tool calls together."""
        return self._spent + self._tools.spent

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was cut at the size cap on the way to the answer."""
        cut = () if self._capped is None else (reply_cut_warning(self._agent.name, self._capped),)
        return (*self._tools.warnings, *cut)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make the request, or take its recorded response."""
        self._requests += 1
        sent = Sent.of(messages, model_settings, model_request_parameters)
        effect = Effect(
            kind="model",
            name=self._source.name,
            request=sent.digest,
            call=partial(self._call, messages, model_settings, model_request_parameters),
            prompt_bytes=sent.prompt_bytes + self._source.hidden_bytes,
            messages=sent.messages,
            max_output=self._max_output,
            retry=self._agent.retry,
            timeout=self._agent.timeout,
            model=model_key(self._chosen),
            pace=self._chosen if isinstance(self._chosen, Pace) else self._source.pace,
            rate=partial(rate_of, self._chosen),
            note=CUT_TOKENS,
            default_timeout=REPLY_SECONDS,
            max_bytes=RECORD_FACTOR * self._agent.max_bytes,
        )
        returned = await self._ctx.effect(f"request-{self._requests}", effect)
        self._spent += returned.usage
        self.truncated, self._capped = returned.truncated, returned.capped
        response = from_record(returned.value, self._requests, self.tool_keys)
        self._settle(response)
        return response

    def _settle(self, response: ModelResponse) -> None:
        """End the turn where nothing that the model could still say would add to it."""
        text = _text(response)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        for call in calls:
            if self._tools.may_terminate and call.tool_name == TERMINATE:
                raise Settled(final_response(call.args) or text, "terminate")
        self.said = text or (calls[-1].args_as_json_str() if calls else "")
        if self._shape is not None and not calls and self._shape.settled_by(text):
            raise Settled(text)

    async def _call(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        attempt: Attempt,
    ) -> Returned:
        capped = cast("ModelSettings", {**(settings or {}), "max_tokens": attempt.max_output})
        if attempt.max_output is None:
            del capped["max_tokens"]
        elif attempt.cut:
            messages = with_note(messages, cut_line(attempt.max_output))
        try:
            await self._source.ready()
            with read_within(ReadBounds(self._agent.idle_timeout, self._agent.max_bytes)):
                response, stopped = await self._read(messages, capped, parameters, attempt)
            response = with_plain_usage(response)
            usage = spent(response, self._chosen)
            record = to_record(response)
            from_record(record, self._requests, {})  # what can't be read again must not be recorded
        except TeamwrightError:
            raise
        except Exception as error:  # whatever a library makes of what a server sent is a failed request
            raise classify(error, self._source.name) from error
        return Returned(
            record,
            usage,
            truncated=response.finish_reason == "length",
            capped=self._agent.max_bytes if stopped is Stop.SIZE else None,
        )

    async def _read(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings,
        parameters: ModelRequestParameters,
        attempt: Attempt,
    ) -> tuple[ModelResponse, Stop | None]:
        """The reply, or as much of it as may be read, and why it was read no further."""
        meter, stopped = OutputMeter(self._agent.max_bytes, attempt.max_output), None
        response: ModelResponse | None = None
        async with self.wrapped.request_stream(messages, settings, parameters) as stream:
            try:
                async for event in stream:
                    if stopped is not None:
                        continue  # what had arrived before the connection was closed
                    if text := new_text(event):
                        attempt.delta(text)
                    if (stopped := meter.add(new_output(event))) is not None:
                        response = stream.get()
                        await stream.cancel()
            except AgentRunError:
                if stopped is None:  # else it is the end of the connection that was closed
                    raise
            if stopped is None:
                return stream.get(), None
        assert response is not None
        calls = any(isinstance(part, ToolCallPart) for part in response.parts)
        if stopped is Stop.SIZE and (calls or (self._shape is not None and not self._shape.welcome)):
            most = self._agent.max_bytes
            raise InvalidOutput(f"The model {self._source.name!r} sent JSON of more than {most} bytes (max_bytes)")
        return cut_response(response, self._agent.max_bytes), stopped


class RecordedTools(AbstractToolset[None]):
    """The tools of the turn, each call one effect; `keys` has the key of each by the id that the model gave it."""

    def __init__(self, tools: Tools, keys: Mapping[str, str]) -> None:
        self._tools, self._keys = tools, keys

    @property
    def id(self) -> str:
        """The name of the set within pydantic-ai."""
        return "teamwright"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """What is offered to the model; arguments are checked when the call is made."""
        return {
            one.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=one.name, description=one.description, parameters_json_schema=one.parameters
                ),
                max_retries=TOOL_RETRIES,
                args_validator=ANY_ARGUMENTS,
            )
            for one in self._tools.definitions
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> JsonValue:
        """Make the call, or take its recorded result; the model is told what went wrong and may go on."""
        try:
            self._tools.fit(name, tool_args)
        except ToolError as error:
            raise ModelRetry(str(error)) from error
        try:
            return await self._tools.use(name, tool_args, key=self._keys[ctx.tool_call_id or ""])
        except AgentError as error:
            raise ToolFailed(str(error)) from error


async def take_turn(
    agent: ModelAgent, chosen: AnyModel, turn: Turn, ctx: Context, client: ModelClient, tools: Tools
) -> Reply:
    """Let pydantic-ai run its loop for one turn with the chosen model, and read its answer."""
    shape = _shape(agent, turn)
    model = RecordedModel(agent, chosen, turn, ctx, client, tools, shape)
    try:
        result = await _runner(agent, model, client, tools, shape, _instructions(agent, chosen, turn, shape)).run(
            turn.quoted_task,
            message_history=told(turn, agent.name) or None,
            usage_limits=UsageLimits(request_limit=MOST_REQUESTS),
            infer_name=False,
        )
    except Settled as ending:
        return _reply(agent, model, ending.content, shape and shape.found_in(ending.content), ending.signal)
    except UsageLimitExceeded as error:
        raise InvalidOutput(f"{agent.name!r} made {MOST_REQUESTS} requests and still had no answer.") from error
    except AgentRunError as error:
        failure = classify(error, client.name)
        if shape is not None and shape.welcome and isinstance(failure, InvalidOutput) and model.said:
            return _reply(agent, model, model.said, shape.found_in(model.said))
        raise failure from error
    except UserError as error:
        raise UsageError(f"The agent {agent.name!r} can't be run like this: {error}") from error
    if shape is None or isinstance(result.output, str):
        return _reply(agent, model, str(result.output), shape and shape.found_in(str(result.output)))
    data = shape.read(cast("JsonValue", result.output))
    return _reply(agent, model, json.dumps(data, ensure_ascii=False), data)


def _shape(agent: ModelAgent, turn: Turn) -> Shape | None:
    """The shape of the answer: what the agent declares, else what the asker would like."""
    if agent.output_schema is not None:
        return Shape(agent.name, agent.output_schema, agent.output_type)
    if turn.output_schema is None:
        return None
    schema = dict(turn.output_schema)
    return Shape(agent.name, with_handoff(schema, turn.handoff) if turn.handoff else schema, welcome=True)


def _instructions(agent: ModelAgent, model: AnyModel, turn: Turn, shape: Shape | None) -> str:
    """What the agent declares, how to hand over where the answer is free text, and what is left where it is little."""
    handoff = asked_for(turn.handoff) if turn.handoff is not None and shape is None else ""
    little = left_line(turn, model, agent.instructions, agent.max_tokens or turn.max_output)
    return "\n\n".join(filter(None, (agent.instructions, handoff, little))).strip()


def _runner(
    agent: ModelAgent,
    model: RecordedModel,
    client: ModelClient,
    tools: Tools,
    shape: Shape | None,
    instructions: str,
) -> Agent[None, Any]:
    output = str if shape is None else shape.output_type(client)
    settings = ModelSettings()
    if agent.temperature is not None:
        settings["temperature"] = agent.temperature
    if "max_retries" not in client.model.unsupported_settings:
        settings["max_retries"] = 0
    runner: Agent[None, Any] = Agent(
        model,
        deps_type=type(None),
        output_type=output,
        instructions=instructions or None,
        name=agent.name,
        model_settings=settings,
        retries={"tools": TOOL_RETRIES, "output": OUTPUT_RETRIES},
        toolsets=[RecordedTools(tools, model.tool_keys)] if tools.definitions else None,
    )
    if shape is not None and output is not str:
        runner.output_validator(shape.validate)
    return runner


def _reply(
    agent: ModelAgent, model: RecordedModel, content: str, data: JsonValue = None, signal: Signal | None = None
) -> Reply:
    messages = (Message(name=agent.name, content=content),) if content or signal is None else ()
    return Reply(
        messages=messages,
        data=data,
        usage=model.spent,
        signal=signal,
        truncated=model.truncated,
        warnings=model.warnings,
    )


def _text(response: ModelResponse) -> str:
    return "".join(part.content for part in response.parts if isinstance(part, TextPart)).strip()
