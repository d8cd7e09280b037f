"""Checks teams: members exist, options are valid, there are no cycles, strategies agree, handoffs can be made.

It knows no strategy by name: each declares its options as a class and reports further problems itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import islice, pairwise
from typing import cast, get_args

from pydantic import JsonValue

from teamwright.agents.agent import UNSET, Agent, Context, Policy
from teamwright.agents.registry import MOST_CYCLES, MOST_FALLBACKS, MOST_NESTED, cycle_text, depths, find_cycles
from teamwright.agents.tools.built_in import AGENT
from teamwright.agents.tools.registry import find_kind, kinds_in
from teamwright.documents.nodes import (
    COMPARISONS,
    Fields,
    Items,
    Node,
    Place,
    ProblemReport,
    Scalar,
    place_at,
    plain,
    shown,
)
from teamwright.documents.schema_check import SchemaCheck
from teamwright.errors import UsageError, a
from teamwright.strategies.plan.steps.step_options import owned_keys
from teamwright.strategies.protocol import TALKS, Issue, Members, Settings, Strategy
from teamwright.strategies.registry import (
    NamedAgent,
    find_strategy,
    missing_strategy,
    named_agents,
    option_flaws,
    options_schema,
    rename,
    settings_flaws,
    strategy_names,
    valid_options,
)
from teamwright.strategies.team_conversation import handoff_flaws
from teamwright.teams.manifests.declarations import OPTIONS, Declaration, Declarations, strategy_of
from teamwright.values.owned_paths import WILD, wildcards_problem
from teamwright.values.specs.members import Share
from teamwright.values.specs.tools import TERMINATE
from teamwright.values.turns.turn import Reply, Turn

Named = tuple[str, Place]

Asked = list[tuple[str, Place]]

Edge = tuple[str, str]


@dataclass(slots=True)
class AskGraph:
    """The agents and teams of a manifest, and whom each of them may ask."""

    declared: Declarations
    report: ProblemReport
    asked: dict[str, Asked] = field(default_factory=dict[str, Asked])
    """Whom each asks, with the place of the name; one that is unknown was reported before and is left out."""
    fallbacks: dict[Edge, Place] = field(default_factory=dict[Edge, Place])
    tools: dict[Edge, Place] = field(default_factory=dict[Edge, Place])

    def is_known(self, name: str) -> bool:
        return name in self.declared.agents or name in self.declared.teams

    def fallback_of(self, owner: Declaration, fallback: Scalar | None) -> Asked:
        """Return the fallback of an agent or a team; one that is its owner was reported before."""
        name = str(fallback.value) if fallback else owner.name
        if fallback is None or name == owner.name or not self.is_known(name):
            return []
        self.fallbacks[owner.name, name] = fallback.place
        return [(name, fallback.place)]

    def check(self) -> None:
        """Report cycles; where there are none, report chains that are too long."""
        for agent in self.declared.agents.values():
            tools = [(name, place) for name, place in agents_in_tools(agent, self.declared) if self.is_known(name)]
            self.tools.update(((agent.name, name), place) for name, place in tools)
            self.asked[agent.name] = [*tools, *self.fallback_of(agent, agent.fields.text("fallback"))]
        cycles = list(islice(find_cycles(self.asked, lambda name: self.asked[name]), MOST_CYCLES))
        for cycle, place in cycles:
            self._note_cycle(cycle, place)
        if not cycles:
            self._check_nesting()
            self._check_fallback_chains()

    def _check_nesting(self) -> None:
        asking = {owner for owner, _ in self.tools}
        levels = depths(
            self.asked,
            lambda name: (one for one, _ in self.asked[name]),
            lambda name: int(name in self.declared.teams or name in asking),
        )
        if deepest := next((one for one in self.declared.teams.values() if levels[one.name] > MOST_NESTED), None):
            message = f"{deepest.words} has teams nested {levels[deepest.name]} levels deep"
            self.report.problem(deepest.place, f"{message}; the maximum is {MOST_NESTED}", "nest fewer teams")
        elif deepest := next((one for one in self.declared.agents.values() if levels[one.name] > MOST_NESTED), None):
            message = f"{deepest.words} has agents as tools {levels[deepest.name]} levels deep"
            self.report.problem(deepest.place, f"{message}; the maximum is {MOST_NESTED}", "nest fewer agents")

    def _check_fallback_chains(self) -> None:
        agents = self.declared.agents
        lines = depths(
            agents,
            lambda name: (one for one, _ in self.asked[name] if one in agents),
            lambda name: int(agents[name].fields.text("fallback") is not None),
        )
        if longest := next((name for name in agents if lines[name] > MOST_FALLBACKS), None):
            message = (
                f"agent {shown(longest)} has a chain of {lines[longest]} fallbacks; the maximum is {MOST_FALLBACKS}"
            )
            self.report.problem(agents[longest].place, message, "only the first of them is ever asked")

    def _note_cycle(self, cycle: list[str], place: Place) -> None:
        last, member = cycle[-2:]
        words = "Teams contain each other"
        if fallback := _first_of(cycle, self.fallbacks):
            cycle, place = _starting_with(cycle, fallback), self.fallbacks[fallback]
            words = f"The fallback of {shown(cycle[0])} leads back to it"
        elif tool := _first_of(cycle, self.tools):
            cycle, place = _starting_with(cycle, tool), self.tools[tool]
            words = f"The tool {shown(tool[1])} of {shown(tool[0])} leads back to it"
        elif last == member:
            listed = any(name == member for name, _ in self.declared.teams[member].fields.texts("members"))
            words = f"team {shown(member)} is {'a member' if listed else 'a helper'} of itself"
        self.report.problem(place, f"{words}: {cycle_text(cycle)}", "take one of them out")


def _first_of(cycle: list[str], edges: dict[Edge, Place]) -> Edge | None:
    return next((edge for edge in pairwise(cycle) if edge in edges), None)


def _starting_with(cycle: list[str], edge: Edge) -> list[str]:
    start = cycle.index(edge[0])
    return [*cycle[start:-1], *cycle[: start + 1]]


def agents_in_tools(agent: Declaration, declared: Declarations) -> Iterator[Named]:
    """Yield the agents and teams among an agent's tools, also those behind the name of a declared tool."""
    yield from inline_agents(agent)
    for name, place in agent.fields.texts("tools"):
        if name in declared.tools:
            yield from ((inner, place) for inner, _ in agent_named_in(declared.tools[name].node))


def inline_agents(agent: Declaration) -> Iterator[Named]:
    """Yield the agents and teams that an agent's own list of tools names."""
    tools = agent.fields.get("tools")
    for item in tools.items if isinstance(tools, Items) else ():
        yield from agent_named_in(item)


def agent_named_in(tool: Node) -> Iterator[Named]:
    """Yield the agent or team that a declared tool asks, if it is such a tool."""
    name = tool.get(AGENT) if isinstance(tool, Fields) else None
    if isinstance(name, Scalar) and isinstance(name.value, str):
        yield name.value, name.place


HANDOFFS = "handoffs"

OTHER_FILE = "another file may declare it: add it with  --with FILE"

SPELLINGS = {"max_turns": "maxTurns"}

MAY_TERMINATE = UNSET.model_copy(update={"can_terminate": True})


@dataclass(frozen=True)
class Placeholder(Agent):
    """What is known of a member before its agent is built. It is never asked."""

    name: str
    kind: str = "model"
    description: str = ""
    policy: Policy = UNSET

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        raise AssertionError(f"{self.name!r} is only a placeholder")


def check_teams(declared: Declarations, report: ProblemReport) -> None:
    """Report every problem of the declared teams."""
    checks = _TeamChecks(declared, report, AskGraph(declared, report))
    for team in declared.every("team"):
        checks.check(team)
    checks.graph.check()
    check_lone_handoffs(declared, report)
    check_lone_talk(declared, report)
    checks.check_keys()


def check_reference(
    name: str, place: Place, kind: str, owner: str, declared: Declarations, report: ProblemReport
) -> None:
    """Report a name that is not declared, or that is declared as another kind."""
    found = "agent" if name in declared.agents else "team" if name in declared.teams else ""
    if not found:
        if not report.incomplete:
            hint = report.near(name, lambda: [*declared.agents, *declared.teams], OTHER_FILE)
            hint = hint if OTHER_FILE in hint else f"{hint} Or {OTHER_FILE}" if hint else OTHER_FILE
            report.problem(place, f"{owner}: there is no {kind or 'agent or team'} {shown(name)}", hint)
    elif kind and kind != found:
        report.problem(place, f"{owner}: {shown(name)} is of type {found!r}, not {kind!r}", f"write  type: {found}")


@dataclass(slots=True)
class _TeamChecks:
    declared: Declarations
    report: ProblemReport
    graph: AskGraph
    strategies: dict[str, Strategy] = field(default_factory=dict[str, Strategy])
    placeholders: dict[str, Placeholder] = field(default_factory=dict[str, Placeholder])
    keys: list[str] = field(default_factory=list[str])
    owners: list[Declaration] = field(default_factory=list[Declaration])

    def check(self, team: Declaration) -> None:
        members = list(team.fields.texts("members"))
        for name, place in members:
            wanted = self.declared.typed.get(place)
            check_reference(name, place, wanted.kind if wanted else "", team.words, self.declared, self.report)
        asked = [(name, place) for name, place in members if self.graph.is_known(name)]
        if self.declared.teams.get(team.name) is team:
            self.graph.asked[team.name] = asked
        asked += self.graph.fallback_of(team, team.fields.text("fallback"))
        self._check_workspace(team)
        strategy = self._strategy(team)
        options = team.fields.get(OPTIONS) or Fields({}, team.fields.key_place("strategy"))
        if strategy is None or not isinstance(options, Fields):
            self._check_handoffs(team, strategy, members, [])
            return
        self._note_unused(team, strategy)
        values = cast("Mapping[str, JsonValue]", plain(options))
        wrong = option_flaws(strategy, values)
        self._check_form(team, strategy, options, wrong)
        named = named_agents(strategy, values)
        known = dict(members)
        self._check_names(team, named, known, options)
        asked += [
            (one.name, place_at(options, one.at, one.name))
            for one in named
            if one.name not in known and self.graph.is_known(one.name)
        ]
        self._check_handoffs(team, strategy, members, named)
        usable = valid_options(strategy, values, wrong)
        if members and not team.flawed and usable is not None:
            settings = self._settings(team.fields, strategy, usable)
            self._check_flaws(team, strategy, settings, named)
            check_talk(team, strategy.talk_problem(settings), self.declared, self.report)
            self._collect_keys(team, owned_keys(strategy, settings))

    def _check_handoffs(
        self, team: Declaration, strategy: Strategy | None, members: list[tuple[str, Place]], named: list[NamedAgent]
    ) -> None:
        """Check the handoffs of members that exist, also in a team with other mistakes."""
        agents = self._placeholders(name for name in dict(members) if self.graph.is_known(name))
        helpers = self._placeholders(one.name for one in named if self.graph.is_known(one.name))
        check_team_handoffs(team, strategy, Members(agents, helpers), self.declared, self.report)

    def _check_workspace(self, team: Declaration) -> None:
        files = team.fields.get("workspace")
        if isinstance(files, Fields) and files.has("git") == files.has("folder"):
            message = f"{team.words}: 'workspace' needs either 'git' or 'folder'"
            self.report.problem(files.place, message, "write  workspace: {git: PATH}  for a repository")

    def _strategy(self, team: Declaration) -> Strategy | None:
        name = strategy_of(team.fields)
        if name not in self.strategies:
            try:
                self.strategies[name] = find_strategy(name)
            except UsageError as error:
                self._note_strategy(team, name, str(error))
                return None
        return self.strategies[name]

    def _note_strategy(self, team: Declaration, name: str, error: str) -> None:
        written, known = team.fields.text("strategy"), strategy_names()
        place = written.place if written else team.place
        if name in known or ":" in name or missing_strategy(name):
            self.report.problem(place, f"{team.words}: {error}")
            return
        shown_name = shown(str(written.value) if written else name)
        message = f"{team.words}: there is no strategy {shown_name}; known are {', '.join(known)}"
        self.report.problem(place, message, self.report.near(name, known, "choose one of them"))

    def _note_unused(self, team: Declaration, strategy: Strategy) -> None:
        limited = strategy.takes_handoffs and any(self._has_handoffs(name) for name, _ in team.fields.texts("members"))
        for name in () if limited else strategy.unused:
            if team.fields.has(name):
                entry = team.fields.entries[name]
                message = f"{team.words}: {entry.key!r} changes nothing in {a(strategy.name)} team"
                self.report.warning(entry.place, message)
        share = team.fields.text("share")
        if team.fields.has("envelope") and (share.value if share else strategy.share) != "a2a_lite":
            message = f"{team.words}: 'envelope' changes nothing without  share: a2a_lite"
            self.report.warning(team.fields.entries["envelope"].place, message)

    def _has_handoffs(self, name: str) -> bool:
        agent = self.declared.agents.get(name)
        return agent is not None and bool(declared_handoffs(agent))

    def _check_form(self, team: Declaration, strategy: Strategy, options: Fields, wrong: Iterable[Issue]) -> None:
        """Report options that do not match the strategy's schema, once for each place."""
        model, before = strategy.options, len(self.report.problems)
        if model is None:
            return
        schema = options_schema(model)
        block = team.fields.entries.get(OPTIONS)
        if block is None and schema.get("required"):
            needed = ", ".join(f"{name}: …" for name in cast("list[str]", schema["required"]))
            key = OPTIONS if ":" in strategy_of(team.fields) else strategy.name
            message = f"{team.words}: {strategy.name} needs options, under {key!r}"
            self.report.problem(options.place, message, f"write  {key}: {{{needed}}}")
        elif block is not None and options.entries and not schema.get("properties"):
            self.report.problem(block.place, f"{team.words}: {strategy.name} takes no options", f"remove {block.key!r}")
        else:
            definitions = cast("Mapping[str, JsonValue]", schema.get("$defs", {}))
            SchemaCheck(team.words, self.report, definitions).check(options, schema, block.key if block else "")
        reported = {(one.file, one.line) for one in self.report.problems[before:]}
        for flaw in wrong:
            place = place_at(options, flaw.at)
            if (place.file, place.line) not in reported:
                self.report.problem(place, f"{team.words}: {flaw.text.removeprefix('options: ')}")

    def _check_names(
        self, team: Declaration, named: list[NamedAgent], members: Mapping[str, Place], options: Fields
    ) -> None:
        for one in named:
            place = place_at(options, one.at, one.name)
            if one.kind == "agent":
                check_reference(one.name, place, "", team.words, self.declared, self.report)
            elif one.name not in members:
                hint = self.report.near(one.name, members)
                self.report.problem(place, f"{shown(one.name)} is not a member of {team.words}", hint)

    @staticmethod
    def _settings(fields: Fields, strategy: Strategy, options: Mapping[str, JsonValue]) -> Settings:
        """The settings as far as they are valid; mistakes in them were reported before."""
        share, turns, then = fields.text("share"), fields.get("max_turns"), fields.text("on_max_turns")
        most = 1 if fields.has("max_turns") else None
        if isinstance(turns, Scalar) and isinstance(turns.value, int) and turns.value > 0:
            most = int(turns.value)
        sharing = cast("Share", share.value if share and share.value in get_args(Share) else strategy.share)
        return Settings(sharing, most, "fail" if then and then.value == "fail" else "stop", options)

    def _check_flaws(self, team: Declaration, strategy: Strategy, settings: Settings, named: list[NamedAgent]) -> None:
        """Report what the strategy objects to, except for flaws that only follow from a misspelt member."""
        members = [name for name, _ in team.fields.texts("members")]
        if any(one.kind == "member" and one.name not in members for one in named):
            settings = self._with_nearest_names(settings, named, members)
        once = dict.fromkeys(members)
        helpers = self._placeholders(one.name for one in named)
        found = settings_flaws(strategy, settings, Members(self._placeholders(members), helpers))
        alone = found
        if found and len(once) < len(members):
            alone = settings_flaws(strategy, settings, Members(self._placeholders(once), helpers))
        for flaw in found:
            if flaw in alone:
                self._note(team, flaw)
            else:
                self._note_twice(team, flaw)

    def _with_nearest_names(self, settings: Settings, named: list[NamedAgent], members: list[str]) -> Settings:
        """The settings with unknown names replaced by the nearest member; a name near to none is added to `members`."""
        options = deepcopy(dict(settings.options))
        for one in named:
            if one.kind == "agent" or one.name in members:
                continue
            few = self.report.compared <= COMPARISONS
            if near := get_close_matches(one.name, members, n=1) if few else []:
                rename(options, one.at, near[0])
            else:
                members.append(one.name)
        return replace(settings, options=options)

    def _note(self, team: Declaration, flaw: Issue) -> None:
        fields, text = team.fields, flaw.text
        options = fields.get(OPTIONS)
        key = "max_turns" if "max_turns" in text and fields.has("max_turns") else "strategy"
        place = place_at(options, flaw.at) if flaw.at and options else fields.key_place(key)
        if team.ark:
            for ours, theirs in SPELLINGS.items():
                text = re.sub(rf"\b{ours}\b", theirs, text)
        note = self.report.warning if flaw.is_warning else self.report.problem
        note(place, f"{team.words}: {text}")

    def _note_twice(self, team: Declaration, flaw: Issue) -> None:
        """Report a flaw that is caused by a repeated member at the place of the repetition."""
        seen: set[str] = set()
        for name, place in team.fields.texts("members"):
            if name in seen:
                self.report.problem(place, f"{team.words}: {flaw.text}", f"{shown(name)} is a member twice")
                return
            seen.add(name)

    def _placeholders(self, names: Iterable[str]) -> list[Agent]:
        known = self.placeholders
        return [known.get(name) or known.setdefault(name, self._placeholder(name)) for name in names]

    def _placeholder(self, name: str) -> Placeholder:
        one = self.declared.agents.get(name) or self.declared.teams.get(name)
        if one is None:
            return Placeholder(name)
        description = one.fields.text("description")
        ends = one.kind == "agent" and any(tool == TERMINATE for tool, _ in one.fields.texts("tools"))
        policy = MAY_TERMINATE if ends else UNSET
        if one.kind == "agent" and (handoffs := declared_handoffs(one)):
            policy = policy.model_copy(update={"handoffs": handoffs})
        return Placeholder(name, self._kind(one), str(description.value) if description else "", policy)

    def _kind(self, one: Declaration) -> str:
        if one.kind == "team":
            return "team"
        if one.fields.has("function"):
            return "function"
        model = one.fields.get("model")
        declared = self.declared.models.get(str(model.value)) if isinstance(model, Scalar) else None
        written = declared.node if declared else model
        name = written.get("model") if isinstance(written, Fields) else written
        scripted = isinstance(name, Scalar) and str(name.value).startswith("scripted:")
        return "scripted" if scripted else "model"

    def _collect_keys(self, team: Declaration, keys: list[str]) -> None:
        """Add the keys of a team, unless they alone are too many, which its strategy has reported."""
        if wildcards_problem(keys) is None:
            self.keys += keys
            if not WILD.isdisjoint("".join(keys)):
                self.owners.append(team)

    def check_keys(self) -> None:
        """Report keys that are few enough in each team, but too many in all teams together."""
        if problem := wildcards_problem(self.keys):
            place = self.owners[0].fields.key_place("strategy")
            self.report.problem(place, f"the steps of all teams together {problem}")


def declared_handoffs(agent: Declaration) -> tuple[str, ...] | bool:
    """Return the handoffs of an agent as far as they are valid; mistakes in their form were reported before."""
    given = agent.fields.get(HANDOFFS)
    if isinstance(given, Items):
        return tuple(name for name, _ in agent.fields.texts(HANDOFFS))
    return isinstance(given, Scalar) and given.value is True


def check_team_handoffs(
    team: Declaration, strategy: Strategy | None, members: Members, declared: Declarations, report: ProblemReport
) -> None:
    """Report handoffs of members that their team can't make, where they are declared."""
    for flaw in handoff_flaws(strategy, members):
        agent = declared.agents[flaw.member]
        hint = report.near(flaw.to, flaw.known) if flaw.known else ""
        report.problem(_place_of(agent, flaw.to), f"{team.words}: {flaw.text}", hint)


def check_talk(team: Declaration, problem: str | None, declared: Declarations, report: ProblemReport) -> None:
    """Report the tools with which members of a team would talk, if `problem` says why no one would hear them."""
    for name in dict.fromkeys(name for name, _ in team.fields.texts("members")) if problem is not None else ():
        agent = declared.agents.get(name)
        if agent is not None and (place := _talk_place(agent, declared)) is not None:
            report.problem(place, f"{team.words}: {shown(name)} {TALKS}, and {problem}", "or remove the tools")


def check_lone_talk(declared: Declarations, report: ProblemReport) -> None:
    """Report tools of talk of agents that are in no team, and of agents that are tools, which have no colleagues."""
    talkers = {name: place for name, one in declared.agents.items() if (place := _talk_place(one, declared))}
    if not talkers:
        return
    tools = {name: owner for owner in declared.agents.values() for name, _ in agents_in_tools(owner, declared)}
    members = {name for team in declared.every("team") for name, _ in team.fields.texts("members")}
    for name, place in talkers.items():
        if owner := tools.get(name):
            text = f"agent {shown(name)} {TALKS}, so it can't be a tool of {shown(owner.name)}"
            report.problem(place, text, "make it a member of a team, or remove the tools")
        elif name not in members:
            text = f"agent {shown(name)} {TALKS} and is a member of no team"
            report.problem(place, text, "put it into a team with  talk: all, or remove the tools")


def _talk_place(agent: Declaration, declared: Declarations) -> Place | None:
    """The place of the first tools with which an agent talks to colleagues, if it has any."""
    tools = agent.fields.get("tools")
    for item in tools.items if isinstance(tools, Items) else ():
        named = declared.tools.get(str(item.value)) if isinstance(item, Scalar) else None
        fields = named.node if named is not None else item
        if isinstance(fields, Fields) and any(find_kind(kind).talks for kind in kinds_in(fields.entries)):
            return item.place
    return None


def check_lone_handoffs(declared: Declarations, report: ProblemReport) -> None:
    """Report handoffs of agents that are in no team, and of agents that are tools, which have no turn in a team."""
    tools = {name: owner for owner in declared.agents.values() for name, _ in agents_in_tools(owner, declared)}
    members = {name for team in declared.every("team") for name, _ in team.fields.texts("members")}
    for agent in declared.agents.values():
        if not declared_handoffs(agent):
            continue
        if owner := tools.get(agent.name):
            text = f"{agent.words} has handoffs, so it can't be a tool of {shown(owner.name)}"
            report.problem(_place_of(agent), text, "make its team the tool")
        elif agent.name not in members:
            report.problem(_place_of(agent), f"{agent.words} has handoffs and is a member of no team", "remove them")


def _place_of(agent: Declaration, target: str = "") -> Place:
    """The place of a target in the handoffs of an agent, or of all of them."""
    named: Iterable[tuple[str, Place]] = agent.fields.texts(HANDOFFS) if target else ()
    return next((place for name, place in named if name == target), agent.fields.key_place(HANDOFFS))
