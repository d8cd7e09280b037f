"""What every projection of an event has at hand: who is at work, how each expert looks, and the builder of page events.

All of it is folded from events and the manifest alone, so that all readers see the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import cos, pi, sin
from typing import TypedDict, TypeVar
from zlib import crc32

from pydantic import JsonValue

from teamwright.agents.evaluators import EVALUATOR
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.server.page.page_events import PageArtifact, PageEvent, PageExpert, PageStep, StepState
from teamwright.values.events.agent import AgentAsked, Body
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.events.team import TeamEnded, TeamReopened, TeamStarted
from teamwright.values.run_keys import join_key, key_segments, nearest_key, relative_key, without_attempts
from teamwright.values.specs.members import COLOR
from teamwright.values.text.secrets import mask_text, mask_value
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.turn import Purpose
from teamwright.values.value import Record

HUES = 24
NEAR = 2
"""Hues that are at most so many slots apart look alike beside each other."""
RINGS = ((0.52, 0.13), (0.42, 0.10), (0.60, 0.11))
"""Lightness and chroma, in OKLCH: white text is readable on the first ring; the others serve large teams."""


class ExpertAppearance:
    """Gives each expert of a run a colour and an avatar; of colours that are not declared, the first differ most."""

    def __init__(self) -> None:
        self._profiles: Mapping[str, JsonValue] = {}
        self._known: dict[str, PageExpert] = {}
        self._slots: list[int] = []

    def read_manifest(self, source: JsonValue) -> None:
        self._profiles = fields_of(fields_of(fields_of(source).get("manifest")).get("agents"))

    def add_profile(self, name: str, declared: JsonValue) -> None:
        """Add the declaration of an agent that joined later."""
        self._profiles = {**self._profiles, name: declared}

    def description_of(self, name: str) -> str:
        described = fields_of(self._profiles.get(name)).get("description")
        return described if isinstance(described, str) else ""

    def expert(self, id: str, name: str) -> PageExpert:
        """Return an expert with its colour and avatar."""
        known = self._known.get(id)
        if known is None:
            profile = fields_of(fields_of(self._profiles.get(name)).get("expert"))
            colour, avatar = profile.get("color"), profile.get("avatar")
            known = self._known[id] = PageExpert(
                id=id,
                name=name,
                colour=colour if isinstance(colour, str) and COLOR.fullmatch(colour) else self._new_colour(name),
                avatar=avatar if isinstance(avatar, str) and avatar else initials(name),
            )
        return known

    def _new_colour(self, name: str) -> str:
        """Prefer the hue of the name; where it is taken or near a taken one, take the one farthest from all others."""
        ring, used = divmod(len(self._slots), HUES)
        taken = self._slots[ring * HUES :]
        slot = crc32(name.encode()) % HUES
        if used and min(_distance(slot, other) for other in taken) <= NEAR:
            slot = max(range(HUES), key=lambda one: (min(_distance(one, other) for other in taken), -one))
        self._slots.append(slot)
        lightness, chroma = RINGS[ring % len(RINGS)]
        return oklch(lightness, chroma, 2 * pi * slot / HUES)


def pictures_of(source: JsonValue, names: Iterable[str]) -> list[JsonValue]:
    """Return the members of a team as they will look in its runs: name, description, colour and avatar."""
    looks = ExpertAppearance()
    looks.read_manifest(source)
    experts = [looks.expert(name, name) for name in names]
    return [
        {"name": one.name, "description": looks.description_of(one.name), "colour": one.colour, "avatar": one.avatar}
        for one in experts
    ]


def fields_of(value: JsonValue) -> Mapping[str, JsonValue]:
    """The fields of a JSON object; nothing for other values."""
    return value if isinstance(value, dict) else {}


def initials(name: str) -> str:
    """Two letters that stand for a name: the first ones of its first two words, or of the name."""
    words = [word for word in name.replace("-", " ").replace("_", " ").replace(".", " ").split() if word]
    letters = "".join(word[0] for word in words[:2]) if len(words) > 1 else name[:2]
    return letters.upper()


def _distance(one: int, other: int) -> int:
    apart = abs(one - other)
    return min(apart, HUES - apart)


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """Convert a colour of the OKLCH space, in which equal lightness looks equally light, to hexadecimal sRGB."""
    a, b = chroma * cos(hue), chroma * sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(1.0, max(0.0, part)))):02x}" for part in linear)


def _gamma(linear: float) -> float:
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055


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
