"""A member's turn: its input, its reply or failure, and the verdict on its work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypeVar, get_args

from msgspec import Meta, Struct
from pydantic_core import to_json
from typing_extensions import override

from teamwright.errors import InvalidOutput, UsageError
from teamwright.values.call_limits import Compact
from teamwright.values.limits import Amounts
from teamwright.values.run_keys import root_key
from teamwright.values.text.display import cut
from teamwright.values.turns.artifacts import POINTER, Artifact, TreeState
from teamwright.values.turns.messages import (
    EMPTY,
    Envelope,
    EnvelopeLimits,
    EnvelopeMessage,
    EnvelopeNote,
    History,
    Message,
    digest,
    quote_headers,
    transcript,
)
from teamwright.values.typed_data import read_as
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import CheckedRecord, JsonValue, Record, misfit_of

Purpose = Literal["work", "coordinate", "judge"]
PURPOSES = get_args(Purpose)
Signal = Literal["terminate"]
Tier = Literal["primary", "economy", "stronger"]

AT_ITS_LIMIT = "stopped at its limit of "
"""Prefix of the warning that a team stopped at a limit on its turns."""

T = TypeVar("T")


class HandoffTarget(NamedTuple):
    """A member that another may hand its turn to."""

    name: str
    description: str = ""


OUTBOX = "requests/"
"""The beginning of the names of requests in the workspace, which the engine alone writes; then the member."""
RequestKind = Literal["message", "assist", "hand_over"]
TalkKind = Literal["none", "message", "ask"]


class MemberRequest(Record, frozen=True):
    """What a member wants of others: it tells all something, asks one for help, or hands its work over to one.

    `to` is empty for a message to all; `original` is the artifact with its whole text.
    """

    type: RequestKind
    text: str
    to: str = ""
    original: str = ""


def is_heard(kind: RequestKind, talk: TalkKind) -> bool:
    """Return whether a turn with this `talk` takes such a request."""
    return talk == "ask" or (talk == "message" and kind == "message")


LONGEST_ARGUMENTS, LONGEST_RESULT, MOST_TOOL_USES = 1000, 4000, 50
"""How much is kept of the tool calls of a turn that is reviewed, in characters and calls."""


class ToolUse(Record, frozen=True):
    """A tool call of a turn and its result as text, for those who judge or revise the reply; long texts are cut."""

    tool: str
    arguments: str
    result: str
    failed: bool = False

    @classmethod
    def of(cls, tool: str, arguments: JsonValue, result: JsonValue, *, failed: bool = False) -> ToolUse:
        """Return a call; the engine cuts its texts when it has masked secrets in them."""
        return cls(tool=tool, arguments=_json_text(arguments), result=_json_text(result), failed=failed)

    @property
    def bounded(self) -> ToolUse:
        """The call with its texts cut."""
        return self.changed(arguments=cut(self.arguments, LONGEST_ARGUMENTS), result=cut(self.result, LONGEST_RESULT))


def _json_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


class EvaluatedWork(NamedTuple):
    """What an evaluator may know of a piece of work besides its text: who did it, its data, and the files around it.

    `files` are those that went with the task, then those of the reply. `tool_uses` are data, as the work is.
    """

    member: str
    data: JsonValue = None
    files: tuple[Artifact, ...] = ()
    tool_uses: tuple[ToolUse, ...] = ()


NO_WORK = EvaluatedWork("")


class Turn(Struct, frozen=True, dict=True):
    """The input of a member: a task, and the history of the conversation, which is immutable."""

    task: str
    history: History = EMPTY
    number: int = 1
    purpose: Purpose = "work"
    tools: tuple[str, ...] | None = None
    max_output: int | None = None
    output_schema: Mapping[str, JsonValue] | None = None
    """The preferred schema of the reply's data. The agent's own schema takes precedence, and a reply that does not fit
    is no failure: it has no data."""
    left: Amounts | None = None
    """What remains of the budget when the turn begins, where there is one. The engine sets it."""
    tier: Tier = "primary"
    """Which model answers, for a member that has a cheaper one. A strategy may ask for it, and the engine sets it where
    a budget is tight."""
    envelope_limits: EnvelopeLimits | None = None
    """The limits of the envelope, where other members get an envelope in place of the reply."""
    quotes_task: bool = True
    """Whether the task is quoted, so that no line of it looks like the header of a message; no where it contains a
    quoted transcript itself."""
    since: int | None = None
    """Where the messages of this run begin in the history, if the task is the team's own. A model gets the task there,
    so that its prompts begin alike on every turn. No part of the digest."""
    aside: bool = False
    """Whether the reply is only for the agent that asks, as a tool's result, and no message of the conversation. No
    part of the digest."""
    closing: bool = False
    """Whether the team closes with this ask, so that what it kept back of its budget is for it. No part of the digest.
    """
    compact: Compact | None = None
    """When the team's conversations are compacted, for a member that does not set it. The engine sets it."""
    attachments: tuple[Artifact, ...] = ()
    """The files that go with the task; an agent reads one with `ctx.workspace.open`."""
    may_retry: bool = True
    """Whether failed calls are retried as the member's policy says. A strategy that tries again itself says no where
    that policy is used up, so that attempts add up and don't multiply. No part of the digest."""
    keeps_tool_uses: bool = False
    """Whether the reply has the tool calls of the turn, since it is reviewed. No part of the digest."""
    work: EvaluatedWork | None = None
    """The work that an evaluator is asked about; its text is the task. No part of the digest."""
    handoffs: tuple[HandoffTarget, ...] = ()
    """The members that this one may hand its turn to, with `Reply.transfer_to`. No part of the digest."""
    talk: TalkKind = "none"
    """What the asker reads of `Reply.requests`: nothing, messages, or also questions and handovers. The engine refuses
    the rest to the member that makes them. No part of the digest."""
    tree: TreeState | None = None
    """The files that the member works on, where its team has a workspace of files. The engine sets it."""
    merges: bool = True
    """Whether the changes of the turn go to the team's branch when it ends; no where a strategy reviews them first, and
    calls `Context.merge` then. No part of the digest."""

    @property
    def digest(self) -> str:
        """The content hash by which a replay matches the turn; it excludes the turn's number."""
        kept: dict[str, str] = self.__dict__  # pyright: ignore[reportAssignmentType] - a struct with `dict=True`
        known = kept.get("digest")
        if known is None:  # cached by hand: a cached_property takes a lock, which costs more than the hash
            tools = "*" if self.tools is None else ",".join(self.tools)
            head = f"{self.history.digest} {self.purpose} {self.max_output} {len(tools)} {tools}"
            if self.output_schema is not None:
                head = digest(head, to_json(self.output_schema).decode())
            if self.attachments:
                head = digest(head, *(part for one in self.attachments for part in one.identity))
            if self.tree is not None:
                head = digest(head, self.tree.identity)
            known = kept["digest"] = digest(f"{head} {self.task}")
        return known

    @property
    def is_said(self) -> bool:
        """Whether the reply is a message of the conversation in which the member is asked."""
        return self.purpose == "work" and not self.aside

    @property
    def prompt(self) -> str:
        """The whole input as one text: the history under the names of its authors, then the task.

        Lines that only look like a header are quoted, as `\\# name:`.
        """
        if not self.history:
            return self.task
        return f"{transcript(self.history)}\n\n{self.quoted_task}"

    @property
    def speakers(self) -> frozenset[str]:
        """The names of the authors in the history."""
        return frozenset(message.name for message in self.history)

    @property
    def quoted_task(self) -> str:
        """The task with lines quoted that look like the header of a message."""
        return quote_headers(self.task, self.speakers) if self.history and self.quotes_task else self.task

    @property
    def envelopes(self) -> tuple[Envelope, ...]:
        """The envelopes in the history, in order."""
        return tuple(message.envelope for message in self.history if isinstance(message, EnvelopeMessage))

    @property
    def has_pointers(self) -> bool:
        """Whether the input contains a pointer to an artifact that the member can open."""
        return POINTER in self.task or any(
            isinstance(message, EnvelopeMessage) and POINTER in message.content for message in reversed(self.history)
        )


def check_turn(turn: Turn, member: str) -> None:
    """Raise `UsageError` if a turn can't be recorded. Called for every ask, so only what is recorded is looked at."""
    if turn.__class__ is not Turn:
        raise UsageError(f"{member!r} is asked with a Turn, not with {turn!r:.200}; write  Turn(task)")
    if turn.task.__class__ is not str:
        raise UsageError(f"The task of a Turn must be a text, and that of {member!r} is {turn.task!r:.200}")
    if turn.purpose not in PURPOSES or turn.number.__class__ is not int:
        wrong = f"purpose={turn.purpose!r}, number={turn.number!r}"
        raise UsageError(f"The Turn of {member!r} has {wrong}; a purpose is one of {', '.join(PURPOSES)}")


class Failure(Record, frozen=True):
    """Why a member gave no reply. Its text is for people and records, never for another member.

    `member` is the member that failed; inside a nested team it is the path from the member that was asked, such as
    `inner/writer`. `warnings` are those of a failed team.
    """

    member: str
    error: str
    message: str
    messages: tuple[Message, ...] = ()
    data: JsonValue = None
    optional: bool = False
    warnings: tuple[str, ...] = ()

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields except data and warnings, which are fields of the result."""
        return {name: value for name, value in super().to_json().items() if name not in {"data", "warnings"}}

    @property
    def asked(self) -> str:
        """The member that was asked, in which the failure happened."""
        return root_key(self.member)

    @property
    def skipped(self) -> tuple[str, ...]:
        """The warnings of a team that continues without this member's reply."""
        return f"{self.asked!r} failed and was skipped ({self.error}: {self.message})", *self.warnings


class Reply(Record, frozen=True):
    """The reply of a member.

    `context_updates` are values for the workspace. An update of a value that has changed since the turn began is
    dropped, with a recorded conflict and a warning. `envelope_note` is the author's note for other members.

    With `share: a2a_lite` a strategy gets replies that contain only what may be forwarded; `whole` is the original.
    """

    messages: tuple[Message, ...] = ()
    data: JsonValue = None
    usage: Usage = NOTHING
    signal: Signal | None = None
    stop_reason: str | None = None
    truncated: bool = False
    warnings: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    context_updates: dict[str, JsonValue] = {}
    envelope_note: EnvelopeNote | None = None
    whole: Reply | None = None
    transfer_to: str | None = None
    """The member that has the next turn: one of `Turn.handoffs`."""
    tool_uses: tuple[ToolUse, ...] = ()
    """The tool calls of the turn, where `Turn.keeps_tool_uses` asks for them. Never forward them to another member."""
    requests: tuple[MemberRequest, ...] = ()
    """What the member wants of others, in the order in which it said so, as far as `Turn.talk` allows it."""

    @property
    def text(self) -> str:
        """The last message, which is the answer."""
        return self.messages[-1].content if self.messages else ""

    @property
    def awaits_others(self) -> bool:
        """Whether the member asks one for help or hands over, so that the reply is not its last word."""
        return any(one.type != "message" for one in self.requests)

    @property
    def lasting_warnings(self) -> list[str]:
        """The warnings that also matter to the asker.

        A nested team that used all of its turns has succeeded, so the warning about its own limit, which begins with
        its name, is dropped.
        """
        if self.stop_reason != "max_turns":
            return list(self.warnings)
        return [text for text in self.warnings if not text.partition(": ")[2].startswith(AT_ITS_LIMIT)]

    def data_as(self, form: type[T]) -> T:
        """Return the data as this type: a pydantic model, a dataclass or a TypedDict.

        Raises `InvalidOutput` where the reply has no data or its data does not fit.
        """
        author = f" of {self.messages[-1].name!r}" if self.messages else ""
        if self.data is None:
            raise InvalidOutput(f"The reply{author} has no data: give the agent an `output_schema`, or read `text`.")
        return read_as(self.data, form, f"The data of the reply{author}")

    @property
    def full(self) -> Reply:
        """The original reply, for decisions and results; never forward it to another member."""
        return self if self.whole is None else self.whole

    def misfit(self) -> str | None:
        """Return which field has a wrong type; `None` if none has, as constructing a record does not check.

        `data` and `usage` are not looked at. Called for every reply, so the usual one is not converted.
        """
        if self.messages.__class__ is not tuple:
            return f"messages: expects a tuple of Message, found {type(self.messages).__name__}"
        for one in self.messages:
            if one.__class__ is not Message or one.content.__class__ is not str or one.name.__class__ is not str:
                return f"messages: expects a tuple of Message, with texts, and one is {one!r:.100}"
            if (one.attachments or one.role != "assistant") and (wrong := misfit_of(one)) is not None:
                return f"messages: {wrong}"
        if (
            (self.signal is None or self.signal == "terminate")
            and (self.stop_reason is None or self.stop_reason.__class__ is str)
            and self.truncated.__class__ is bool
            and not (self.warnings or self.artifacts or self.context_updates or self.envelope_note or self.transfer_to)
            and not (self.tool_uses or self.requests)
        ):
            return None
        return misfit_of(self.changed(messages=(), data=None, usage=NOTHING, whole=None))

    @classmethod
    def of(cls, name: str, content: str, **more: object) -> Reply:
        """Return a reply of one message."""
        return cls(messages=(Message(name=name, content=content),), **more)  # pyright: ignore[reportArgumentType]


VerdictOutcome = Literal["pass", "revise", "review_exceeded", "auto_pass_with_warning", "not_reviewed", "accepted"]
"""What becomes of the work: it counts, its author is asked again, a person is needed, it counts although its review
broke off or because no criterion is declared, or a person accepted it."""
PASSED: frozenset[VerdictOutcome] = frozenset(("pass", "accepted"))
"""The outcomes of work that an evaluator or a person found good."""
JUDGED: frozenset[VerdictOutcome] = frozenset(("pass", "accepted", "revise"))
"""The outcomes of reviews that were completed."""


Score = Annotated[float, Meta(ge=0, le=1)]


class CriterionResult(CheckedRecord, frozen=True):
    """The result of one criterion. `score` lies between 0 and 1; `by` is the judge, empty for a check."""

    id: str
    passed: bool
    score: Score
    reason: str = ""
    by: str = ""


class JudgeRecord(CheckedRecord, frozen=True):
    """How a judge was asked: its model, the digest of each turn that it was shown, and the score of each answer.

    `spread` is the difference between its highest and its lowest score. `unusable` says why answers did not count, and
    `unpaid` that the budget did not cover one of them.
    """

    member: str
    model: str
    shown: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()
    spread: Score = 0.0
    unusable: tuple[str, ...] = ()
    unpaid: bool = False


class EvaluationVerdict(CheckedRecord, frozen=True):
    """A verdict. `score` is the weighted mean of its criteria, and `rubric` the digest of what they were.

    Work without a review has no score: all that is known of it is that it is not blank.
    `missing` are criteria that the evaluator left out, which are not passed; `unknown` are those that it invented,
    which do not count. `unpaid` says that the budget did not cover the review.
    """

    outcome: VerdictOutcome
    criteria: tuple[CriterionResult, ...] = ()
    score: Score | None = 0.0
    feedback: str = ""
    suggestions: tuple[str, ...] = ()
    rubric: str = ""
    judges: tuple[JudgeRecord, ...] = ()
    missing: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    unpaid: bool = False

    @property
    def passes(self) -> bool:
        """Whether the work counts."""
        return self.outcome not in ("revise", "review_exceeded")

    @property
    def broke_off_unpaid(self) -> bool:
        """Whether the review broke off because the budget did not cover it, or one of its judges."""
        return self.outcome == "review_exceeded" and (self.unpaid or any(one.unpaid for one in self.judges))

    def exceeded(self, reason: str) -> EvaluationVerdict:
        """Return the verdict that no review could be completed, for this reason."""
        return self.changed(outcome="review_exceeded", feedback=reason)
