"""One turn of a model agent in a run of prompt format 1: pydantic-ai runs its agent loop.

Runs that earlier versions recorded, and forks of them, continue with the prompts they began with. Nothing else uses
this module, and its prompts and digests must not change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from pydantic_ai import Agent, ModelRetry, NativeOutput, PromptedOutput, StructuredDict, ToolFailed
from pydantic_ai.exceptions import AgentRunError, UsageLimitExceeded, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_ai.usage import UsageLimits
from pydantic_core import SchemaValidator, core_schema

from teamwright.agents.budget_notice import CUT_NOTICE_TOKENS, low_budget_notice, output_cut_notice
from teamwright.agents.clients.http_transport import ReadBounds, read_within
from teamwright.agents.clients.model_client import ModelClient
from teamwright.agents.contract.context import Context
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.agents.envelope_note import note_instructions
from teamwright.agents.model.errors import classify
from teamwright.agents.model.messages import (
    arguments_text,
    cut_response,
    from_record,
    response_text,
    text_under_name,
    to_record,
    usage_of_response,
    with_note,
    with_plain_usage,
)
from teamwright.agents.model.output import AnswerSchema, answer_schema
from teamwright.agents.model.output_meter import OutputMeter, Stop
from teamwright.agents.model.requests import RECORD_FACTOR
from teamwright.agents.prices import rate_of
from teamwright.agents.tools.terminate import final_response
from teamwright.agents.tools.toolbox import Tools
from teamwright.errors import AgentError, InvalidOutput, TeamwrightError, ToolError, UsageError
from teamwright.values.key import request_place
from teamwright.values.limits.limits import Pace
from teamwright.values.limits.reply import MOST_REQUESTS, REPLY_SECONDS, reply_cut_warning
from teamwright.values.limits.usage import NOTHING, Usage
from teamwright.values.specs.manifest import TERMINATE, AnyModel, model_key
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Reply, Signal, Turn

if TYPE_CHECKING:
    from teamwright.agents.model.agent import ModelAgent

OUTPUT_RETRIES = 2
TOOL_RETRIES = 3
VOLATILE = {"timestamp", "run_id", "conversation_id"}
SPOKEN_FIELDS = ("content", "tool_name", "args")
ANY_ARGUMENTS = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


class TurnSettled(Exception):
    """Ends the turn before pydantic-ai would: the model called `terminate`, or its plain text is accepted."""

    def __init__(self, content: str, signal: Signal | None = None) -> None:
        self.content: str = content
        self.signal: Signal | None = signal
        super().__init__(content)


class RecordedModel(WrapperModel):
    """Wraps a model so that each request is one effect of the turn, with its number as the key."""

    def __init__(
        self,
        agent: ModelAgent,
        model: AnyModel,
        turn: Turn,
        ctx: Context,
        client: ModelClient,
        tools: Tools,
        answer_schema: AnswerSchema | None,
    ) -> None:
        super().__init__(client.model)
        self._agent, self._chosen, self._ctx, self._source, self._tools = agent, model, ctx, client, tools
        self._answer_schema = answer_schema
        self._max_output = agent.max_tokens or turn.max_output
        self.tool_keys: dict[str, str] = {}
        self._requests = 0
        self._spent: Usage = NOTHING
        self.truncated = False
        self.last_text = ""
        self._capped: int | None = None

    @property
    def spent(self) -> Usage:
        """The usage of the turn so far: requests and tool calls."""
        return self._spent + self._tools.spent

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about results and replies that were cut at the size cap."""
        cut = () if self._capped is None else (reply_cut_warning(self._agent.name, self._capped),)
        return (*self._tools.warnings, *cut)

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Make the request, or return its recorded response."""
        self._requests += 1
        summary = RequestSummary.of_request(messages, model_settings, model_request_parameters)
        effect = Effect(
            kind="model",
            name=self._source.name,
            request=summary.digest,
            call=partial(self._call, messages, model_settings, model_request_parameters),
            prompt_bytes=summary.prompt_bytes + self._source.hidden_bytes,
            messages=summary.messages,
            max_output=self._max_output,
            retry=self._agent.retry,
            timeout=self._agent.timeout,
            model=model_key(self._chosen),
            pace=self._chosen if isinstance(self._chosen, Pace) else self._source.pace,
            rate=partial(rate_of, self._chosen),
            note=CUT_NOTICE_TOKENS,
            default_timeout=REPLY_SECONDS,
            max_bytes=RECORD_FACTOR * self._agent.max_bytes,
        )
        returned = await self._ctx.effect(request_place(self._requests), effect)
        self._spent += returned.usage
        self.truncated, self._capped = returned.truncated, returned.capped
        response = from_record(returned.value, self._requests, self.tool_keys)
        self._settle(response)
        return response

    def _settle(self, response: ModelResponse) -> None:
        """Raise `TurnSettled` if the response terminates the turn or is an acceptable plain-text answer."""
        text = response_text(response)
        calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
        for call in calls:
            if self._tools.may_terminate and call.tool_name == TERMINATE:
                raise TurnSettled(final_response(call.args) or text, "terminate")
        self.last_text = text or (calls[-1].args_as_json_str() if calls else "")
        if self._answer_schema is not None and not calls and self._answer_schema.is_settled_by(text):
            raise TurnSettled(text)

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
            messages = with_note(messages, output_cut_notice(attempt.max_output))
        try:
            await self._source.ready()
            with read_within(ReadBounds(self._agent.idle_timeout, self._agent.max_bytes)):
                response, stopped = await self._read(messages, capped, parameters, attempt)
            response = with_plain_usage(response)
            usage = usage_of_response(response, self._chosen)
            record = to_record(response)
            from_record(record, self._requests, {})  # a record that can't be decoded must not be written
        except TeamwrightError:
            raise
        except Exception as error:  # libraries raise anything for a malformed response: it is a failed request
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
        """Read the reply, as far as the limits allow, and return it with the reason to stop early, if any."""
        meter, stopped = OutputMeter(self._agent.max_bytes, attempt.max_output), None
        response: ModelResponse | None = None
        async with self.wrapped.request_stream(messages, settings, parameters) as stream:
            try:
                async for event in stream:
                    if stopped is not None:
                        continue  # events that arrived before the connection was closed
                    if text := new_text(event):
                        attempt.delta(text)
                    if (stopped := meter.add(new_output(event))) is not None:
                        response = stream.get()
                        await stream.cancel()
            except AgentRunError:
                if stopped is None:  # else it results from closing the connection
                    raise
            if stopped is None:
                return stream.get(), None
        assert response is not None
        calls = any(isinstance(part, ToolCallPart) for part in response.parts)
        if stopped is Stop.SIZE and (calls or (self._answer_schema is not None and not self._answer_schema.preferred)):
            most = self._agent.max_bytes
            raise InvalidOutput(f"The model {self._source.name!r} sent JSON of more than {most} bytes (max_bytes)")
        return cut_response(response, self._agent.max_bytes), stopped


class RecordedTools(AbstractToolset[None]):
    """Offers the tools of the turn, each call one effect; `keys` maps the model's call ids to effect keys."""

    def __init__(self, tools: Tools, keys: Mapping[str, str]) -> None:
        self._tools, self._keys = tools, keys

    @property
    def id(self) -> str:
        """The name of the set within pydantic-ai."""
        return "teamwright"

    async def get_tools(self, ctx: RunContext[None]) -> dict[str, ToolsetTool[None]]:
        """Return the tools for the model; arguments are validated when a call is made."""
        return {
            one.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=one.name, description=one.description, parameters_json_schema=one.parameters
                ),
                max_retries=TOOL_RETRIES,
                args_validator=ANY_ARGUMENTS,
            )
            for one in (offered.earlier or offered for offered in self._tools.definitions)
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[None], tool: ToolsetTool[None]
    ) -> JsonValue:
        """Make the call, or return its recorded result; errors go to the model, which may continue."""
        try:
            self._tools.validate(name, tool_args)
        except ToolError as error:
            raise ModelRetry(str(error)) from error
        try:
            return await self._tools.call_recorded(name, tool_args, key=self._keys[ctx.tool_call_id or ""])
        except AgentError as error:
            raise ToolFailed(str(error)) from error


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """The digest and the size of a request."""

    digest: str
    prompt_bytes: int
    messages: int

    @classmethod
    def of_request(
        cls, messages: list[ModelMessage], settings: ModelSettings | None, parameters: ModelRequestParameters
    ) -> RequestSummary:
        """Summarize a request, without the times and ids that differ from run to run and without the output cap."""
        dumped = cast("list[dict[str, Any]]", ModelMessagesTypeAdapter.dump_python(messages, mode="json"))
        parts = [_stable(part) for message in dumped for part in message["parts"]]
        instructions = _sent_instructions(messages, parameters)
        offered = _offered_schemas(parameters)
        plain_settings = {key: value for key, value in (settings or {}).items() if key != "max_tokens"}
        spoken = [_as_text(part.get(field)) for part in parts for field in SPOKEN_FIELDS]
        return cls(
            digest(_json(parts), instructions, offered, _json(plain_settings)),
            sum(len(text.encode("utf-8", "surrogatepass")) for text in (*spoken, instructions, offered)),
            len(parts) + bool(instructions),
        )


def _stable(part: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key not in VOLATILE}


def _as_text(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _sent_instructions(messages: list[ModelMessage], parameters: ModelRequestParameters) -> str:
    if parameters.instruction_parts is not None:
        return "\n\n".join(part.content for part in parameters.instruction_parts)
    requests = [message.instructions for message in messages if isinstance(message, ModelRequest)]
    return (requests[-1] if requests else None) or ""


def _offered_schemas(parameters: ModelRequestParameters) -> str:
    """The tools and the answer's schema as JSON; empty if there are none."""
    tools: Sequence[ToolDefinition] = (*parameters.function_tools, *parameters.output_tools)
    offered: list[object] = [[one.name, one.description, one.parameters_json_schema] for one in tools]
    if parameters.output_object is not None:
        offered.append(parameters.output_object.json_schema)
    return _json(offered) if offered else ""


async def run_turn(
    agent: ModelAgent,
    chosen: AnyModel,
    turn: Turn,
    ctx: Context,
    client: ModelClient,
    tools: Tools,
    instructions: str,
) -> Reply:
    """Run pydantic-ai's agent loop for one turn with the chosen model, and return its reply."""
    schema = answer_schema(agent.name, agent.output_schema, agent.output_type, turn)
    model = RecordedModel(agent, chosen, turn, ctx, client, tools, schema)
    try:
        result = await _runner(
            agent, model, client, tools, schema, _instructions(agent, chosen, turn, schema, instructions)
        ).run(
            turn.quoted_task,
            message_history=history_messages(turn, agent.name) or None,
            usage_limits=UsageLimits(request_limit=MOST_REQUESTS),
            infer_name=False,
        )
    except TurnSettled as ending:
        return _reply(agent, model, ending.content, schema and schema.parse_text(ending.content), ending.signal)
    except UsageLimitExceeded as error:
        raise InvalidOutput(f"{agent.name!r} made {MOST_REQUESTS} requests and still had no answer.") from error
    except AgentRunError as error:
        failure = classify(error, client.name)
        if schema is not None and schema.preferred and isinstance(failure, InvalidOutput) and model.last_text:
            return _reply(agent, model, model.last_text, schema.parse_text(model.last_text))
        raise failure from error
    except UserError as error:
        raise UsageError(f"The agent {agent.name!r} can't be run like this: {error}") from error
    if schema is None or isinstance(result.output, str):
        return _reply(agent, model, str(result.output), schema and schema.parse_text(str(result.output)))
    data = schema.parse(cast("JsonValue", result.output))
    return _reply(agent, model, json.dumps(data, ensure_ascii=False), data)


def _instructions(
    agent: ModelAgent, model: AnyModel, turn: Turn, answer_schema: AnswerSchema | None, instructions: str
) -> str:
    """Join the agent's instructions, the handoff instructions for a plain-text answer, and the budget notice."""
    handoff = note_instructions(turn.handoff) if turn.handoff is not None and answer_schema is None else ""
    little = low_budget_notice(turn, model, instructions, agent.max_tokens or turn.max_output)
    return "\n\n".join(filter(None, (instructions, handoff, little))).strip()


def _runner(
    agent: ModelAgent,
    model: RecordedModel,
    client: ModelClient,
    tools: Tools,
    answer_schema: AnswerSchema | None,
    instructions: str,
) -> Agent[None, Any]:
    output = str if answer_schema is None else _output_type(answer_schema, client)
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
    if answer_schema is not None and output is not str:
        runner.output_validator(partial(_validate, answer_schema))
    return runner


def _output_type(answer: AnswerSchema, client: ModelClient) -> Any:
    """The output type for pydantic-ai: the provider's JSON mode, or what its profile prefers.

    Plain text if data is only preferred and the model has no JSON mode.
    """
    shape = StructuredDict(cast("dict[str, Any]", answer.sent_schema), name="answer")
    profile = client.model.profile
    if client.native_output:
        return NativeOutput(shape)
    if client.supports_tools or not answer.preferred:
        return shape
    if profile.get("supports_json_schema_output"):
        return NativeOutput(shape)
    return PromptedOutput(shape) if profile.get("supports_json_object_output") else str


def _validate(answer: AnswerSchema, output: JsonValue) -> JsonValue:
    """Validate the output for pydantic-ai; an invalid one goes back to the model, which costs another request."""
    try:
        answer.parse(output)
    except InvalidOutput as error:
        raise ModelRetry(str(error)) from error
    return output


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


def history_messages(turn: Turn, name: str) -> list[ModelMessage]:
    """Convert the history of a turn: the messages of the member `name` as its own, all others under their names.

    Some providers refuse a conversation that the assistant opens, so the member's own messages at the start are sent
    under its name too.
    """
    messages: list[ModelMessage] = []
    speakers = None if turn.quoting == "none" else turn.speakers
    for message in turn.history:
        if not message.content.strip():
            continue  # providers refuse empty messages
        if message.name == name and message.role != "user" and messages:
            messages.append(ModelResponse(parts=[TextPart(message.content)]))
        else:
            messages.append(ModelRequest(parts=[UserPromptPart(text_under_name(message, speakers))]))
    return messages


def new_text(event: ModelResponseStreamEvent) -> str:
    """The text in a stream event, if any."""
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


def new_output(event: ModelResponseStreamEvent) -> str:
    """All output in a stream event: text, thinking, or the arguments of a tool call."""
    match event:
        case PartStartEvent(part=TextPart(content=content) | ThinkingPart(content=content)):
            return content
        case PartDeltaEvent(delta=TextPartDelta(content_delta=content) | ThinkingPartDelta(content_delta=content)):
            return content or ""
        case PartStartEvent(part=ToolCallPart(args=args)) | PartDeltaEvent(delta=ToolCallPartDelta(args_delta=args)):
            return arguments_text(args)
        case _:
            return ""
