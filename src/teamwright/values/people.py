"""What people and runs say to each other: questions and answers, approvals, confirmations, interventions."""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from collections.abc import Iterable
from math import isfinite
from typing import Annotated, ClassVar, Literal, cast

from pydantic import AfterValidator, Field
from typing_extensions import override

from teamwright.errors import UsageError
from teamwright.values.limits import Amounts, Spend
from teamwright.values.names import is_web_address
from teamwright.values.run_keys import join_key
from teamwright.values.value import JsonValue, Record, Value, misfit_of

Reason = Literal["question", "approval", "failure", "pause"]
ABORT = "abort"
"""The answer to a failure that ends the run, whatever the team's recovery."""
APPROVE, EDIT, REJECT = "approve", "edit", "reject"
"""The decisions about a draft."""
RESUME = "resume"
"""The answer that lets a paused member take its turn."""


class Question(Record, frozen=True):
    """A question to a person; `choices`, where given, are the only valid answers.

    An approval has a `draft` of the given `form`, which an edit replaces. `about` distinguishes questions with the
    same text: an answer is valid only for the question that it was given to.
    """

    text: str
    choices: tuple[str, ...] = ()
    to: str = ""
    reason: Reason = "question"
    draft: str | None = None
    form: Literal["text", "json"] = "text"
    about: str = ""


def check_question(question: Question) -> None:
    """Raise `UsageError` if a question can't be recorded."""
    if not isinstance(question, Question):  # pyright: ignore[reportUnnecessaryIsInstance] - from code without types
        raise UsageError(f"A person is asked a Question, not {question!r:.200}; write  Question(text=…)")
    if (wrong := misfit_of(question)) is not None:
        raise UsageError(f"The question to a person can't be recorded: {wrong}")


class Answer(Record, frozen=True):
    """The answer of a person. For a decision about a draft, `data` is the reason or the new content.

    `id` identifies the message that it came with, where a client may send it again.
    """

    text: str
    data: JsonValue = None
    by: str = ""
    id: str = ""

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data; `id` only where there is one."""
        fields = super().to_json()
        if not self.id:
            del fields["id"]
        return fields

    @classmethod
    def approve(cls, *, by: str = "") -> Answer:
        """Approve the draft as it is."""
        return cls(text=APPROVE, by=by)

    @classmethod
    def edit(cls, instead: JsonValue, *, by: str = "") -> Answer:
        """Approve this in place of the draft."""
        return cls(text=EDIT, data=instead, by=by)

    @classmethod
    def reject(cls, reason: str = "", *, by: str = "") -> Answer:
        """Reject the draft; the reason is recorded and reaches no other member."""
        return cls(text=REJECT, data=reason or None, by=by)


YES, SMALLER, NO = "yes", "smaller", "no"
CONFIRM_CHOICES = (YES, SMALLER, NO)
CONFIRM = "confirm"
UNITS = ("tokens", "usd")
_WRITTEN = re.compile(r"\s*(?:(\$)\s*)?([0-9][0-9_., ]*)\s*(usd|dollars?|\$|tokens?)?\s*", re.IGNORECASE)


def confirmation_key(team: str) -> str:
    """Return the key of the question whether a run of a team may begin."""
    return join_key(team, CONFIRM)


def is_confirmation(question: Question) -> bool:
    """Whether a question asks for the confirmation of a run."""
    return question.reason == "approval" and question.choices == CONFIRM_CHOICES


def check_confirmation(key: str, given: Answer) -> Answer:
    """Return a valid answer to a confirmation; a smaller run needs a ceiling in tokens, dollars or both."""
    if given.text != SMALLER:
        return given
    return given.changed(data=cast("JsonValue", lower_ceiling(key, given.data)))


def lower_ceiling(key: str, data: JsonValue) -> dict[str, float]:
    """Return the ceiling of an answer: an object, or a text such as `0.50 usd` or `20000 tokens`."""
    if isinstance(data, str):
        data = cast("JsonValue", read_ceiling(data))
    if not isinstance(data, dict) or not data or not set(data) <= set(UNITS):
        raise UsageError(
            f"A smaller run at {key!r} needs its ceiling:  --max-usd X,  --max-tokens N  or both; in Python"
            '  Answer(text="smaller", data={"usd": 0.5}).'
        )
    found: dict[str, float] = {}
    for unit, amount in data.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or not isfinite(amount) or amount <= 0:
            raise UsageError(f"The ceiling {unit} at {key!r} is {amount!r}; it must be a number above 0.")
        found[unit] = int(amount) if unit == "tokens" else float(amount)
    if found.get("tokens", 1) < 1:
        raise UsageError(f"The ceiling tokens at {key!r} must be at least 1.")
    return found


def read_ceiling(text: str) -> dict[str, float] | None:
    """Read a ceiling that a person has written: `0.50 usd`, `$2`, `20000 tokens`; `None` for any other text."""
    found = _WRITTEN.fullmatch(text)
    if found is None or not (found[1] or found[3]):
        return None
    digits = re.sub(r"[_, ]", "", found[2])
    is_money = found[1] is not None or not found[3].casefold().startswith("token")
    try:
        return {"usd": float(digits)} if is_money else {"tokens": int(digits)}
    except ValueError:
        return None


CHOICES = (APPROVE, EDIT, REJECT)
ACCEPT, REVISE, STOP = "accept", "revise", "stop"
REVIEW_CHOICES = (ACCEPT, REVISE, STOP)
"""The decisions about work that exceeded its review: it counts, its author is asked again, or it fails."""
SECRET_PREFIX = "whsec_"


def _some_amount(above: Spend) -> Spend:
    if above.tokens is None and above.usd is None:
        raise ValueError("needs an amount: tokens or usd")
    return above


class Confirm(Value):
    """What a person has to confirm before it happens."""

    before: bool = Field(default=False, description="before each turn: its task may be edited")
    after: bool = Field(default=False, description="after each turn: its reply may be edited")
    tools: bool | tuple[str, ...] = Field(
        default=False, description="before each call of a tool, whose arguments may be edited: true, or names of tools"
    )
    above: Annotated[Spend, AfterValidator(_some_amount)] | None = Field(
        default=None, description="of a team: a run that is likely to spend more (p90), before it spends anything"
    )

    def needed_for(self, tool: str, group: str = "") -> bool:
        """Whether a call of this tool needs approval; `group` is the source of the tool, such as a server."""
        if isinstance(self.tools, bool):
            return self.tools
        return tool in self.tools or (group != "" and group in self.tools)


class Notify(Value):
    """The webhook that is called when a run pauses to wait for a person."""

    webhook: str = Field(description="the URL that receives a JSON document by POST; ${NAME} reads the environment")
    secret: str | None = Field(
        default=None, description="signs each request as Standard Webhooks does: whsec_ and base64; ${NAME} as above"
    )

    def mistakes(self) -> Iterable[str]:
        """Return an address that is invalid, without showing it: it may be a secret."""
        return () if is_web_address(self.webhook) else ("webhook: is not an http address",)


def signing_key(secret: str) -> bytes:
    """Decode the key of a Standard Webhooks secret; raise a `UsageError` that does not show an invalid one."""
    try:
        key = b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(SECRET_PREFIX) or not 24 <= len(key) <= 64:
        raise UsageError(
            f"The secret of a webhook is {SECRET_PREFIX!r} followed by 24 to 64 bytes in base64; make one with"
            f"  echo {SECRET_PREFIX}$(openssl rand -base64 32)"
        )
    return key


def approval_question(text: str, draft: str, *, about: str = "", form: Literal["text", "json"] = "text") -> Question:
    """Return the question whether a draft is approved."""
    return Question(text=text, choices=CHOICES, reason="approval", draft=draft, about=about, form=form)


def review_question(text: str, work: str, *, about: str = "") -> Question:
    """Return the question what becomes of work that exceeded its review."""
    return Question(text=text, choices=REVIEW_CHOICES, reason="approval", draft=work, about=about)


def is_review(question: Question) -> bool:
    """Whether a question asks what becomes of work that exceeded its review."""
    return question.reason == "approval" and question.choices == REVIEW_CHOICES


def check_answer(question: Question, key: str, given: Answer) -> Answer:
    """Return a valid answer to a question; raise a `UsageError` that names the valid ones."""
    if question.choices and given.text not in question.choices:
        raise UsageError(f"{given.text!r} is no answer to {key!r}; choose one of {', '.join(question.choices)}.")
    if question.reason != "approval":
        return given
    if is_confirmation(question):
        return check_confirmation(key, given)
    if is_review(question):
        if given.data is not None and given.text != REVISE:
            raise UsageError(f"Only the answer {REVISE!r} to {key!r} has a note.")
        if not isinstance(given.data, str | None):
            raise UsageError(f"The note of the answer {REVISE!r} to {key!r} must be a text, not {given.data!r:.100}.")
        return given
    if given.text == REJECT and given.data is not None and not isinstance(given.data, str):
        raise UsageError(f"The reason for rejecting {key!r} must be a text.")
    if given.text != EDIT:
        return given
    if question.form == "json":
        return given.changed(data=_arguments(key, given.data))
    if not isinstance(given.data, str):
        raise UsageError(f"An edit of {key!r} needs the new text.")
    return given


def _arguments(key: str, data: JsonValue) -> JsonValue:
    """Parse edited arguments, given as an object or as JSON text."""
    if isinstance(data, str):
        try:
            data = cast("JsonValue", json.loads(data))
        except ValueError as error:
            raise UsageError(f"An edit of {key!r} must be a JSON object, and this is no JSON ({error}).") from error
    if not isinstance(data, dict):
        raise UsageError(f"An edit of {key!r} must be a JSON object of arguments.")
    return data


class Answered(Record, frozen=True, tag_field="kind", tag="answer"):
    """An answer to the question with this key."""

    kind: ClassVar = "answer"
    key: str
    answer: Answer


class Cancel(Record, frozen=True, tag_field="kind", tag="cancel"):
    """Cancel the run; it can't be resumed."""

    kind: ClassVar = "cancel"
    reason: str = ""
    by: str = ""


class Pause(Record, frozen=True, tag_field="kind", tag="pause"):
    """Pause the run after calls in flight have finished."""

    kind: ClassVar = "pause"
    by: str = ""


class Mark(Record, frozen=True, tag_field="kind", tag="checkpoint"):
    """Name the current point of the run as a checkpoint."""

    kind: ClassVar = "checkpoint"
    name: str
    by: str = ""


class Undo(Record, frozen=True, tag_field="kind", tag="undo"):
    """Withdraw a finished turn from its conversation: the next turn continues from the one before."""

    kind: ClassVar = "undo"
    by: str = ""
    inherited: str = ""
    """The run of an earlier conversation that is withdrawn from a fork of it, in the inbox of a turn of the fork."""


class ActionClaim(Record, frozen=True, tag_field="kind", tag="claim"):
    """The claim of a call on an action that is not made twice, in the inbox of the root run; no person sends it.

    `run_id` and `key` are the call. The first claim of an action holds. A claim `after` the id of another replaces it:
    the first to do so holds, in turn.
    """

    kind: ClassVar = "claim"
    action: str
    run_id: str
    key: str
    after: int = 0


class Tell(Record, frozen=True, tag_field="kind", tag="say"):
    """A message to all members of a run, or to the member `to`; each reads it with its next turn."""

    kind: ClassVar = "say"
    text: str
    to: str = ""
    by: str = ""


class PauseMember(Record, frozen=True, tag_field="kind", tag="pause_member"):
    """Hold a member before its next turn; the others continue."""

    kind: ClassVar = "pause_member"
    member: str
    by: str = ""


class ResumeMember(Record, frozen=True, tag_field="kind", tag="resume_member"):
    """Let a paused member take its turn."""

    kind: ClassVar = "resume_member"
    member: str
    by: str = ""


class RaiseBudget(Amounts, frozen=True, tag_field="kind", tag="raise_budget"):
    """Raise limits of the run and of its outermost team to these; other limits stay as they are."""

    kind: ClassVar = "raise_budget"
    by: str = ""


class EditPlan(Record, frozen=True, tag_field="kind", tag="edit_plan"):
    """Replace the plan of the outermost team by this one, or change it so; what is done stays done."""

    kind: ClassVar = "edit_plan"
    plan: JsonValue
    by: str = ""


class RestorePlan(Record, frozen=True, tag_field="kind", tag="restore_plan"):
    """Make the plan of the outermost team as it was in an earlier version; what is done stays done."""

    kind: ClassVar = "restore_plan"
    plan_version: int
    by: str = ""


class StopStep(Record, frozen=True, tag_field="kind", tag="stop_step"):
    """Stop a step of the outermost team: what works on it is cancelled, and it ends without a result."""

    kind: ClassVar = "stop_step"
    step: str
    reason: str = ""
    by: str = ""


class AddMember(Record, frozen=True, tag_field="kind", tag="add_member"):
    """Add a member to the outermost team; `spec` is its declaration, as in a manifest."""

    kind: ClassVar = "add_member"
    member: str
    spec: JsonValue
    by: str = ""


class RemoveMember(Record, frozen=True, tag_field="kind", tag="remove_member"):
    """Remove a member from the outermost team; what it has done is kept."""

    kind: ClassVar = "remove_member"
    member: str
    by: str = ""


TeamChange = EditPlan | RestorePlan | StopStep | AddMember | RemoveMember
"""A change that the strategy of a team carries out."""
Steer = Tell | PauseMember | ResumeMember | RaiseBudget | TeamChange
"""An intervention that is accepted or refused by the driver of the run, and then takes effect at a recorded place."""

Intervention = (
    Answered | Cancel | Pause | Mark | Undo | ActionClaim
    | Tell | PauseMember | ResumeMember | RaiseBudget | EditPlan | RestorePlan | StopStep | AddMember
    | RemoveMember
)  # fmt: skip
