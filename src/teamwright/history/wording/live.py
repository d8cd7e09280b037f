"""What the terminal says about the life of a team, and what its members say to each other."""

from __future__ import annotations

from teamwright.values.events.event import Event
from teamwright.values.events.live import TeamLife, TeamMessage
from teamwright.values.text.control_characters import visible
from teamwright.values.text.display import cut

LONGEST = 120
"""Characters of a message that a note shows."""


def live_note(event: Event) -> str | None:
    """Return the line for a message between members, or a change of the team; none for other events."""
    match event.fact:
        case TeamMessage(type=kind, by=by, to=to, text=text):
            words = {"chat": "tells", "assist_request": "asks", "assist": "answers", "decision": "decides for"}
            return f"{by} {words[kind]} {', '.join(to)}: {cut(visible(text), LONGEST)}"
        case TeamLife(reason=reason, members=members, left=left) if reason:
            gone = f"; left: {', '.join(left)}" if left else ""
            return f"{reason}: {', '.join(members)}{gone}"
        case TeamLife(state="dissolved"):
            return "the team is dissolved; its outputs stay"
        case _:
            return None
