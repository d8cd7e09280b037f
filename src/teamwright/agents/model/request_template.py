"""What every request of a turn has in common: instructions, tools, settings, form of the answer, and cache points.

A provider keeps a prompt up to a cache point and charges less for it when a later prompt begins the same; writing
costs somewhat more than reading it uncached. So a point must stand before whatever changes, and only where the prefix
will probably be read again. Points are no part of the digest of a request: they change its price, not its content.
Messages of `InvalidOutput` are sent to the model as corrections: they are part of prompts and must not change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, count
from operator import is_
from typing import Literal, NamedTuple, cast

from pydantic import JsonValue
from pydantic_ai.messages import CachePoint, InstructionPart, ModelMessage, ModelRequest, ModelResponse, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import CacheConfig, ModelSettings
from pydantic_ai.tools import ToolDefinition as ModelTool
from pydantic_core import from_json

from teamwright.agents.clients.providers import profile_of
from teamwright.agents.json_schema import check
from teamwright.agents.model.messages import MODE
from teamwright.agents.prompt_notices import schema_with_note
from teamwright.agents.tools.protocol import ToolDefinition
from teamwright.errors import InvalidOutput
from teamwright.values.call_limits import text_size
from teamwright.values.events.event import WRAPPED, OutputForm
from teamwright.values.specs.models import CacheMode, PrescribedMode
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.values.typed_data import read_as


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The schema of an agent's answer. If it is only `preferred`, any other answer is accepted too.

    Models return only objects, so a schema of another type is wrapped in one.
    """

    agent: str
    schema: dict[str, JsonValue]
    model: type[object] | None = None
    preferred: bool = False

    @property
    def wrapped(self) -> bool:
        """Whether the schema is not of an object and has to be wrapped in one."""
        return self.schema.get("type") != "object"

    @property
    def sent_schema(self) -> dict[str, JsonValue]:
        if not self.wrapped:
            return self.schema
        inner = {key: value for key, value in self.schema.items() if key != "$defs"}
        definitions = {"$defs": self.schema["$defs"]} if "$defs" in self.schema else {}
        return {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **definitions}

    def parse(self, output: JsonValue) -> JsonValue:
        """Unwrap and validate the model's output; raises `InvalidOutput` with the violations."""
        what = f"The answer of {self.agent!r}"
        if self.wrapped:
            if not isinstance(output, dict) or WRAPPED not in output:
                raise InvalidOutput(f"{what} does not fit its schema: {WRAPPED!r} is missing.")
            output = output[WRAPPED]
        try:
            self.check(output)
        except InvalidOutput:
            # Some models send a list as a text of JSON inside the object.
            data = self.parse_text(output) if self.wrapped and isinstance(output, str) else None
            if data is None:
                raise
            return data
        return output

    def parse_json(self, text: str) -> JsonValue:
        """Parse a text as JSON, unwrap and validate it; raises `InvalidOutput` with what is wrong."""
        try:
            output = cast("JsonValue", from_json(_without_fence(text)))
        except ValueError as error:
            raise InvalidOutput(f"The answer of {self.agent!r} is no JSON: {error}") from error
        return self.parse(output)

    def parse_text(self, text: str) -> JsonValue:
        """Parse a text as JSON; return `None` if it does not fit the schema."""
        try:
            data = cast("JsonValue", from_json(text))
            self.check(data)
        except (ValueError, InvalidOutput):
            return None
        return data

    def is_settled_by(self, text: str) -> bool:
        """Whether a text is acceptable as the answer: if data is only preferred, any plain text, or JSON that fits."""
        if not self.preferred or not text:
            return False
        try:
            from_json(text)
        except ValueError:
            return True
        return not self.wrapped and self.parse_text(text) is not None

    def check(self, data: JsonValue) -> None:
        """Validate data against the schema, and against the model class if one was given."""
        what = f"The answer of {self.agent!r}"
        check(self.schema, data, what)
        if self.model is not None:
            read_as(data, self.model, what)


def answer_schema(
    agent: str, declared: dict[str, JsonValue] | None, model: type[object] | None, turn: Turn
) -> AnswerSchema | None:
    """Return the schema of the answer: the one that the agent declares, else the one that the asker prefers."""
    if declared is not None:
        return AnswerSchema(agent, declared, model)
    if turn.output_schema is None:
        return None
    schema = dict(turn.output_schema)
    return AnswerSchema(
        agent, schema_with_note(schema, turn.envelope_limits) if turn.envelope_limits else schema, preferred=True
    )


def _without_fence(text: str) -> str:
    """Return the JSON inside a fenced block, which some models put around it."""
    text = text.strip()
    if not text.startswith("```") or not text.endswith("```") or "\n" not in text:
        return text
    return text[text.index("\n") + 1 : -3]


ANSWER = "answer"
"""The name of the schema of an answer."""
ANSWER_TOOL = "final_result"
"""The tool that takes an answer in the mode `tool`; a number follows if the agent has a tool of this name."""
ANSWER_TOOL_DESCRIPTION = "Give the final answer, which ends your turn."
ANSWER_PROMPT = """\
Answer with one JSON value that fits this JSON Schema, without other text and without a code fence:

{schema}"""
"""The instructions for an answer in the mode `prompt`, which needs nothing of the server."""

TOOL_FRAME = f"""\
{{"type": "function", "function": {{"name": "{ANSWER_TOOL}", "description": "{ANSWER_TOOL_DESCRIPTION}", "parameters": \
{{"title": "{ANSWER}", "additionalProperties": false, "required": []}}, "strict": true}}}}"""
"""What a request writes around a tool or the schema of an answer, to be counted by a tokenizer."""

UNHASHED = frozenset(("max_tokens", "max_retries", "cache", "extra_headers"))
"""Settings that are not part of the digest: they bound a request or change its price, but not what it asks; and headers
may carry a key that is replaced."""

OutputMode = Literal["text", "native", "tool", "json", "prompt"]
"""How a model answers: as text, in JSON that the provider holds to the schema, as a tool call, or as JSON that a prompt
asks for, in the provider's mode for any JSON or without it."""

RECORDED_MODES: tuple[OutputMode, ...] = ("native", "tool", "json", "prompt")
"""The modes that a record names."""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """The part of a request that is the same throughout a turn, with its digest and its size in bytes.

    The digest does not depend on the mode of the answer: a server that refuses one mode is asked in the next one.
    """

    settings: ModelSettings
    modes: tuple[OutputMode, ...]
    digest: str
    prompt_bytes: int
    texts: tuple[str, ...]
    """The texts of the template, to be counted by a tokenizer."""
    has_instructions: bool
    requires_json: bool
    """Whether an answer that is no JSON can't be used."""
    output: OutputForm | None
    """The form of the structured output that the agent declares."""
    answer_tool: str
    _plain: ModelRequestParameters
    _schema: Mapping[str, JsonValue]
    _inputs: tuple[object, ...]
    _same: tuple[object, ...]
    """What the template was made from: values to compare, and objects that have to be the same."""

    def is_made_from(self, inputs: tuple[object, ...], same: tuple[object, ...]) -> bool:
        """Whether the template was made from these values and these very objects."""
        return inputs == self._inputs and len(same) == len(self._same) and all(map(is_, same, self._same))

    @property
    def schema(self) -> Mapping[str, JsonValue]:
        """The schema of the answer; empty if the answer is a text."""
        return self._schema

    def tool_names(self, mode: OutputMode) -> list[str]:
        """The tools that a request offers, with the one for an answer in this mode."""
        return [*(one.name for one in self._plain.function_tools), *([self.answer_tool] if mode == "tool" else [])]

    def parameters(self, mode: OutputMode) -> ModelRequestParameters:
        """Return the parameters of a request whose answer is to come in this mode."""
        if mode == "text":
            return self._plain
        described = self._schema.get("description")
        description = described if isinstance(described, str) else None
        schema = cast("dict[str, object]", {**self._schema, "title": ANSWER})
        schema.pop("description", None)
        if mode == "tool":
            text = description or ANSWER_TOOL_DESCRIPTION
            tool = ModelTool(name=self.answer_tool, description=text, parameters_json_schema=schema, kind="output")
            return replace(self._plain, output_mode="tool", output_tools=[tool], allow_text_output=False)
        if mode == "prompt":
            asked = InstructionPart(content=ANSWER_PROMPT.format(schema=_json({**self._schema})))
            return replace(self._plain, instruction_parts=[*(self._plain.instruction_parts or ()), asked])
        answer = OutputObjectDefinition(json_schema=schema, name=ANSWER, description=description)
        return replace(self._plain, output_mode="native" if mode == "native" else "prompted", output_object=answer)


def make_request_template(
    instructions: str,
    tools: Sequence[ToolDefinition],
    settings: ModelSettings,
    answer: AnswerSchema | None,
    modes: tuple[OutputMode, ...],
    prescribed: PrescribedMode | None = None,
    last: RequestTemplate | None = None,
) -> RequestTemplate:
    """Make the template of a turn whose model can answer in these modes, the first of which is tried first.

    A mode that is `prescribed` is part of the digest, since recorded responses are in that mode. The `last` template of
    the agent is returned if it was made from the same: making one takes 80 µs, and few turns need another.
    """
    inputs = (instructions, repr(settings), answer is not None and answer.preferred, modes, prescribed)
    same = (*tools, answer.schema if answer is not None else None)
    if last is not None and last.is_made_from(inputs, same):
        return last
    schema = answer.sent_schema if answer is not None and modes != ("text",) else {}
    offered: list[object] = [[one.name, one.description, one.parameters] for one in tools]
    offered += [schema] if schema else []
    schemas = _json(offered) if offered else ""
    sent = {key: value for key, value in settings.items() if key not in UNHASHED}
    plain = ModelRequestParameters(
        function_tools=[
            ModelTool(name=one.name, description=one.description, parameters_json_schema=one.parameters)
            for one in tools
        ],
        instruction_parts=[InstructionPart(content=instructions)] if instructions else None,
    )
    return RequestTemplate(
        settings=settings,
        modes=modes,
        digest=digest(instructions, schemas, _json(sent), *([prescribed] if prescribed else [])),
        prompt_bytes=text_size(instructions) + text_size(schemas),
        texts=(instructions, schemas, *[TOOL_FRAME] * len(tools), *([TOOL_FRAME, ANSWER_PROMPT] if schema else [])),
        has_instructions=bool(instructions),
        requires_json=answer is not None and not answer.preferred,
        output=None if answer is None or answer.preferred else "wrapped" if answer.wrapped else "data",
        answer_tool=_free_name(ANSWER_TOOL, {one.name for one in tools}),
        _plain=plain,
        _schema=schema,
        _inputs=inputs,
        _same=same,
    )


def given_template(settings: ModelSettings, parameters: ModelRequestParameters) -> RequestTemplate:
    """Return the template of a request of a loop that is not ours, which says itself how its model is to answer."""
    instructions = "\n\n".join(one.content for one in parameters.instruction_parts or ())
    tools = (*parameters.function_tools, *parameters.output_tools)
    offered: list[object] = [[one.name, one.description, one.parameters_json_schema] for one in tools]
    offered += [one.kind for one in parameters.native_tools]
    offered += [one.json_schema for one in (parameters.output_object,) if one is not None]
    schemas = _json(offered) if offered else ""
    sent = {key: value for key, value in settings.items() if key not in UNHASHED}
    rules = f"{parameters.output_mode} {parameters.allow_text_output}"
    return RequestTemplate(
        settings=settings,
        modes=("text",),
        digest=digest(instructions, schemas, _json(sent), rules),
        prompt_bytes=text_size(instructions) + text_size(schemas),
        texts=(instructions, schemas, *[TOOL_FRAME] * len(offered)),
        has_instructions=bool(instructions),
        requires_json=False,
        output=None,
        answer_tool="",
        _plain=parameters,
        _schema={},
        _inputs=(),
        _same=(),
    )


def answer_modes(
    model: Model, answer: AnswerSchema | None, *, native: bool, prescribed: PrescribedMode | None = None
) -> tuple[OutputMode, ...]:
    """Return how the model can give an answer, in the order in which the modes are tried; only as `prescribed`, if so.

    `native` says that the server takes a JSON schema. An answer that is only preferred is asked for in JSON where that
    needs no prompt of its own, and is plain text elsewhere.
    """
    if answer is None:
        return ("text",)
    if prescribed is not None:
        return (prescribed,)
    profile = profile_of(model)
    supports_tools = bool(profile.get("supports_tools", True))
    supports_json = bool(profile.get("supports_json_object_output"))
    supports_schema = native or bool(profile.get("supports_json_schema_output"))
    if answer.preferred and not supports_tools and not supports_schema:
        return ("json",) if supports_json else ("text",)
    possible: list[OutputMode] = ["json", "prompt"] if supports_json else ["prompt"]
    if supports_tools:
        possible.insert(0, "tool")
    if supports_schema:
        possible.insert(0, "native")
    by_prompt: OutputMode = "json" if supports_json else "prompt"
    usual: OutputMode = "native" if native else _usual_mode(profile, by_prompt)
    first = usual if usual in possible else possible[0]
    return (first, *(one for one in possible if one != first))


def _usual_mode(profile: ModelProfile, by_prompt: OutputMode) -> OutputMode:
    default = profile.get("default_structured_output_mode")
    return "native" if default == "native" else by_prompt if default == "prompted" else "tool"


def output_mode_of(record: JsonValue, modes: tuple[OutputMode, ...]) -> OutputMode:
    """Return the mode in which a recorded response gives its answer, which today's model might not be asked in."""
    named = record.get(MODE) if isinstance(record, dict) else None
    return named if named in RECORDED_MODES else modes[0]


def _free_name(name: str, taken: Set[str]) -> str:
    """Return the name, or the first of  name_2, name_3, …  that is not taken."""
    names = chain((name,), (f"{name}_{number}" for number in count(2)))
    return next(one for one in names if one not in taken)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


LOOKBACK = 20
"""How many blocks before a cache point a provider looks for a prefix that it has."""


class CachePlan(NamedTuple):
    """What a turn asks its provider to cache: by settings, and by a point at the end of the shared messages."""

    settings: ModelSettings
    marks_shared: bool


NO_CACHE = CachePlan(ModelSettings(), False)


def plan_cache(
    profile: ModelProfile, mode: CacheMode, settings: ModelSettings, turn: Turn, name: str, *, has_tools: bool
) -> CachePlan:
    """Plan the caching of a turn of the member `name`; nothing if the provider needs no points or the user objects.

    Instructions and tools are cached always. The messages are cached if they will probably be sent again: with results
    of tools, or in a later turn of a member that has spoken before. If the turn ends with `Your turn, NAME.`, a later
    turn shares the messages before that line, else all of them.
    """
    if mode == "off" or "cache" in settings or not profile.get("supports_cache"):
        return NO_CACHE
    repeats = has_tools or any(message.name == name and message.role != "user" for message in turn.history)
    extends = has_tools or (repeats and turn.since is None)
    return CachePlan(
        ModelSettings(cache=True if extends else CacheConfig(messages=False)), repeats and turn.since is not None
    )


def add_cache_points(messages: list[ModelMessage]) -> None:
    """Add a cache point at the end of these messages, with which a later turn of the member begins.

    Its turn before had the point just before its last reply. If that is further back than a provider looks, the point
    is set there again.
    """
    end = len(messages)
    own = next((place for place in range(end - 1, -1, -1) if isinstance(messages[place], ModelResponse)), 0)
    for place in (_last_request(messages, end), _last_request(messages, own) if end - own > LOOKBACK else None):
        if place is not None:
            messages[place] = _with_point(messages[place])


def _last_request(messages: Sequence[ModelMessage], before: int) -> int | None:
    return next((place for place in range(before - 1, -1, -1) if isinstance(messages[place], ModelRequest)), None)


def _with_point(message: ModelMessage) -> ModelMessage:
    assert isinstance(message, ModelRequest)
    *before, last = message.parts
    if not isinstance(last, UserPromptPart):
        return message
    content = [last.content] if isinstance(last.content, str) else list(last.content)
    return replace(message, parts=[*before, replace(last, content=[*content, CachePoint()])])
