"""One call to the outside world: its description, the input of an attempt, and its result.

Whether a failed one is tried again is decided in `values/retries.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

from msgspec import Struct, structs
from pydantic import JsonValue

from teamwright.values.call_limits import MAX_BYTES
from teamwright.values.events.agent import (
    AgentCalled,
    AgentReturned,
    EffectKind,
    McpMethod,
    PartialUsage,
    Tally,
    ValueForm,
)
from teamwright.values.events.event import Fact, OutputForm
from teamwright.values.limits import Limits, Pace, Spend
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.models import TokenizerName
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import digest
from teamwright.values.usage_and_prices import NOTHING, Rate, Usage
from teamwright.values.value import misfit_of

if TYPE_CHECKING:
    from teamwright.agents.attachments import Attachment


EFFECT_KINDS, MCP_METHODS = get_args(EffectKind), get_args(McpMethod)


class ReplyPart(NamedTuple):
    """A part of a response that is streamed apart from the others: the reply, thinking, or the arguments of a call.

    `output` says that the part is the structured output of the member, as `Delta.output` does.
    """

    kind: Literal["text", "thinking", "arguments"] = "text"
    tool: str = ""
    call: int = 0
    output: OutputForm | None = None


REPLY, THINKING = ReplyPart(), ReplyPart("thinking")


class Publish(Protocol):
    """Streams a piece of a response to observers."""

    def __call__(self, text: str, part: ReplyPart = REPLY, /) -> None:
        """Publish the text as the next piece of this part."""
        ...


def _ignore_delta(text: str, part: ReplyPart = REPLY, /) -> None:
    """Publish nothing."""


def _ignore_fact(fact: Fact) -> None:
    """Record nothing: there is no run."""


class SentMessage(Struct, frozen=True):
    """A message of a request. `tool` and `call` identify a tool call of the model, or the result of one."""

    role: Literal["user", "assistant", "thinking", "tool_call", "tool_result"]
    content: JsonValue
    tool: str = ""
    call: str = ""


class OfferedTool(Struct, frozen=True):
    """A tool that a request offers to the model."""

    name: str
    description: str
    parameters: JsonValue


class SentRequest(Struct, frozen=True):
    """What one request to a model consists of; `modes` are the ways in which its answer may come."""

    messages: tuple[SentMessage, ...]
    instructions: str = ""
    tools: tuple[OfferedTool, ...] = ()
    settings: JsonValue = None
    output_schema: JsonValue = None
    modes: tuple[str, ...] = ()


class Effect(Struct, frozen=True):
    """One call to the outside world, described so that it can be recorded, budgeted, retried and matched on a replay.

    `request` is a digest of what is sent; `prompt_bytes` and `messages` size the reservation of a model request, and
    `media_tokens` is an upper bound of what is no text: its images and files, and reasoning that is sent back. `texts`
    are all texts of the prompt, which are counted if a limit on tokens or money applies; `prompt_tokens` is their
    number of tokens if the caller knows it, and `tokenizer` says how to count them, by name or by bytes, if the model
    declares it. Calls that name the same `model` share one queue in the engine; `pace` is the rate limit of that model.
    `rate` returns the highest price of tokens for a prompt of a given size; it is called only if a limit on money
    applies. `note` is the number of tokens that the prompt grows by if the call states that its output cap was cut.

    `in_doubt` says what happens to a call that began and whose end was not recorded; without it the call is made again.

    `default_timeout` applies if neither `timeout` nor a limit on each message is set. A text result is cut at
    `max_bytes`; any other JSON that is larger fails the call. `arguments` of a tool call are recorded for readers,
    and so is the `method` of a request to an MCP server that calls no tool. `describe` returns what the call sends, for
    readers; it is called only to show the prompt of a turn.

    `cancel_run` says that the call starts a run, which goes on if the driver of this one stops: the call reserves a
    share of what remains of the budget for it, and an attempt in doubt attaches to the same run. It is called with the
    attempt if a recorded decision stops the call.

    `ceiling` says that the call makes requests of its own, which nothing here counts: as much is reserved before it,
    and of what the ceiling does not name half of a share of what remains. What the call reports is charged after
    it, and all that was reserved where it reports nothing.

    A call `by_content` has a key that follows from what it sends: calls of one turn that were in flight together may
    come in any order, and any other order is another program.
    """

    kind: EffectKind
    name: str
    request: str
    call: Callable[[Attempt], Awaitable[Returned]]
    prompt_bytes: int = 0
    messages: int = 0
    max_output: int | None = None
    retry: RetryPolicy | None = None
    timeout: float | None = None
    model: str = ""
    pace: Pace | None = None
    rate: Callable[[int], Rate | None] | None = None
    note: int = 0
    default_timeout: float | None = None
    max_bytes: int = MAX_BYTES
    arguments: JsonValue = None
    media_tokens: int = 0
    in_doubt: InDoubtPolicy | None = None
    method: McpMethod | None = None
    texts: Sequence[str] = ()
    prompt_tokens: int | None = None
    tokenizer: TokenizerName | float | None = None
    describe: Callable[[], SentRequest] | None = None
    cancel_run: Callable[[Attempt], None] | None = None
    ceiling: Spend | None = None
    by_content: bool = False

    def misfit(self) -> str | None:
        """Return which field can't be recorded; `None` if all can, as constructing an effect does not check."""
        if (
            self.kind in EFFECT_KINDS
            and self.name.__class__ is self.request.__class__ is str
            and (self.max_output is None or self.max_output.__class__ is int)
            and (self.method is None or self.method in MCP_METHODS)
        ):
            return None
        return misfit_of(
            AgentCalled(
                effect=self.kind, name=self.name, request=self.request, max_output=self.max_output, method=self.method
            )
        )

    @property
    def pace_bytes(self) -> int:
        """The size of the prompt for the rate limit of a model, which counts four bytes as one token."""
        return self.prompt_bytes + 4 * self.media_tokens


class InDoubtPolicy(Struct, frozen=True):
    """What happens to a call if it is unknown whether it was made, because the process died or the call failed.

    `check` asks the outside world: it returns the result of the call, or `None` if the call was not made. Without it,
    the call is made again if `repeat`, and fails otherwise. If `action` is set, no other call of this run or its forks
    makes the same action: it gets the recorded result. `key` identifies the call if several effects belong to it.
    """

    repeat: bool = True
    check: Callable[[Attempt], Awaitable[Returned | None]] | None = None
    action: str = ""
    key: str = ""


class Attempt(Struct, frozen=True):
    """The engine's input to one attempt of a call.

    `used(mark)` counts the recorded results of this member's calls that carry the mark. `delta` streams a piece of the
    reply, or of another part, to observers; `is_followed` says whether there are any. `cut` says that `max_output` was
    reduced because the budget is low. `emit` records a fact of the call, such as a log line. `limits` are those of a
    run that the call starts: what is reserved for it.
    """

    run_id: str
    number: int
    key: str
    max_output: int | None
    used: Callable[[str], int]
    delta: Publish
    cut: bool = False
    is_followed: bool = True
    emit: Callable[[Fact], None] = _ignore_fact
    limits: Limits | None = None

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of one effect, and unique to it."""
        return digest(self.run_id, self.key)

    def unfollowed(self) -> Attempt:
        """Return the attempt without observers, for a reply that must not be shown before it is checked."""
        return structs.replace(self, delta=_ignore_delta, is_followed=False)


class Returned(Struct, frozen=True):
    """The result of a call: a JSON value and its usage.

    `form` says whether the value is a whole reply or data, if the call does not imply it. It is recorded beside the
    value, since nothing inside a value may decide how the value is read.
    `truncated` says that the value was cut, and `capped` at how many bytes if the size cap was the reason.
    A call returns the `files` of its result; the engine stores them and replaces them by `artifacts`.
    `partial_usage` says why `usage` is less than what was used: such a call stays charged in full. `tally` is what a
    run that the call started has charged to its budget.
    """

    value: JsonValue
    usage: Usage = NOTHING
    mark: str | None = None
    truncated: bool = False
    form: ValueForm | None = None
    capped: int | None = None
    files: tuple[Attachment, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    partial_usage: PartialUsage | None = None
    tally: Tally | None = None

    def misfit(self) -> str | None:
        """Return which field besides the value can't be recorded; `None` if all can, as constructing checks nothing."""
        if (
            self.usage is NOTHING
            and self.mark is self.form is self.capped is self.partial_usage is self.tally is None
            and self.truncated.__class__ is bool
            and not self.artifacts
        ):
            return None
        return misfit_of(
            AgentReturned(
                body="",
                usage=self.usage,
                mark=self.mark,
                truncated=self.truncated,
                form=self.form,
                capped=self.capped,
                artifacts=self.artifacts,
                partial_usage=self.partial_usage,
                tally=self.tally,
            )
        )
