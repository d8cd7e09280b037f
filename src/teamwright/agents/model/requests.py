"""The requests of one turn to its model: each is one effect, recorded, budgeted and retried by the engine.

A request is also described for readers: its messages, instructions, tools and settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

import anyio.lowlevel
from pydantic import JsonValue
from pydantic_ai.exceptions import AgentRunError, ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_core import to_jsonable_python

from teamwright.agents.agent import Context
from teamwright.agents.attachments import media_tokens
from teamwright.agents.clients.http_transport import ReadBounds, is_read_to_end, read_within
from teamwright.agents.clients.model_client import ModelClient
from teamwright.agents.effect import (
    Attempt,
    Effect,
    OfferedTool,
    Returned,
    SentMessage,
    SentRequest,
)
from teamwright.agents.model.conversation import FilesOfRequest, ModelConversation, Send, check_files, name_files
from teamwright.agents.model.error_kinds import classify, is_too_long
from teamwright.agents.model.messages import (
    cut_response,
    decode_response,
    omitted_part,
    output_limit_of,
    output_size,
    response_text,
    to_record,
    usage_of_response,
    with_arrived,
    with_note,
    with_plain_usage,
    with_unique_ids,
)
from teamwright.agents.model.request_template import AnswerSchema, OutputMode, RequestTemplate, output_mode_of
from teamwright.agents.model.response_stream import OutputMeter, ResponseDeltas, Stop, with_thinking_apart
from teamwright.agents.model.tool_calls import with_written_calls
from teamwright.agents.prices import rate_of
from teamwright.agents.prompt_notices import CUT_NOTICE_TOKENS, output_cut_notice
from teamwright.errors import InvalidOutput, TeamwrightError
from teamwright.values.call_limits import REPLY_SECONDS, OutputLimit
from teamwright.values.events.agent import AgentModeRefused
from teamwright.values.limits import MODEST_OUTPUT, Pace
from teamwright.values.run_keys import REQUEST, request_place
from teamwright.values.specs.models import AnyModel, model_key
from teamwright.values.turns.messages import digest
from teamwright.values.usage_and_prices import NOTHING, Usage

if TYPE_CHECKING:
    from teamwright.agents.model.agent import ModelAgent


PRIVATE = frozenset(("extra_headers", "extra_body"))
"""Settings that may carry a key."""


def sent_request(conversation: ModelConversation, template: RequestTemplate) -> SentRequest:
    """Describe the next request of a conversation."""
    plain = template.parameters("text")
    settings = {name: value for name, value in template.settings.items() if name not in PRIVATE}
    return SentRequest(
        messages=tuple(part for message in conversation.messages for part in _parts(message)),
        instructions="\n\n".join(one.content for one in plain.instruction_parts or ()),
        tools=tuple(
            OfferedTool(one.name, one.description or "", cast("JsonValue", one.parameters_json_schema))
            for one in plain.function_tools
        ),
        settings=_json(settings),
        output_schema=_json(dict(template.schema)) if template.schema else None,
        modes=template.modes,
    )


def _parts(message: ModelMessage) -> Iterator[SentMessage]:
    for part in message.parts:
        match part:
            case UserPromptPart(content=str() as text):
                yield SentMessage("user", text)
            case UserPromptPart(content=content):
                yield SentMessage("user", "\n".join(str(one) for one in content if isinstance(one, str)))
            case SystemPromptPart(content=text) | TextPart(content=text):
                yield SentMessage("assistant" if isinstance(part, TextPart) else "user", text)
            case ThinkingPart(content=text):
                yield SentMessage("thinking", text)
            case ToolCallPart():
                yield SentMessage("tool_call", _json(part.args), part.tool_name, part.tool_call_id)
            case ToolReturnPart():
                yield SentMessage("tool_result", _json(part.content), part.tool_name, part.tool_call_id)
            case _:
                pass


def _json(value: object) -> JsonValue:
    return cast("JsonValue", to_jsonable_python(value, fallback=str))


RECORD_FACTOR = 8
"""How much larger than its text a recorded response may be: one character may take six bytes in JSON."""
BAD_REQUESTS = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
NESTED_GENERATORS = 6
"""How many generators lie between the events of a stream and its connection."""

Exchanged = tuple[ModelResponse, Stop | None, OutputMode]
"""A response, why reading it was stopped, and the mode of its answer."""


class ModelRequests:
    """Sends the requests of one turn, numbered from 1."""

    def __init__(
        self,
        agent: ModelAgent,
        model: AnyModel,
        ctx: Context,
        client: ModelClient,
        max_output: int | None,
        answer: AnswerSchema | None = None,
    ) -> None:
        self._agent, self._model, self._ctx, self._client = agent, model, ctx, client
        self._max_output, self._answer = max_output, answer
        self.is_quiet = False
        """Whether observers see none of the responses."""
        self.count = 0
        self.usage: Usage = NOTHING
        self.truncated = False
        """Whether the last response was cut, by a limit of the provider or of ours."""
        self.capped: int | None = None
        """The size cap at which the last response was cut, if that is why."""
        self.limit: OutputLimit | None = None
        """The output limit at which the last response was cut, if that is why."""
        self.mode: OutputMode = "text"
        """The mode of the answer in the last response."""
        self._arrived: tuple[int, int] | None = None
        """The input and output tokens of a stream that was not read to its end, at least."""
        self.tool_keys: dict[str, str] = {}
        """The key of the effect for each tool call, by the id of the call."""
        self._decoded: tuple[JsonValue, ModelResponse] | None = None
        """The record of the last call and its response, unless both come from the journal."""

    async def send(self, conversation: ModelConversation, template: RequestTemplate, place: str = "") -> ModelResponse:
        """Send the next request of the turn, or the one of this place if requests have no order."""
        self.count += 1
        agent, client, model = self._agent, self._client, self._model
        effect = Effect(
            kind="model",
            name=client.name,
            request=digest(conversation.digest, template.digest),
            call=partial(self._call, conversation, template),
            prompt_bytes=conversation.prompt_bytes
            + conversation.thinking_bytes
            + template.prompt_bytes
            + client.hidden_bytes,
            messages=conversation.count + template.has_instructions,
            max_output=self._max_output,
            retry=agent.policy.retry,
            timeout=agent.timeout,
            model=model_key(model),
            pace=model if isinstance(model, Pace) else client.pace,
            rate=partial(rate_of, model),
            note=CUT_NOTICE_TOKENS,
            default_timeout=REPLY_SECONDS,
            max_bytes=RECORD_FACTOR * agent.policy.reply_bytes,
            media_tokens=conversation.reasoning_tokens
            + (self._media_tokens(conversation) if conversation.files else 0),
            texts=(*conversation.sent_texts, *template.texts),
            tokenizer=None if isinstance(model, str) else model.tokenizer,
            describe=partial(sent_request, conversation, template),
            by_content=bool(place),
        )
        returned = await self._ctx.effect(place or request_place(self.count), effect)
        self.usage += returned.usage
        self.truncated, self.capped = returned.truncated, returned.capped
        self.limit = output_limit_of(returned.value)
        decoded, self._decoded = self._decoded, None
        response = decoded[1] if decoded and decoded[0] is returned.value else decode_response(returned.value)
        response = with_unique_ids(response, place.removeprefix(REQUEST) or self.count, self.tool_keys)
        self.mode = output_mode_of(returned.value, template.modes)
        conversation.add_response(response)
        return response

    def _media_tokens(self, conversation: ModelConversation) -> int:
        """Check that the model takes the files of the conversation, as far as that is known, and size them."""
        model = model_key(self._model)
        check_files(conversation.files, self._agent.name, model)
        return media_tokens((one.artifact for one in conversation.files), model)

    async def _call(self, conversation: ModelConversation, template: RequestTemplate, attempt: Attempt) -> Returned:
        agent, client = self._agent, self._client
        if self.is_quiet or (agent.guardrails is not None and agent.guardrails.checks_output):
            attempt = attempt.unfollowed()
        self._arrived = None
        messages, settings = conversation.messages, self._settings(template, attempt)
        if attempt.max_output is not None and attempt.cut:
            messages = with_note(messages, output_cut_notice(attempt.max_output))
        try:
            await client.ready()
            headers: dict[str, str] = settings.get("extra_headers", {})  # pyright: ignore[reportUnknownMemberType]
            with read_within(ReadBounds(agent.idle_seconds, agent.policy.reply_bytes, headers)):
                if conversation.files:
                    send = partial(self._exchange, settings=settings, template=template, attempt=attempt)
                    response, stopped, mode = await self._send_with_files(conversation, messages, send)
                else:
                    response, stopped, mode = await self._exchange(messages, settings, template, attempt)
            response = with_plain_usage(with_thinking_apart(response))
            if tools := template.tool_names(mode):
                response = with_written_calls(response, tools, self._answer)
            usage = usage_of_response(response, self._model)
            if self._arrived is not None:
                usage = with_arrived(usage, self._arrived, self._model)
            is_cut = response.finish_reason == "length" and stopped is not Stop.SIZE
            limit = self._limit(attempt) if is_cut else None
            record = to_record(response, None if mode == "text" else mode, limit)
            self._decoded = record, decode_response(record)  # a record that can't be decoded must not be written
        except TeamwrightError:
            raise
        except Exception as error:  # libraries raise anything for a malformed response: it is a failed request
            failure = classify(error, client.name)
            if self._arrived is not None:
                failure.unknown_cost, failure.arrived = True, self._arrived
            raise name_files(failure, error, conversation.files, agent.name, client.name) from error
        return Returned(
            record,
            usage,
            truncated=response.finish_reason == "length",
            capped=agent.policy.reply_bytes if stopped is Stop.SIZE else None,
            partial_usage="cut" if self._arrived is not None else omitted_part(response),
        )

    def _settings(self, template: RequestTemplate, attempt: Attempt) -> ModelSettings:
        """Return the settings of a request with its output cap; of the budget no larger one than the server takes."""
        cap = attempt.max_output
        if cap is None:
            return template.settings
        if self._client.output_caps and cap != self._max_output:
            cap = min(cap, *self._client.output_caps)
        return cast("ModelSettings", {**template.settings, "max_tokens": cap})

    async def _send_with_files(
        self, conversation: ModelConversation, messages: list[ModelMessage], send: Send[Exchanged]
    ) -> Exchanged:
        files = FilesOfRequest(conversation.files, conversation.speakers, model_key(self._model))
        return await files.send(messages, self._ctx.workspace, send)

    def _limit(self, attempt: Attempt) -> OutputLimit:
        """Return the output limit of a request, and who set it."""
        cap = attempt.max_output
        if cap is None:
            return OutputLimit("model")
        if cap != self._max_output:
            return OutputLimit("budget", cap)
        is_own = self._agent.settings_for(self._model).get("max_tokens") == cap
        return OutputLimit("max_tokens" if is_own else "asker", cap)

    async def _exchange(
        self, messages: list[ModelMessage], settings: ModelSettings, template: RequestTemplate, attempt: Attempt
    ) -> Exchanged:
        """Send the request and read the reply; if the server refuses it, once more with a modest output cap.

        What is left of a budget may be more than a model can write. A refusal costs nothing, and if the modest cap
        helps, later requests have it.
        """
        cap = cast("dict[str, int]", settings).get("max_tokens")
        try:
            return await self._exchange_capped(messages, settings, template, attempt)
        except ModelHTTPError as error:
            if cap is None or cap == self._max_output or cap <= MODEST_OUTPUT or error.status_code not in BAD_REQUESTS:
                raise
        settings = cast("ModelSettings", {**settings, "max_tokens": MODEST_OUTPUT})
        exchanged = await self._exchange_capped(messages, settings, template, attempt)
        self._client.output_caps.add(MODEST_OUTPUT)
        return exchanged

    async def _exchange_capped(
        self, messages: list[ModelMessage], settings: ModelSettings, template: RequestTemplate, attempt: Attempt
    ) -> Exchanged:
        """Send the request and read the reply, in the first mode that the server takes.

        A server that can't take a mode refuses it as a bad request, which costs nothing, and it is not asked so again.
        """
        modes: list[OutputMode] = [one for one in template.modes if one not in self._client.refused_modes]
        modes = modes or list(template.modes[-1:])
        for mode in modes:
            try:
                if self._client.streams and (attempt.is_followed or not self._client.sends_whole):
                    response, stopped = await self._stream(messages, settings, template, mode, attempt)
                    if not is_read_to_end():
                        await _close_generators()
                else:
                    response, stopped = await self._read(messages, settings, template, mode, attempt)
            except ModelHTTPError as error:
                if mode == modes[-1] or error.status_code != HTTPStatus.BAD_REQUEST or is_too_long(error):
                    raise
            else:
                if refused := modes[: modes.index(mode)]:
                    self._client.refused_modes.update(refused)
                    attempt.emit(AgentModeRefused(model=self._client.name, refused=tuple(refused), mode=mode))
                return response, stopped, mode
        raise AssertionError("the last mode returns or raises")

    async def _read(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings,
        template: RequestTemplate,
        mode: OutputMode,
        attempt: Attempt,
    ) -> tuple[ModelResponse, Stop | None]:
        """Read the whole reply; a text beyond the size cap is cut. A follower gets the text in one piece."""
        response, stopped = await self._client.model.request(messages, settings, template.parameters(mode)), None
        if output_size(response) > self._agent.policy.reply_bytes:
            response, stopped = self._cut(response, Stop.SIZE, template), Stop.SIZE
        if attempt.is_followed and (answer := response_text(with_thinking_apart(response))):
            attempt.delta(answer)
        return response, stopped

    async def _stream(
        self,
        messages: list[ModelMessage],
        settings: ModelSettings,
        template: RequestTemplate,
        mode: OutputMode,
        attempt: Attempt,
    ) -> tuple[ModelResponse, Stop | None]:
        """Read the reply piece by piece, as far as the limits allow."""
        is_json = mode in ("native", "json", "prompt")
        meter, stopped = OutputMeter(self._agent.policy.reply_bytes, attempt.max_output, is_json=is_json), None
        deltas = ResponseDeltas(attempt, template.output, mode, template.answer_tool)
        response: ModelResponse | None = None
        async with self._client.model.request_stream(messages, settings, template.parameters(mode)) as stream:
            try:
                async for event in stream:
                    if stopped is not None:
                        continue  # events that arrived before the connection was closed
                    if (stopped := meter.add(deltas.add(event))) is not None:
                        response = stream.get()
                        self._note_arrived(stream, meter)
                        await stream.cancel()
            except Exception as error:
                if stopped is None:
                    self._note_arrived(stream, meter)
                    raise
                if not isinstance(error, AgentRunError):  # else it results from closing the connection
                    raise
            finally:
                deltas.stop()
            if stopped is None:
                deltas.finish()
                return stream.get(), None
        assert response is not None
        if stopped is Stop.BLANK:
            return replace(response, finish_reason="stop", state="complete"), stopped
        return self._cut(response, stopped, template), stopped

    def _note_arrived(self, stream: StreamedResponse, meter: OutputMeter) -> None:
        """Keep what has arrived of a stream that is not read to its end, if anything has."""
        if meter.least_tokens:
            used = stream.usage
            self._arrived = used.input_tokens, max(used.output_tokens, meter.least_tokens)

    def _cut(self, response: ModelResponse, why: Stop, template: RequestTemplate) -> ModelResponse:
        """Cut a response that is too long; JSON can't be cut."""
        calls = any(isinstance(part, ToolCallPart) for part in response.parts)
        if why is Stop.SIZE and (calls or template.requires_json):
            most = self._agent.policy.reply_bytes
            raise InvalidOutput(f"The model {self._client.name!r} sent JSON of more than {most} bytes (max_bytes)")
        return cut_response(response, self._agent.policy.reply_bytes)


async def _close_generators() -> None:
    """Let the generators be closed that a client library left unfinished: each in a task of its own, one by one."""
    for _ in range(NESTED_GENERATORS):
        await anyio.lowlevel.checkpoint()
