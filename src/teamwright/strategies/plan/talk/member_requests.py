"""What members ask of each other during a turn: a message to all, assistance of one, or a handover.

A member posts requests to the workspace, with its tools or from its own code; the strategy reads them after the turn.
So a request is recorded with the turn that made it, and a replay reads the same.
"""

from __future__ import annotations

from typing import Literal, cast

from pydantic import JsonValue

from teamwright.agents.contract.agent import Workspace
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import digest
from teamwright.values.value import Record

OUTBOX = "requests/"
"""The beginning of the names of requests in the workspace; then the member, and the key of the call."""

TALKS = "has tools to talk with colleagues"
"""How a refusal begins of an agent whose requests no one would read."""
LONGEST_SUMMARY = 280
"""Characters of a message that all members read; the full text is in the workspace."""
RequestKind = Literal["message", "assist", "hand_over"]


class MemberRequest(Record, frozen=True):
    """A request of a member. `to` is empty for a message to all; `original` is the artifact with its whole text.

    Where no other member has the name in `to`, its sender gets another turn.
    """

    type: RequestKind
    text: str
    to: str = ""
    original: str = ""


class RequestSender:
    """Sends the requests of one call of a member; `call` identifies it among all of the run, `key` in its turn."""

    def __init__(self, workspace: Workspace, member: str, key: str, call: str) -> None:
        self._workspace, self._member, self._key, self._call = workspace, member, key, call

    async def message(self, text: str, summary: str = "") -> None:
        """Send a message to all; they read the summary, by default the beginning, and the text is kept."""
        kept = await self._workspace.keep(text, name="message", key=f"{self._key}/keep")
        short = cut(" ".join((summary or text).split()), LONGEST_SUMMARY)
        await self._post(MemberRequest(type="message", text=short, original=kept.hash))

    async def ask(self, name: str, question: str) -> None:
        """Ask another member for help."""
        await self._post(MemberRequest(type="assist", to=name, text=question))

    async def hand_over(self, name: str, note: str) -> None:
        """Hand the step over to another member."""
        await self._post(MemberRequest(type="hand_over", to=name, text=note))

    async def _post(self, request: MemberRequest) -> None:
        name = f"{OUTBOX}{self._member}/{digest(self._call)[:16]}"
        await self._workspace.put(name, cast("JsonValue", request.to_json()), key=f"{self._key}/request")


class Outbox:
    """The requests that a strategy has not read yet."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._read = set[str](workspace.names())

    def read(self, member: str) -> list[MemberRequest]:
        """Return the new requests of a member, in the order in which they were posted."""
        beginning, found = f"{OUTBOX}{member}/", list[MemberRequest]()
        for name in self._workspace.names():
            if name in self._read or not name.startswith(beginning):
                continue
            self._read.add(name)
            held = self._workspace.get(name)
            if held is not None and (request := _parsed(held.value)) is not None:
                found.append(request)
        return found


def _parsed(value: JsonValue) -> MemberRequest | None:
    """Return a request; `None` for a value that is none, since members can write any value."""
    if not isinstance(value, dict):
        return None
    fields = {name: value.get(name, "") for name in ("type", "text", "to", "original")}
    if not all(isinstance(field, str) for field in fields.values()):
        return None
    if fields["type"] not in ("message", "assist", "hand_over"):
        return None
    return MemberRequest(**cast("dict[str, str]", fields))  # pyright: ignore[reportArgumentType] - checked above
