"""What AG-UI 1.0 sends: the input of a run, validated, and what it becomes for a team.

Names are in camel case, null is an absent field, and unknown fields are ignored. So are tools and state: a team calls
no tool of its client, and the state of an application is its own.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json

from teamwright.agents.attachments import Attachment
from teamwright.errors import TeamwrightError
from teamwright.server.a2a.wire import RunSettings, Wire
from teamwright.server.error_statuses import RefusedRequest
from teamwright.values.text.validation_messages import reasons_of
from teamwright.values.value import exact_json

VERSION = "1.0"
Json = dict[str, Any]
LONGEST_ID = 1000
MOST_MESSAGES, MOST_ENTRIES, MOST_REASONS = 10_000, 1000, 5
MEDIA = frozenset(("image", "audio", "video", "document"))
SPOKEN = frozenset(("user", "assistant", "system", "developer"))
"""The roles of messages that a team reads; results of tools, reasoning and activities are its own."""


class PartSource(Wire):
    """Where the bytes of a part are: in the request, at an address, or at a provider."""

    type: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None


class ContentPart(Wire):
    """A part of a message; of a kind that is unknown here, nothing is read."""

    type: str
    text: str | None = None
    source: PartSource | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.type == "text" and self.text is None:
            raise ValueError("a part of the type 'text' needs a text")
        if self.type in MEDIA and self.source is None:
            raise ValueError(f"a part of the type {self.type!r} needs a source")
        return self


class InputMessage(Wire):
    """A message of the conversation so far."""

    id: str
    role: Literal["user", "assistant", "system", "developer", "tool", "activity", "reasoning"]
    content: str | list[ContentPart] | dict[str, JsonValue] | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        match self.role:
            case "user" | "tool":
                fits = isinstance(self.content, str | list)
            case "assistant":
                fits = isinstance(self.content, str | None)
            case "activity":
                fits = isinstance(self.content, dict)
            case _:
                fits = isinstance(self.content, str)
        if not fits:
            raise ValueError(f"a message of the role {self.role!r} can't have such a content")
        return self

    @property
    def text(self) -> str:
        """The text of the message, without its other parts."""
        if isinstance(self.content, list):
            return "\n\n".join(one.text for one in self.content if one.type == "text" and one.text is not None)
        return self.content if isinstance(self.content, str) else ""

    def files(self) -> tuple[list[Attachment], list[str]]:
        """Return the files in the message, and why others are left out: the server fetches no address."""
        found: list[Attachment] = []
        left: list[str] = []
        for part in self.content if isinstance(self.content, list) else ():
            if part.type == "text":
                continue
            if part.source is None or part.source.type != "data":
                where = "its type is unknown here" if part.source is None else "it is an address: send its content"
                left.append(f"a part of the type {part.type[:50]!r} is left out: {where}")
                continue
            try:
                content = b64decode(part.source.value, validate=True)
                found.append(Attachment(content, media_type=part.source.mime_type or ""))
            except (ValueError, TeamwrightError) as error:
                left.append(f"a part of the type {part.type[:50]!r} is left out: {error}")
        return found, left


class ContextEntry(Wire):
    """What an application tells an agent about itself."""

    description: str
    value: str


class ResumeEntry(Wire):
    """The answer to an interrupt, or that there will be none."""

    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: Annotated[JsonValue, AfterValidator(exact_json)] = None


class CallSettings(RunSettings):
    """What a client may say about its run; with `store`, it goes on without its client."""

    store: bool = False


class ForwardedProps(Wire):
    """The properties that an application passes on, of which other parts are not ours."""

    teamwright: CallSettings | None = None


def _object(value: object) -> object:
    return cast("Json", value) if isinstance(value, dict) else {}


Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]


class RunAgentInput(Wire):
    """A request for a run, or for one to go on."""

    thread_id: Id
    run_id: Id
    parent_run_id: Annotated[str, Field(max_length=LONGEST_ID)] | None = None
    messages: list[InputMessage] = Field(max_length=MOST_MESSAGES)
    context: list[ContextEntry] | None = Field(default=None, max_length=MOST_ENTRIES)
    forwarded_props: Annotated[ForwardedProps, BeforeValidator(_object)] = Field(default_factory=ForwardedProps)
    resume: list[ResumeEntry] | None = Field(default=None, max_length=MOST_ENTRIES)

    @property
    def settings(self) -> CallSettings:
        return self.forwarded_props.teamwright or CallSettings()

    def grounded(self, text: str) -> str:
        """Return a task with what the application tells the agent about itself below it."""
        if not text.strip() or not self.context:
            return text
        lines = "\n".join(f"- {one.description}: {one.value}" for one in self.context)
        return f"{text}\n\nContext of the application:\n{lines}"


def read_input(body: bytes) -> tuple[RunAgentInput, list[Json]]:
    """Return the input of a run, and its messages as they were sent; raises `RefusedRequest`."""
    try:
        value = exact_json(from_json(body, allow_inf_nan=False))
    except ValueError as error:
        raise RefusedRequest(400, "not_json", f"the body is no JSON: {error}") from error
    try:
        asked = RunAgentInput.model_validate(value)
    except ValidationError as error:
        reasons = reasons_of(error, value, RunAgentInput)[:MOST_REASONS]
        raise RefusedRequest(422, "invalid", "; ".join(reasons)) from error
    return asked, cast("Json", value)["messages"]


def warning(text: str) -> Json:
    """Return what a client should know that is no failure."""
    return {"type": "CUSTOM", "name": "teamwright.warning", "value": {"message": text}}
