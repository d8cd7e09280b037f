"""One member's turn: what it is told, what it says, or why it could not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeVar, cast

from msgspec import Struct
from pydantic_core import to_json
from typing_extensions import override

from teamwright.errors import InvalidOutput
from teamwright.values.key import root_key
from teamwright.values.limits.usage import NOTHING, Amounts, Usage
from teamwright.values.models import JsonValue, Record
from teamwright.values.turns.artifacts import POINTER, Artifact
from teamwright.values.turns.envelope import Envelope, EnvelopeLimits, EnvelopeMessage, HandoffNote
from teamwright.values.turns.messages import EMPTY, History, Message, digest
from teamwright.values.turns.transcript import Quoting, quoted, transcript
from teamwright.values.typed_data import read_as

Purpose = Literal["work", "coordinate", "judge"]
Signal = Literal["terminate"]
Tier = Literal["primary", "economy"]

T = TypeVar("T")


class Turn(Struct, frozen=True, dict=True):
    """What a member is told. The task stands last; the history before it is never changed by anybody."""

    task: str
    history: History = EMPTY
    number: int = 1
    purpose: Purpose = "work"
    tools: tuple[str, ...] | None = None
    max_output: int | None = None
    output_schema: Mapping[str, JsonValue] | None = None
    """The shape that the asker would like the reply's data to have. The agent's own schema comes first, and a reply
    that does not fit is no failure: it comes without data."""
    left: Amounts | None = None
    """What is left of the budget around the turn as it begins, where there is one. The engine sets it."""
    tier: Tier = "primary"
    """Which of its models is to answer, for a member that has a cheaper one. The engine sets it."""
    handoff: EnvelopeLimits | None = None
    """The policy that holds when the ask begins, where others will be told an envelope in place of the reply."""
    quoting: Quoting = "all"
    """Which texts of the prompt are quoted, so that none of them looks like another message."""

    @property
    def digest(self) -> str:
        """By this a turn is recognised on replay: all that the asker tells, but not the turn's number."""
        kept = cast("dict[str, str]", self.__dict__)
        known = kept.get("digest")
        if known is None:  # kept by hand: a cached_property takes a lock, which costs more than the hash
            tools = "*" if self.tools is None else ",".join(self.tools)
            head = f"{self.history.digest} {self.purpose} {self.max_output} {len(tools)} {tools}"
            if self.output_schema is not None:
                head = digest(head, to_json(self.output_schema).decode())
            known = kept["digest"] = digest(f"{head} {self.task}")
        return known

    @property
    def prompt(self) -> str:
        """Everything the member is told, as one text: the history under names, then the task.

        Lines in it that look like a header and are none are quoted, as `\\# name:`.
        """
        if not self.history:
            return self.task
        return f"{transcript(self.history, quote=self.quoting != 'none')}\n\n{self.shown_task}"

    @property
    def speakers(self) -> frozenset[str]:
        """The names under which things were said."""
        return frozenset(message.name for message in self.history)

    @property
    def shown_task(self) -> str:
        """The task as it stands behind the history: nothing in it looks like a message of that."""
        return quoted(self.task, self.speakers) if self.history and self.quoting == "all" else self.task

    @property
    def envelopes(self) -> tuple[Envelope, ...]:
        """The envelopes among what the member is told, in order."""
        return tuple(message.envelope for message in self.history if isinstance(message, EnvelopeMessage))

    @property
    def points(self) -> bool:
        """Whether it points at something that is kept, so that there is something to open."""
        return POINTER in self.task or any(
            isinstance(message, EnvelopeMessage) and POINTER in message.content for message in reversed(self.history)
        )


class Failure(Record, frozen=True):
    """Why a member gave no answer. Its text is for people and records, never for another member.

    `member` names who failed. Where that was somebody inside the member that was asked, it is the path from there:
    `inner/writer`. `warnings` are those of a team that failed, about what happened before.
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
        """All fields but the data and the warnings, which stand in the result."""
        return {name: value for name, value in super().to_json().items() if name not in {"data", "warnings"}}

    @property
    def asked(self) -> str:
        """The member that was asked, in whom the failure lies."""
        return root_key(self.member)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Warnings that the team goes on without this member's answer, and of what happened inside it."""
        return f"{self.asked!r} failed and was skipped ({self.error}: {self.message})", *self.warnings


class Reply(Record, frozen=True):
    """What a member said.

    `context_updates` are values for the workspace. One that others have changed since the turn began is not taken
    over, which the record and the result tell. `handoff` is what the author says of it for others.

    With `share: a2a_lite` a strategy gets replies that hold what may be told of them, and the real one as `whole`.
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
    handoff: HandoffNote | None = None
    whole: Reply | None = None

    @property
    def text(self) -> str:
        """The last thing said, which is the answer."""
        return self.messages[-1].content if self.messages else ""

    def data_as(self, form: type[T]) -> T:
        """The data of the reply as a value of this type: a pydantic model, a dataclass or a TypedDict.

        Raises `InvalidOutput` where the reply has no data or its data does not fit.
        """
        author = f" of {self.messages[-1].name!r}" if self.messages else ""
        if self.data is None:
            raise InvalidOutput(f"The reply{author} has no data: give the agent an `output_schema`, or read `text`.")
        return read_as(self.data, form, f"The data of the reply{author}")

    @property
    def full(self) -> Reply:
        """The reply as the member gave it: for decisions and results, never to be passed on to another member."""
        return self if self.whole is None else self.whole

    @property
    def well_formed(self) -> bool:
        """Whether it holds what it should: nothing checks a record when an agent makes one."""
        for one in self.messages:
            if one.__class__ is not Message or one.content.__class__ is not str or one.name.__class__ is not str:
                return False
        return self.messages.__class__ is tuple

    @classmethod
    def of(cls, name: str, content: str, **more: object) -> Reply:
        """A reply of one message."""
        return cls(messages=(Message(name=name, content=content),), **more)  # pyright: ignore[reportArgumentType]
