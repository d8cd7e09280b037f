"""What members ask of each other during a turn: a message to all, assistance of one, or a handover.

A member posts requests to the workspace, with its tools or from its own code; the strategy reads them after the turn.
So a request is recorded with the turn that made it, and a replay reads the same.
"""

from __future__ import annotations

from typing import Literal, cast

from pydantic import JsonValue

from teamwright.agents.contract.agent import Workspace
from teamwright.values.turns.messages import digest
from teamwright.values.value import Record

OUTBOX = "live/"
"""The beginning of the names of requests in the workspace; then the member, and the key of the call."""

RequestKind = Literal["message", "assist", "hand_over"]


class MemberRequest(Record, frozen=True):
    """A request of a member. `to` is empty for a message to all; `original` is the artifact with its whole text.

    With `unknown` the member gets another turn where no other member has the name in `to`; requests that were
    recorded without it are dropped then, as they were.
    """

    type: RequestKind
    text: str
    to: str = ""
    original: str = ""
    unknown: Literal["", "tell"] = "tell"


async def post_request(workspace: Workspace, member: str, request: MemberRequest, *, key: str) -> None:
    """Post a request of a member, once for each key."""
    name = f"{OUTBOX}{member}/{digest(key)[:12]}"
    await workspace.put(name, cast("JsonValue", request.to_json()), key=f"{key}/request")


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
    fields = {name: value.get(name, "") for name in ("type", "text", "to", "original", "unknown")}
    if not all(isinstance(field, str) for field in fields.values()):
        return None
    if fields["type"] not in ("message", "assist", "hand_over") or fields["unknown"] not in ("", "tell"):
        return None
    return MemberRequest(**cast("dict[str, str]", fields))  # pyright: ignore[reportArgumentType] - checked above
