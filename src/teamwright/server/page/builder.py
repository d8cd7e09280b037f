"""The page events that one event of a journal yields, while they are being made, and the values in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict, TypeVar

from pydantic import JsonValue

from teamwright.history.record.asks import RecordedBodies
from teamwright.server.page.page_events import (
    PageArtifact,
    PageEvent,
    PageExpert,
    PageStep,
    StepState,
)
from teamwright.server.page.state import PageState, TeamAtWork
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event
from teamwright.values.key import join_key
from teamwright.values.models import Record
from teamwright.values.text.secret_patterns import mask_text, mask_value
from teamwright.values.turns.artifacts import Artifact

MOST_MASKED = 16
"""How many texts are kept masked: a task is that of several turns, and an answer ends a turn, its team and the run."""
Shown = TypeVar("Shown", bound=Record)


class Head(TypedDict):
    """The fields that all page events have."""

    number: int
    index: int
    time: float
    scope: str
    key: str
    expert: PageExpert | None


class EventBuilder:
    """Collects page events; without `bodies` their texts are empty, which is enough to catch up with a run.

    `source` has the manifest, which is always needed.
    """

    __slots__ = ("bodies", "event", "key", "made", "source", "state", "team")

    def __init__(self, state: PageState, event: Event, bodies: RecordedBodies | None, source: RecordedBodies) -> None:
        self.state, self.event, self.bodies, self.source = state, event, bodies, source
        self.key = event.key
        self.team: TeamAtWork = state.team_around(self.key)
        self.made: list[PageEvent] = []

    def add(self, event: PageEvent) -> None:
        """Add a page event; its head must be new."""
        self.made.append(event)

    def head(self, expert: PageExpert | str | None = None, key: str | None = None) -> Head:
        """Return the head of the next page event; an expert may be given by its name in the team."""
        if isinstance(expert, str):
            expert = self.state.expert(self.team, expert) if expert else None
        event = self.event
        return {
            "number": event.number,
            "index": len(self.made),
            "time": event.time,
            "scope": self.team.scope,
            "key": self.key if key is None else key,
            "expert": expert,
        }

    def text(self, *bodies: Body) -> str:
        """The masked texts of bodies, as one."""
        if self.bodies is None or not bodies:
            return ""
        known = self.state.masked_texts
        if bodies in known:
            return known[bodies]
        text = mask_text("\n\n".join(str(self.bodies.value(body)) for body in bodies))
        if len(known) >= MOST_MASKED:
            del known[next(iter(known))]
        known[bodies] = text
        return text

    def value(self, body: Body | None) -> JsonValue:
        """The masked value of a body."""
        return None if self.bodies is None or body is None else mask_value(self.bodies.value(body))

    def set_step(
        self,
        step: str,
        state: StepState,
        *,
        attempt: int = 1,
        members: tuple[str, ...] = (),
        reason: str = "",
        verdict: str = "",
        score: float | None = None,
    ) -> None:
        """Record the state of a step, and add a page event if it has changed."""
        team = self.team
        if state == "running":
            team.work.update(dict.fromkeys(members, step))
        else:
            team.work = {member: one for member, one in team.work.items() if one != step}
        if not step or (team.states.get(step) == state and not verdict):
            return
        team.states[step] = state
        self.add(
            PageStep(
                **self.head(key=join_key(team.scope, step)),
                step=step,
                state=state,
                attempt=attempt,
                assignees=self.state.ids(team, members),
                reason=mask_text(reason),
                verdict=verdict,
                score=score,
            )
        )


def page_value(form: type[Shown], value: Record) -> Shown:
    """Convert a value of the journal to one of the page, which has some of its fields. Texts have to be masked."""
    return form(**{name: getattr(value, name) for name in form.__struct_fields__})


def page_artifacts(artifacts: Iterable[Artifact]) -> tuple[PageArtifact, ...]:
    """Convert pointers to artifacts."""
    return tuple(page_value(PageArtifact, one.changed(name=mask_text(one.name))) for one in artifacts)
