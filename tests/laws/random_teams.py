"""Random teams: every strategy, nested, with members whose calls a test answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from teamwright.agents.agent import Agent
from teamwright.teams.team import Team
from teamwright.values.limits import Limits
from teamwright.values.people import Confirm
from tests.laws.pending_calls import MemberSpec, PendingCalls

DEPTH = 3
MOST_LEAVES = 8


@dataclass(frozen=True)
class TeamSpec:
    """A team as data, so that every driver can make it again."""

    name: str
    strategy: str
    members: tuple[MemberSpec | TeamSpec, ...]
    helpers: tuple[MemberSpec | TeamSpec, ...] = ()
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])

    def team(self, pending: PendingCalls, known: dict[str, Any] | None = None) -> Team:
        known = {} if known is None else known
        members = [_agent(one, pending, known) for one in self.members]
        helpers = [_agent(one, pending, known) for one in self.helpers]
        settings = dict(self.settings)
        if "fallback" in settings:
            settings["fallback"] = next(one for one in helpers if one.name == settings["fallback"])
        return Team(
            self.name, members=members, helpers=helpers, strategy=self.strategy, options=self.options, **settings
        )

    def everyone(self) -> Iterator[MemberSpec | TeamSpec]:
        yield self
        for one in (*self.members, *self.helpers):
            if isinstance(one, TeamSpec):
                yield from one.everyone()
            else:
                yield one
                if one.fallback:
                    yield one.fallback

    def limits(self) -> dict[str, Limits]:
        """The limits of all members and teams that have any, by name."""
        found = {
            one.name: one.settings.get("limits") if isinstance(one, TeamSpec) else one.limits for one in self.everyone()
        }
        return {name: limits for name, limits in found.items() if limits is not None}

    @property
    def has_call_limits(self) -> bool:
        """Whether calls wait for each other, because of a budget or a rate limit."""
        paced = any(isinstance(one, MemberSpec) and one.paced for one in self.everyone())
        return paced or any(one.tokens is not None or one.calls is not None for one in self.limits().values())

    @property
    def has_deadline(self) -> bool:
        """Whether a member or team has a limit in seconds."""
        return any(one.seconds is not None for one in self.limits().values())


def _agent(one: MemberSpec | TeamSpec, pending: PendingCalls, known: dict[str, Any]) -> Agent:
    return one.team(pending, known) if isinstance(one, TeamSpec) else one.agent(pending, known)


BOUNDS = st.one_of(
    *[st.none()] * 12,
    st.builds(Limits, tokens=st.integers(40, 2000)),
    st.builds(Limits, calls=st.integers(1, 12)),
    st.builds(Limits, seconds=st.sampled_from([0.5, 2.0])),
)
APPROVALS = st.sampled_from([None] * 10 + [Confirm(before=True), Confirm(after=True), Confirm(before=True, after=True)])
RARELY = st.sampled_from([False] * 5 + [True])
FAILURES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"on_failure": "skip"}, {"on_failure": "collect"}, {"on_failure": "collect"}, {"on_failure": "cancel"}]
)


class TeamDraw:
    """Draws one team."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self._leaves = (f"m{number}" for number in itertools.count())
        self._teams = (f"t{number}" for number in itertools.count())
        self._made = 0

    def leaf(self, *, alone: bool = False) -> MemberSpec:
        """Draw a member; with `alone` it has no fallback and default policies."""
        draw = self.draw
        self._made += 1
        name, plain = next(self._leaves), draw(st.booleans())
        calls = 1 if plain else draw(st.sampled_from([1, 1, 1, 2, 0]))
        if alone:
            return MemberSpec(name, calls, plain)
        standing = draw(st.sampled_from(["", "", "", "optional", "optional", "critical"]))
        return MemberSpec(
            name,
            calls,
            plain,
            retries=draw(st.sampled_from([0, 0, 1])),
            optional=standing == "optional",
            critical=standing == "critical",
            fallback=self.leaf(alone=True) if draw(RARELY) else None,
            limits=draw(BOUNDS) if draw(RARELY) else None,
            capped=draw(st.booleans()),
            paced=None if plain else draw(st.sampled_from([None, None, None, 1, 2])),
            confirm=draw(APPROVALS),
            writes=draw(st.sampled_from([None, None, "swap", "over"])),
            rest=draw(st.sampled_from([0, 0, 0.5])),
        )

    def member(self, depth: int) -> MemberSpec | TeamSpec:
        if depth < DEPTH and self._made < MOST_LEAVES and self.draw(st.integers(0, 2 + depth)) == 0:
            return self.team(depth + 1)
        return self.leaf()

    def team(self, depth: int = 1) -> TeamSpec:
        draw = self.draw
        name, strategy = next(self._teams), draw(st.sampled_from([*STRATEGIES, *SIDE_BY_SIDE]))
        count = draw(st.sampled_from([3, 2, 1])) if self._made < MOST_LEAVES else 1
        count = max(count, 2 if strategy == "mesh_team" else 1)
        # Members of a mesh are asked repeatedly; nested teams would make the run too long.
        members = tuple(self.leaf() if strategy == "mesh_team" else self.member(depth) for _ in range(count))
        options, helpers, settings = STRATEGIES[strategy](self, [one.name for one in members])
        settings = {"share": draw(st.sampled_from(["transcript", "output"])), "limits": draw(BOUNDS), **settings}
        if depth > 1:
            settings["optional"] = draw(RARELY)
            settings["confirm"] = draw(APPROVALS)
        if draw(RARELY):
            other = self.leaf(alone=True)
            helpers = [*helpers, other]
            settings["fallback"] = other.name
        return TeamSpec(name, strategy, members, tuple(helpers), options, settings)

    def helper(self) -> MemberSpec | TeamSpec:
        if self.draw(st.integers(0, 7)) == 0:
            inner = (self.leaf(), self.leaf())
            return TeamSpec(next(self._teams), "sequential", inner)
        return self.leaf()


Parts = tuple[dict[str, Any], list[MemberSpec | TeamSpec], dict[str, Any]]
"""Options, helpers and settings."""


def _sequential(draws: TeamDraw, names: list[str]) -> Parts:
    return {}, [], {}


def _round_robin(draws: TeamDraw, names: list[str]) -> Parts:
    return {}, [], {"max_turns": draws.draw(st.integers(1, 2)), "on_max_turns": _at_the_end(draws)}


def _at_the_end(draws: TeamDraw) -> str:
    return draws.draw(st.sampled_from(["stop", "stop", "fail"]))


def _selector(draws: TeamDraw, names: list[str]) -> Parts:
    chair = draws.helper()
    options: dict[str, Any] = {"agent": chair.name, "allow_repeat": draws.draw(st.booleans())}
    if len(names) > 1 and draws.draw(st.booleans()):
        ring = zip(names, [*names[1:], names[0]], strict=True)
        options["edges"] = [{"from": one, "to": other} for one, other in ring]
    return options, [chair], {"max_turns": draws.draw(st.integers(1, 4)), "on_max_turns": _at_the_end(draws)}


def _graph(draws: TeamDraw, names: list[str]) -> Parts:
    draw, edges = draws.draw, list[dict[str, Any]]()
    for one, other in itertools.pairwise(names):
        if draw(st.booleans()):
            edges.append({"from": one, "to": names[0], "when": draw(st.sampled_from(["'again' in text", "data.ok"]))})
        if draw(st.booleans()):
            edges.append({"from": one, "to": other, "when": "error is not none"})
        edges.append({"from": one, "to": other, "task": draw(st.sampled_from([None, "Now {{ text }}"]))})
    if not edges or draw(st.booleans()):
        edges.append({"from": names[-1], "to": names[0], "when": "'again' in text or error == 'refused'"})
    return {"edges": edges}, [], {"max_turns": draw(st.integers(2, 5)), "on_max_turns": _at_the_end(draws)}


def _fan_out(draws: TeamDraw, names: list[str]) -> Parts:
    draw, helpers = draws.draw, list[MemberSpec | TeamSpec]()
    options: dict[str, Any] = {"max_parallel": draw(st.integers(1, 3)), **draw(FAILURES)}
    if draw(st.booleans()):
        options["chunks"] = draw(st.sampled_from([["one"], ["one", "two"], ["one", {"two": 2}, "one"]]))
    else:
        helpers.append(draws.helper())
        options["splitter"] = helpers[-1].name
    if draw(st.booleans()):
        helpers.append(draws.helper())
        options["answer"] = helpers[-1].name
    if draw(st.booleans()):
        options["task"] = "Chunk {{ number }} of {{ count }}: {{ chunk }}"
    return options, helpers, {}


def _dag(draws: TeamDraw, names: list[str]) -> Parts:
    draw, steps = draws.draw, list[dict[str, Any]]()
    for number in range(draw(st.integers(len(names), len(names) + 2))):
        earlier = [step["id"] for step in steps]
        needs = draw(st.lists(st.sampled_from(earlier), max_size=2, unique=True)) if earlier else []
        step: dict[str, Any] = {"id": f"s{number}", "agent": names[number % len(names)], "needs": needs}
        conditions = [None, None, "failed | length == 0", *(f"'no' not in outputs.{need}" for need in needs)]
        step["when"] = draw(st.sampled_from(conditions))
        step["owns"] = draw(st.sampled_from([[], [], ["x"], ["y"], ["x", "y/a"], ["y/**"]]))
        steps.append(step)
    return {"steps": steps, "max_parallel": draw(st.integers(1, 3)), **draw(FAILURES)}, [], {}


def _hierarchical(draws: TeamDraw, names: list[str]) -> Parts:
    draw, boss = draws.draw, draws.helper()
    options = {
        "lead": boss.name,
        "max_iterations": draw(st.integers(1, 3)),
        "max_parallel": draw(st.integers(1, 3)),
    }
    return options | draw(FAILURES), [boss], {"on_max_turns": _at_the_end(draws)}


def _reactive(draws: TeamDraw, names: list[str]) -> Parts:
    draw = draws.draw
    subscriptions: list[dict[str, Any]] = [{"agent": names[0], "on": "workflow.started"}]
    for name in names:
        on = draw(st.sampled_from(["go", "go", "agent.error", "workflow.started"]))
        emits = draw(st.sampled_from([[], [], [{"type": "go"}], [{"type": "done", "when": "'again' in text"}]]))
        subscriptions.append({"agent": name, "on": on, "emits": emits})
    options: dict[str, Any] = {
        "subscriptions": subscriptions,
        "max_events": draw(st.integers(2, 6)),
        "max_depth": draw(st.integers(1, 4)),
        "max_parallel": draw(st.integers(1, 3)),
        "goal": draw(st.sampled_from([None, None, "'done' in emitted", "state.n | default(0) == 1"])),
    }
    return options | draw(FAILURES), [], {"on_max_turns": _at_the_end(draws)}


def _single(draws: TeamDraw, names: list[str]) -> Parts:
    options, helpers, settings = _dag(draws, names)
    del options["max_parallel"]
    return options, helpers, settings


def _lead_subagent(draws: TeamDraw, names: list[str]) -> Parts:
    lead = draws.helper()
    return {**_single(draws, names)[0], "lead": lead.name}, [lead], _talking(draws)


def _star_team(draws: TeamDraw, names: list[str]) -> Parts:
    options, helpers, settings = _lead_subagent(draws, names)
    for step in options["steps"]:
        if draws.draw(st.booleans()):
            del step["agent"]
        step["owns"] = draws.draw(st.sampled_from([[], [], ["it"], ["it", "that"]]))
    options["max_parallel"] = draws.draw(st.sampled_from([None, 1, 2, 3]))
    options["rounds_of_talk"] = draws.draw(st.integers(0, 1))
    return options, helpers, settings


def _talking(draws: TeamDraw) -> dict[str, Any]:
    return {"share": draws.draw(st.sampled_from(["a2a_lite", "transcript", "output"]))}


STRATEGIES: dict[str, Callable[[TeamDraw, list[str]], Parts]] = {
    "sequential": _sequential,
    "round_robin": _round_robin,
    "selector": _selector,
    "graph": _graph,
    "fan_out": _fan_out,
    "dag": _dag,
    "hierarchical": _hierarchical,
    "reactive": _reactive,
    "single": _single,
    "lead_subagent": _lead_subagent,
    "star_team": _star_team,
    "mesh_team": _star_team,
}


SIDE_BY_SIDE = ("fan_out", "dag", "hierarchical", "reactive", "star_team", "mesh_team")
"""Concurrent strategies, drawn more often because order matters most in them."""


@st.composite
def team_specs(draw: st.DrawFn) -> TeamSpec:
    """A random team."""
    return TeamDraw(draw).team()
