"""What A2A 1.0 sends: the requests of clients, validated, and the errors of the protocol in the form of each binding.

The models are pydantic's and not those of `a2a-sdk`, which are protobuf: the server has pydantic already, so that this
door costs it no import. As in ProtoJSON, names are in camel case or as in the protocol's definition, null is an absent
field, and unknown fields are ignored.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticUseDefault, from_json

from teamwright.errors import (
    BudgetUnavailable,
    ConversationBusy,
    InterventionRefused,
    NotResumable,
    RunNotFound,
    TeamwrightError,
)
from teamwright.server.error_statuses import RefusedRequest, refusal_of
from teamwright.values.limits import Limits
from teamwright.values.text.secrets import mask_text
from teamwright.values.text.validation_messages import reasons_of
from teamwright.values.value import exact_json

VERSION = "1.0"
VERSION_HEADER = "A2A-Version"
Json = dict[str, Any]
INT32 = 2**31 - 1
STANDARD_BASE64 = str.maketrans("-_", "+/")
MOST_PARTS = 200
MOST_REASONS = 5
MOST_TASKS = 100
"""Tasks of one page of a list."""
TaskState = Literal[
    "TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
]  # fmt: skip


class ErrorKind(NamedTuple):
    """An error of the protocol: its code in JSON-RPC, its status in HTTP, its status of RPCs, and its reason."""

    code: int
    status: int
    rpc_status: str
    reason: str


TASK_NOT_FOUND = ErrorKind(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND")
NOT_CANCELABLE = ErrorKind(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
UNSUPPORTED_OPERATION = ErrorKind(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
CONTENT_TYPE = ErrorKind(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")
NO_JSON_TYPE = CONTENT_TYPE._replace(status=415)
"""Of a body that says it is no JSON, for which HTTP has a status of its own."""
VERSION_NOT_SUPPORTED = ErrorKind(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED")
INVALID_PARAMS = ErrorKind(-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS")
INVALID_REQUEST = ErrorKind(-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
METHOD_NOT_FOUND = ErrorKind(-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND")
INTERNAL = ErrorKind(-32603, 500, "INTERNAL", "INTERNAL_ERROR")
NOT_JSON = ErrorKind(-32700, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
OF_PROTOCOL = range(-32099, -32000)
"""The codes of errors that A2A adds to those of JSON-RPC."""


class A2AError(Exception):
    """Why a request is refused, in the words of this server and with the error of the protocol."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        self.kind = kind
        super().__init__(mask_text(message))

    def _details(self) -> list[Json]:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.kind.reason}
        return [{**info, "domain": "a2a-protocol.org"}]

    def rpc_error(self) -> Json:
        """The error object of a JSON-RPC response."""
        found: Json = {"code": self.kind.code, "message": str(self)}
        return {**found, "data": self._details()} if self.kind.code in OF_PROTOCOL else found

    def http_error(self) -> Json:
        """The body of an HTTP response, in the form of AIP-193."""
        kind = self.kind
        details = self._details()
        return {"error": {"code": kind.status, "status": kind.rpc_status, "message": str(self), "details": details}}


def error_of(error: A2AError | TeamwrightError | RefusedRequest) -> A2AError:
    """Return an error as one of the protocol; one that says nothing about the request is internal."""
    match error:
        case A2AError():
            return error
        case RunNotFound():
            return A2AError(TASK_NOT_FOUND, str(error))
        case NotResumable() | InterventionRefused() | ConversationBusy() | BudgetUnavailable():
            return A2AError(UNSUPPORTED_OPERATION, str(error))
        case _:
            refusal = error if isinstance(error, RefusedRequest) else refusal_of(error)
            busy = refusal.code in {"conversation_busy", "budget"}
            fault = UNSUPPORTED_OPERATION if busy else INVALID_PARAMS
            return A2AError(fault if refusal.status < 500 else INTERNAL, str(refusal))


def _absent(value: object) -> object:
    """Let null be an absent field, as in ProtoJSON."""
    if value is None:
        raise PydanticUseDefault
    return value


Id = Annotated[str, BeforeValidator(_absent), Field(max_length=1000)]
"""An id, empty where it is absent."""


def _decoded(value: object) -> object:
    """Decode Base64 of either alphabet, with or without padding; a character of neither makes it invalid."""
    if not isinstance(value, str):
        return value
    standard = value.translate(STANDARD_BASE64).rstrip("=")
    return b64decode(standard + "=" * (-len(standard) % 4), validate=True)


Raw = Annotated[bytes, BeforeValidator(_decoded)]


class Wire(BaseModel):
    """A message of the protocol."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", defer_build=True)


class MessagePart(Wire):
    """A part of a message: a text, the content of a file, its address, or data."""

    text: str | None = None
    raw: Raw | None = None
    url: str | None = None
    data: JsonValue = None
    filename: Annotated[Id, Field(max_length=255)] = ""
    media_type: Id = ""

    @property
    def contents(self) -> set[str]:
        """The kinds of content that are given; there has to be one."""
        return {name for name in ("text", "raw", "url", "data") if name in self.model_fields_set}


class UserMessage(Wire):
    """A message of a client: a new task, or with the id of a task the answer to its question."""

    message_id: str = Field(min_length=1, max_length=1000)
    context_id: Id = ""
    task_id: Id = ""
    role: Literal["ROLE_USER"]
    parts: list[MessagePart] = Field(min_length=1, max_length=MOST_PARTS)


class Authentication(Wire):
    """What a notification shows to its receiver."""

    scheme: str = Field(pattern=r"^[!-~]{1,64}$")
    credentials: Annotated[str, BeforeValidator(_absent), Field(pattern=r"^[ -~]{0,4000}$")] = ""


class PushConfig(Wire):
    """Where the updates of a task are sent."""

    id: Annotated[Id, Field(max_length=200)] = ""
    task_id: Id = ""
    url: str = Field(min_length=1, max_length=2000)
    token: Annotated[str, BeforeValidator(_absent), Field(pattern=r"^[ -~]{0,4000}$")] = ""
    authentication: Authentication | None = None

    def shown(self) -> Json:
        """The configuration as clients read it: without the credentials, which only its receiver needs."""
        found = self.model_dump(by_alias=True, exclude_defaults=True)
        if self.authentication is not None:
            found["authentication"] = {"scheme": self.authentication.scheme}
        return found


class SendConfiguration(Wire):
    """How a client wants its answer."""

    history_length: int | None = Field(default=None, ge=0, le=INT32)
    return_immediately: Annotated[bool, BeforeValidator(_absent)] = False
    task_push_notification_config: PushConfig | None = None


class RunSettings(Wire):
    """What a client may say about the run of its message, under `teamwright` in the metadata of its request."""

    model_config = ConfigDict(extra="forbid")
    limits: Limits | None = None
    budget: str | None = Field(default=None, max_length=64)


class SendMetadata(Wire):
    """The metadata of a request, of which other parts are not ours."""

    teamwright: RunSettings | None = None


class SendMessage(Wire):
    """A message and how its sender wants the answer."""

    message: UserMessage
    configuration: Annotated[SendConfiguration, BeforeValidator(_absent)] = Field(default_factory=SendConfiguration)
    metadata: Annotated[SendMetadata, BeforeValidator(_absent)] = Field(default_factory=SendMetadata)


class NamedTask(Wire):
    """A request about one task."""

    id: str = Field(min_length=1, max_length=1000)
    history_length: int | None = Field(default=None, ge=0, le=INT32)


class ListTasks(Wire):
    """Which tasks a client lists."""

    context_id: Id = ""
    status: Annotated[TaskState, BeforeValidator(_absent)] = "TASK_STATE_UNSPECIFIED"
    page_size: int | None = Field(default=None, ge=1, le=MOST_TASKS)
    page_token: Id = ""
    history_length: int | None = Field(default=None, ge=0, le=INT32)
    status_timestamp_after: AwareDatetime | None = None
    include_artifacts: Annotated[bool, BeforeValidator(_absent)] = False


class NamedConfig(Wire):
    """A request about a configuration of push notifications; without `id` about all of a task."""

    task_id: str = Field(min_length=1, max_length=1000)
    id: Id = ""


class NoFields(Wire):
    """A request without fields."""


class RpcRequest(BaseModel):
    """The envelope of a JSON-RPC request."""

    model_config = ConfigDict(extra="ignore", strict=True, defer_build=True)
    jsonrpc: Literal["2.0"]
    id: str | int | None = None
    method: str = Field(max_length=200)
    params: dict[str, JsonValue] | None = None

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Read the body of a request; raises `A2AError`."""
        return validated(cls, read_json(body), INVALID_REQUEST)


W = TypeVar("W", bound=BaseModel)


def read_json(body: bytes) -> JsonValue:
    """Read the JSON of a body; raises `A2AError` for what a journal could not record, such as NaN."""
    try:
        return exact_json(from_json(body, allow_inf_nan=False))
    except ValueError as error:
        raise A2AError(NOT_JSON, f"the body is no JSON: {error}") from error


def validated(form: type[W], value: object, kind: ErrorKind = INVALID_PARAMS) -> W:
    """Return a request of a client; raises `A2AError` with what is wrong in it."""
    try:
        return form.model_validate(value)
    except ValidationError as error:
        raise A2AError(kind, "; ".join(reasons_of(error, value, form)[:MOST_REASONS])) from error


def check_version(header: str | None) -> None:
    """Raise `A2AError` unless a request asks for this version; without one, it asks for 0.3."""
    given = (header or "").strip() or "0.3"
    if ".".join(given.split(".")[:2]) != VERSION:
        raise A2AError(
            VERSION_NOT_SUPPORTED,
            f"this agent speaks A2A {VERSION}, not {given[:20]!r}; send {VERSION_HEADER}: {VERSION}",
        )
