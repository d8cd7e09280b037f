"""Approvals: where a person has to approve, how an answer is checked, and the webhook for a waiting run."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable
from typing import Literal, cast

from pydantic import Field

from teamwright.errors import UsageError
from teamwright.values.models import JsonValue, Value
from teamwright.values.people.confirmations import check_confirmation, is_confirmation
from teamwright.values.people.questions import APPROVE, EDIT, REJECT, Answer, Question
from teamwright.values.text.web_address import is_web_address

CHOICES = (APPROVE, EDIT, REJECT)
ACCEPT, REVISE, STOP = "accept", "revise", "stop"
REVIEW_CHOICES = (ACCEPT, REVISE, STOP)
"""The decisions about work that exceeded its review: it counts, its author is asked again, or it fails."""
SECRET_PREFIX = "whsec_"


class Approve(Value):
    """The points at which a person has to approve before a member continues."""

    before: bool = Field(default=False, description="before each turn: its task may be edited")
    after: bool = Field(default=False, description="after each turn: its reply may be edited")
    tools: bool | tuple[str, ...] = Field(
        default=False, description="before each call of a tool, whose arguments may be edited: true, or names of tools"
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
        """Return an address that is none, without showing it: it may be a secret."""
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
