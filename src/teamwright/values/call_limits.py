"""What bounds one call of a member: time, size, and compaction of its conversation."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema

from teamwright.values.text.display import seconds_in
from teamwright.values.value import Value

REPLY_SECONDS = 600.0
"""The default timeout of a model's whole reply, in seconds."""
IDLE_SECONDS = 60.0
"""The default idle timeout of a stream that has begun, in seconds."""
MOST_REQUESTS = 50
"""The default limit of requests in one turn of a model; a turn that needs more fails."""
MAX_BYTES = 4_000_000
"""The default size cap of a reply or tool result, in bytes."""
LEAST_MAX_BYTES, MOST_MAX_BYTES = 1_000, 1_000_000_000
_REPLY = "the reply of "


def text_size(text: str) -> int:
    """The size of a text in UTF-8 bytes; a lone surrogate counts as three."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def fits(text: str, cap: int) -> bool:
    """Whether a text is within the cap; a short text is not encoded to find out."""
    size = len(text)
    return size * 4 <= cap or (size <= cap and text_size(text) <= cap)


def cut_text(text: str, cap: int) -> str:
    """Truncate a text to the cap, at a character boundary."""
    if fits(text, cap):
        return text
    return text[:cap].encode("utf-8", "surrogatepass")[:cap].decode("utf-8", "ignore")


def cut_warning(what: str, cap: int) -> str:
    """The warning that a text was truncated."""
    return f"{what} was cut at {cap} bytes; raise  max_bytes  to get more of it"


def reply_cut_warning(name: str, cap: int) -> str:
    """The warning that the reply of a member was truncated."""
    return cut_warning(f"{_REPLY}{name!r}", cap)


CutBy = Literal["max_tokens", "asker", "budget", "model"]
"""Who set the output limit that cut a reply: the agent or its model, the asker, the budget, or the provider itself."""


class OutputLimit(NamedTuple):
    """The output limit of a request, in tokens, and who set it."""

    by: CutBy
    tokens: int | None = None

    @property
    def remedy(self) -> str:
        """What to do to get a longer reply."""
        match self.by:
            case "max_tokens":
                return "raise  max_tokens"
            case "asker":
                return "raise the output limit of the ask"
            case "budget":
                return "raise the budget, or set  max_tokens"
            case "model":
                return "ask for less at once, or use another model"


def output_cut_warning(name: str, limit: OutputLimit) -> str:
    """The warning that the reply of a member reached an output limit; it says which."""
    at = {
        "max_tokens": f"{limit.tokens} tokens (max_tokens)",
        "asker": f"{limit.tokens} tokens, as its asker set",
        "budget": f"{limit.tokens} tokens, its share of the budget",
        "model": "the output limit of its model",
    }
    return f"{_REPLY}{name!r} was cut at {at[limit.by]}; {limit.remedy}"


def is_reply_cut_warning(warning: str) -> bool:
    """Whether a warning says that a reply was truncated, and not the result of a tool."""
    return warning.startswith(_REPLY) and "max_bytes" in warning


def _seconds(value: object) -> object:
    """Convert a duration such as `6h` to seconds; other values are left to the validation of the field."""
    if not isinstance(value, str):
        return value
    if (seconds := seconds_in(value)) is None:
        raise ValueError("it is seconds, or a number and a unit, such as 90s, 30m, 6h or 2d")
    return seconds


Duration = Annotated[
    float,
    BeforeValidator(_seconds),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\d+(\.\d+)?\s*[smhdw]$"}]}
    ),
]
"""Seconds, which may be written with a unit."""


class Compact(Value):
    """When a conversation is compacted, and how much of it stays."""

    threshold: float = Field(
        default=0.7, gt=0, lt=1, description="the part of the model's context window that a prompt may fill"
    )
    context: int | None = Field(
        default=None, ge=1, description="tokens of that window; by default the model's `context`, else as published"
    )
    keep: int = Field(default=8, ge=1, description="messages at the end of the conversation that stay as they are")
