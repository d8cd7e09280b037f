"""What every projection of an event has at hand: who is at work in the run, and the builder of its page events.

The state is folded from events alone, so that all readers see the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypedDict, TypeVar

from pydantic import JsonValue

from teamwright.agents.evaluators import EVALUATOR
from teamwright.history.record.asks import RecordedBodies
from teamwright.server.page.appearance import ExpertAppearance, fields_of
from teamwright.server.page.page_events import PageArtifact, PageEvent, PageExpert, PageStep, StepState
from teamwright.values.events.agent import AgentAsked, Body
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.events.team import TeamEnded, TeamReopened, TeamStarted
from teamwright.values.key import join_key, key_segments, nearest_key, relative_key, without_attempts
from teamwright.values.text.secret_patterns import mask_text, mask_value
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.turn import Purpose
from teamwright.values.value import Record

MOST_MASKED = 16
"""How many texts are kept masked: a task is that of several turns, and an answer ends a turn, its team and the run."""
Shown = TypeVar("Shown", bound=Record)


@dataclass(slots=True)
class TeamAtWork:
    """A team, and what is known of its plan. `prefix` is what the ids of its experts begin with."""

    scope: str
    name: str
    prefix: str
    declared: JsonValue = None
    lead: str = ""
    members: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    states: dict[str, StepState] = field(default_factory=dict[str, StepState])
    names: dict[str, str] = field(default_factory=dict[str, str])
    milestones: set[str] = field(default_factory=set[str])
    plan: JsonValue = None
    plan_version: int = 0
    plan_status: str = ""
    """How far the plan is, as the page shows it; empty without a plan."""
    shared: set[str] = field(default_factory=set[str])
    """The steps that several members work on."""
    records_steps: bool = False
    """Whether its strategy records the states of its steps; else they follow from the asks in them."""
    work: dict[str, str] = field(default_factory=dict[str, str])
    """The step that each member works on, where its strategy records that."""
    rungs: dict[str, None] = field(default_factory=dict[str, None])
    ended: TeamEnded | None = None

    def step_of(self, key: str) -> str:
        """The step of the plan that a place belongs to; empty if it belongs to none."""
        if not self.states:
            return ""
        segments = key_segments(without_attempts(relative_key(key, self.scope)))
        return next((one for one in segments[:3] if one in self.states), "")


@dataclass(slots=True)
class AskAtWork:
    """An ask that has no ending yet: whose it is, and in which team."""

    key: str
    member: str
    expert: PageExpert
    purpose: Purpose
    began: float
    team: TeamAtWork
    is_team: bool
    is_check: bool = False
    """Whether it evaluates work: its verdict is shown, and it is no expert."""
    step: str = ""
    asker: AskAtWork | None = None


class PageState:
    """The open asks, the teams and the experts of a run."""

    def __init__(self) -> None:
        self.appearance = ExpertAppearance()
        self.asks: dict[str, AskAtWork] = {}
        self.teams: dict[str, TeamAtWork] = {}
        self.announced: set[str] = set()
        self.masked_texts: dict[tuple[Body, ...], str] = {}
        """The texts of bodies that were masked last."""
        self._run = TeamAtWork("", "", "")
        self._declared: JsonValue = None
        self._team_asks: dict[str, AskAtWork] = {}

    def start(self, fact: RunStarted, source: JsonValue) -> str:
        """Read the manifest of a run, and return the strategy of its team."""
        self.appearance.read_manifest(source)
        self._declared = fields_of(fields_of(source).get("manifest")).get("teams")
        strategy = fields_of(fields_of(self._declared).get(fact.team)).get("strategy")
        return strategy if isinstance(strategy, str) else next(iter(fact.strategies), "")

    def ask_around(self, key: str) -> AskAtWork | None:
        """The innermost open ask that is at or around a key."""
        return self.asks.get(nearest_key(key, self.asks))

    def team_around(self, key: str) -> TeamAtWork:
        """The team at or around a key; outside of every team, the run."""
        ask = self.ask_around(key)
        return self._run if ask is None else ask.team

    def expert(self, team: TeamAtWork, name: str) -> PageExpert:
        """Return a member of a team, with its colour and avatar."""
        return self.appearance.expert(team.prefix + name, name)

    def ids(self, team: TeamAtWork, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(team.prefix + name for name in names)

    def begin(self, event: Event, fact: AgentAsked) -> AskAtWork:
        """Open an ask; the ask of a team opens the team."""
        around = self.ask_around(event.scope)
        outer = self._run if around is None else around.team
        is_team = fact.member_kind == "team"
        team = self._open_team(event.key, fact.member, outer) if is_team else outer
        is_check = fact.member_kind == EVALUATOR
        asker = around if around is not None and not (around.is_team or around.is_check) else None
        ask = self.asks[event.key] = AskAtWork(
            event.key,
            fact.member,
            self.expert(outer, fact.member),
            fact.purpose,
            event.time,
            team,
            is_team,
            is_check,
            outer.step_of(event.key) or outer.work.get(fact.member, ""),
            asker,
        )
        if is_team:
            self._team_asks[event.key] = ask
        return ask

    def _open_team(self, scope: str, name: str, outer: TeamAtWork) -> TeamAtWork:
        prefix = "" if outer is self._run else f"{outer.prefix}{name}/"
        team = TeamAtWork(scope, name, prefix, fields_of(self._declared).get(name))
        self.teams[scope] = team
        return team

    def form(self, team: TeamAtWork, fact: TeamStarted) -> None:
        """Read the members of a team, and the plan that it declares."""
        team.members = fact.members
        options = fields_of(fields_of(team.declared).get("options"))
        lead = options.get("lead")
        team.lead = lead if isinstance(lead, str) else ""
        team.plan = {"steps": options.get("steps")}

    def end(self, key: str) -> AskAtWork | None:
        return self.asks.pop(key, None)

    def reopen(self, event: Event, _: TeamReopened) -> None:
        """Open a team again that had ended in the source of a fork."""
        ask = self._team_asks.get(event.scope)
        if ask is not None:
            self.asks[event.scope] = ask
            ask.team.ended = None


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
