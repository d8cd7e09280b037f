"""What clients of the Responses API send: a request, its messages and files, and the answers to questions of a run.

Fields that only a model has, such as `temperature` and `tools`, are ignored, as in chat completions. What would change
the answer and can't be done is refused: what a request means is never guessed.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self, cast
from urllib.parse import unquote_to_bytes

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    model_validator,
)

from teamwright.agents.attachments import Attachment
from teamwright.server.error_statuses import RefusedRequest
from teamwright.values.value import exact_json

MOST_ITEMS = 10_000
LONGEST_ID = 200
LONGEST_CONTENT = 22 * 1024 * 1024
"""Characters of one file in base64."""
ANSWER = "teamwright:answer"
"""The type of an input item that answers one of several questions."""
PlainJson = Annotated[JsonValue, AfterValidator(exact_json)]
FORMAT = "text.format"
DESCRIBING, NAMING = ("title", "description", "$schema"), ("properties", "$defs", "definitions")
"""Keywords of a schema that change no meaning, and those whose keys are names."""


class RequestPart(BaseModel):
    """A part of a request; null is an absent field, and what is not known here is ignored."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        fields = cast("dict[object, object]", value)
        return {name: field for name, field in fields.items() if field is not None}


class InputText(RequestPart):
    """A text of a message."""

    type: Literal["input_text", "output_text", "text"]
    text: str


class InputRefusal(RequestPart):
    """A refusal in an earlier reply."""

    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        return self.refusal


class InputImage(RequestPart):
    """An image, as a data URL."""

    type: Literal["input_image"]
    image_url: str = Field(default="", max_length=LONGEST_CONTENT)
    file_id: str = ""

    def attachment(self) -> Attachment:
        """The image; raises `RefusedRequest` for an address, which this server does not fetch."""
        return _attachment(self.image_url, "", "image_url", encoded=False)


class InputFile(RequestPart):
    """A file: its content in base64 or as a data URL, and its name."""

    type: Literal["input_file"]
    filename: str = Field(default="", max_length=255)
    file_data: str = Field(default="", max_length=LONGEST_CONTENT)
    file_url: str = ""
    file_id: str = ""

    def attachment(self) -> Attachment:
        """The file; raises `RefusedRequest` for an address or an id, which this server does not have."""
        return _attachment(self.file_data, self.filename, "file_data", encoded=True)


ContentPart = Annotated[InputText | InputRefusal | InputImage | InputFile, Field(discriminator="type")]


class MessageItem(RequestPart):
    """A message of a conversation. Clients send replies back as they got them, so that these have more fields."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[ContentPart]
    member: str = Field(default="", max_length=64, description="who said it, as in a reply of this server")

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n".join(one.text for one in self.content if isinstance(one, InputText | InputRefusal))

    def files(self) -> Iterator[Attachment]:
        """Yield the files of the message; raises what is wrong with one."""
        if not isinstance(self.content, str):
            for one in self.content:
                if isinstance(one, InputImage | InputFile):
                    yield one.attachment()


class AnswerItem(RequestPart):
    """The answer to a question of the previous response; `key` names the question, where there are several."""

    type: Literal["teamwright:answer"]
    key: str = Field(default="", max_length=1000)
    text: str = Field(max_length=100_000)
    data: PlainJson = None


def _item_type(item: object) -> object:
    found = cast("dict[str, object]", item).get("type") or "message" if isinstance(item, dict) else "message"
    if found not in ("message", ANSWER):
        raise ValueError(f"this server reads no {str(found)[:60]!r}: its teams call no functions of a client")
    return found


def _item_tag(item: object) -> str:
    return str(cast("dict[str, object]", item).get("type") or "message") if isinstance(item, dict) else "message"


def _checked_item(item: object) -> object:
    _item_type(item)
    return item


InputItem = Annotated[
    Annotated[MessageItem, Tag("message")] | Annotated[AnswerItem, Tag(ANSWER)],
    Discriminator(_item_tag),
    BeforeValidator(_checked_item),
]


class AnswerFormat(RequestPart):
    """The form of the answer: text, or JSON where the team has an output schema."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str = Field(default="", max_length=64)
    schema_: Annotated[dict[str, JsonValue], AfterValidator(exact_json)] = Field(
        default_factory=dict[str, JsonValue], alias="schema"
    )


class AnswerText(RequestPart):
    """How the answer is written."""

    format: AnswerFormat = Field(default_factory=AnswerFormat)


class NamedConversation(RequestPart):
    """A conversation by its name."""

    id: str = Field(max_length=64)


def _conversation(value: object) -> object:
    return {"id": value} if isinstance(value, str) else value


class NewResponse(RequestPart):
    """A request for a response."""

    model: str = Field(max_length=LONGEST_ID, description="the id of a team")
    input: Annotated[str, Field(max_length=1_100_000)] | Annotated[list[InputItem], Field(max_length=MOST_ITEMS)]
    instructions: str = Field(default="", max_length=1_000_000)
    previous_response_id: str = Field(
        default="", max_length=LONGEST_ID, description="a response that is continued, or whose questions are answered"
    )
    conversation: Annotated[NamedConversation | None, BeforeValidator(_conversation)] = Field(
        default=None, description="a conversation of the server"
    )
    text: AnswerText = Field(default_factory=AnswerText)
    stream: bool = False
    background: bool = Field(default=False, description="answer at once; the run goes on")
    store: bool | None = Field(default=None, description="true: the run goes on when its client leaves")
    metadata: Annotated[dict[str, Annotated[str, Field(max_length=512)]], Field(max_length=16)] = Field(
        default_factory=dict[str, str]
    )

    @model_validator(mode="after")
    def _continues_one(self) -> Self:
        if self.previous_response_id and self.conversation is not None:
            raise ValueError("give a previous response or a conversation, not both")
        return self

    @property
    def is_kept(self) -> bool:
        """Whether the run goes on without its client."""
        return bool(self.store or self.background)

    @property
    def messages(self) -> list[MessageItem]:
        """The messages; raises `RefusedRequest` for an answer that nothing has asked for, or without a message."""
        items = self.items
        if any(isinstance(one, AnswerItem) for one in items):
            raise refused("input", f"an item {ANSWER!r} answers a question of a previous response, and none waits")
        found = [one for one in items if isinstance(one, MessageItem)]
        if not found:
            raise refused("input", "the input has no message")
        return found

    @property
    def items(self) -> Sequence[MessageItem | AnswerItem]:
        """The input as items."""
        return [MessageItem(role="user", content=self.input)] if isinstance(self.input, str) else self.input

    def echo(self) -> dict[str, Any]:
        """What a response repeats of its request."""
        found: dict[str, Any] = {"model": self.model, "metadata": self.metadata, "background": self.background}
        if self.instructions:
            found["instructions"] = self.instructions
        if self.text.format.type != "text":
            given = self.text.format
            described = {"name": given.name, "description": None, "schema": given.schema_, "strict": True}
            found["text"] = {"format": {"type": given.type, **(described if given.type == "json_schema" else {})}}
        return found


def refused(field: str, text: str, *, code: str = "invalid") -> RefusedRequest:
    """Return the refusal of a field of a request."""
    return RefusedRequest(400, code, f"{field}: {text}", {field: text})


def check_format(asked: AnswerFormat, name: str, schema: dict[str, Any] | None) -> None:
    """Raise `RefusedRequest` for a form of the answer that a team does not have: it obeys its own schema alone."""
    if asked.type == "text":
        return
    if schema is None:
        raise refused(FORMAT, f"the team {name!r} has no output schema, and answers in text; leave the format out")
    if asked.type == "json_schema" and _shape(asked.schema_) != _shape(schema):
        raise refused(
            FORMAT, f"the team {name!r} answers by the output schema that it declares, and this is another one"
        )


def _shape(schema: object) -> object:
    """A schema without what does not change its meaning, and without what clients add to be strict."""
    match schema:
        case dict():
            kept = {**cast("dict[str, object]", schema)}
            for name in DESCRIBING:
                kept.pop(name, None)
            if kept.get("additionalProperties") is False:
                del kept["additionalProperties"]
            if isinstance(names := kept.get("required"), list):
                kept["required"] = sorted(map(str, cast("list[object]", names)))
            named = {name: _shapes(kept.pop(name)) for name in NAMING if name in kept}
            return {name: _shape(one) for name, one in kept.items()} | named
        case list():
            return [_shape(one) for one in cast("list[object]", schema)]
        case _:
            return schema


def _shapes(schemas: object) -> object:
    """The shapes of schemas by name, where a name may be that of a keyword."""
    if not isinstance(schemas, dict):
        return schemas
    return {name: _shape(one) for name, one in cast("dict[str, object]", schemas).items()}


def _attachment(given: str, name: str, field: str, *, encoded: bool) -> Attachment:
    try:
        if given.startswith("data:"):
            head, comma, content = given.removeprefix("data:").partition(",")
            kind, *parameters = head.split(";")
            decoded = b64decode(content, validate=True) if "base64" in parameters else unquote_to_bytes(content)
            if not comma:
                raise ValueError("a data URL has a comma before its content")
            return Attachment(decoded, name, kind)
        if encoded and given:
            return Attachment(b64decode(given, validate=True), name)
    except ValueError as error:
        raise refused(field, f"the file {name!r} is not in base64: {error}") from error
    raise refused(field, "this server fetches no addresses and stores no files: send the content, as a data URL")
