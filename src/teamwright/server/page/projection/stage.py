"""Who is at work in a run: its open asks and its teams, folded from events, for a page."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import JsonValue

from teamwright.server.page.page_events import PageExpert, StepState
from teamwright.server.page.projection.looks import ExpertLooks, fields_of
from teamwright.values.events.agent import AgentAsked
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.events.team import TeamEnded, TeamReopened, TeamStarted
from teamwright.values.key import key_segments, nearest_key, relative_key, without_attempts
from teamwright.values.turns.turn import Purpose


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
    proposal: str = ""
    """The key of the question with which a person is asked to confirm the plan."""
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
    step: str = ""
    asker: AskAtWork | None = None


class Stage:
    """The open asks, the teams and the experts of a run."""

    def __init__(self) -> None:
        self.looks = ExpertLooks()
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
        self.looks.read_manifest(source)
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
        """Return a member of a team with its look."""
        return self.looks.expert(team.prefix + name, name)

    def ids(self, team: TeamAtWork, names: tuple[str, ...]) -> tuple[str, ...]:
        """The ids of members of a team."""
        return tuple(team.prefix + name for name in names)

    def begin(self, event: Event, fact: AgentAsked) -> AskAtWork:
        """Open an ask; the ask of a team opens the team."""
        around = self.ask_around(event.scope)
        outer = self._run if around is None else around.team
        is_team = fact.member_kind == "team"
        team = self._open_team(event.key, fact.member, outer) if is_team else outer
        asker = around if around is not None and not around.is_team else None
        ask = self.asks[event.key] = AskAtWork(
            event.key,
            fact.member,
            self.expert(outer, fact.member),
            fact.purpose,
            event.time,
            team,
            is_team,
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
        """Close an ask, and return it."""
        return self.asks.pop(key, None)

    def reopen(self, event: Event, _: TeamReopened) -> None:
        """Open a team again that had ended in the source of a fork."""
        ask = self._team_asks.get(event.scope)
        if ask is not None:
            self.asks[event.scope] = ask
            ask.team.ended = None
