"""A team: members and a strategy. A team is an agent, so teams nest without special cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack, cast

from msgspec import Struct
from pydantic import JsonValue
from typing_extensions import TypeIs

from teamwright.agents.agent import (
    UNSET,
    Agent,
    Context,
    Policy,
    agent_spec_of,
    check_fallback,
    declaration_of,
    has_policy,
    judges_of,
    require_agent,
)
from teamwright.agents.constructor_arguments import (
    Mistakes,
    check_arguments,
    check_instance,
    checked_call,
    listed,
    value_of,
)
from teamwright.agents.json_schema import Schema, as_schema, with_data
from teamwright.agents.registry import depths
from teamwright.agents.settings import PolicySettings, policy_for
from teamwright.errors import MemberFailed, Problem, UsageError
from teamwright.strategies.protocol import Members, Settings, Strategy, Task, require_strategy, run_strategy
from teamwright.strategies.registry import find_strategy
from teamwright.values.call_limits import Compact
from teamwright.values.events.agent import Body
from teamwright.values.events.team import TeamEnded, TeamStarted
from teamwright.values.limits import Degradation, Limits
from teamwright.values.names import check_name, escape_references
from teamwright.values.people import Confirm, Notify, signing_key
from teamwright.values.retries import Recovery, RetryPolicy, TooLong
from teamwright.values.specs.members import Share, TeamWorkspace
from teamwright.values.text.secrets import HIDDEN
from teamwright.values.turns.messages import EnvelopeSettings
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.value import Value

if TYPE_CHECKING:  # large classes, which no one needs who only imports `Team`
    from teamwright.values.specs.manifest import Manifest, Source, TeamSpec


class TeamRoster(Struct, frozen=True):
    """Every agent of a team, found once: a team may have thousands, and the start of a run asks for them often.

    `teams` are the teams among them, this one first; `settled` are those with a policy of their own.
    """

    agents: tuple[Agent, ...]
    teams: tuple[Team, ...]
    settled: tuple[Agent, ...]
    kinds: frozenset[str]


class TeamSettings(TypedDict, total=False):
    """The settings of a team that most teams leave out; `TeamSpec` says what each is for."""

    on_max_turns: Literal["stop", "fail"]
    envelope: EnvelopeSettings | None
    degradation: Degradation
    limits: Limits | None
    compact: Compact | None
    retry: RetryPolicy | None
    fallback: Agent | None
    too_long: TooLong | None
    confirm: Confirm | None
    notify: Notify | None
    optional: bool
    critical: bool
    evaluate: Agent | None
    workspace: TeamWorkspace | None


class Team(Agent):
    """Members that work together by a strategy, under common limits.

    `attachments` are files that go with the task of each run of the team, unless the run continues another.
    `helpers` are agents that the strategy asks by name and that are not members: a selector, a splitter. A team from a
    record is already `checked`; newer checks must not prevent a resume.
    """

    kind = "team"
    stored_files: Mapping[str, Body] = MappingProxyType({})
    """The files that travel with runs of this team, by their paths, and that the journal has already."""
    code: str = ""
    """The digest of the folder with the team's code; empty if it needs installed packages alone."""
    moved_to: str = ""
    """The folder of its manifest, if that is another one now than the record of the run says."""
    permit: Callable[[Manifest], None] | None = None
    """Raises `UsageError` if its manifest with a new member uses what this process does not allow."""

    @checked_call("team", TeamSettings.__optional_keys__)
    def __init__(
        self,
        name: str,
        *,
        members: Sequence[Agent],
        helpers: Sequence[Agent] = (),
        strategy: str | Strategy = "sequential",
        options: Mapping[str, JsonValue] | Value | None = None,
        description: str = "",
        share: Share | None = None,
        max_turns: int | None = None,
        output_schema: Schema | type[object] | None = None,
        attachments: Sequence[Path | str] = (),
        checked: bool = False,
        **settings: Unpack[TeamSettings],
    ) -> None:
        self.name, owner, mistakes = check_name("team", name), f"The team {name!r}", Mistakes()
        collect = mistakes.collect
        self.members = collect(_agents, owner, "members", members)
        self.helpers = collect(_helpers, owner, helpers, self.members, settings.get("fallback"))
        self.strategy = collect(_strategy, strategy)
        own = PolicySettings(
            limits=settings.get("limits"),
            confirm=settings.get("confirm"),
            optional=settings.get("optional", False),
            critical=settings.get("critical", False),
            evaluate=settings.get("evaluate"),
        )
        others = {"recovery": collect(_recovery, owner, settings), "compact": settings.get("compact")}
        self.policy = collect(policy_for, owner, own, **others) or UNSET
        collect(_check_no_tools, owner, self.policy)
        self.output_schema = collect(as_schema, output_schema, f"the answer of the team {name!r}")
        self.degradation: Degradation = settings.get("degradation", "none")
        then = settings.get("on_max_turns", "stop")
        given = {"share": share, "degradation": self.degradation, "max_turns": max_turns, "on_max_turns": then}
        from teamwright.values.specs.manifest import TeamSpec

        collect(check_arguments, owner, TeamSpec, description=description, **given)
        envelope = collect(value_of, owner, "envelope", settings.get("envelope"), EnvelopeSettings)
        collect(check_instance, owner, "options", options, Mapping, Value)
        self.workspace = collect(_checked_workspace, owner, settings.get("workspace"))
        self.notify = collect(_checked_notify, owner, settings.get("notify"))
        self.attachments = collect(_paths, owner, attachments)
        mistakes.raise_all()
        self.description = description
        self._written_strategy = strategy if isinstance(strategy, str) and ":" in strategy else None
        given_options = cast("dict[str, JsonValue]", _as_json(options or {}, owner))
        self.settings = Settings(share or self.strategy.share, max_turns, then, given_options, envelope)
        self.levels: int = 1 + max((_levels(one) for one in (*self.members, *self.helpers)), default=0)
        """The nesting depth of teams, this one included."""
        self.secrets: frozenset[str] = frozenset()
        self.declared: Source | None = None
        self.bundle: dict[str, JsonValue] | None = None
        self.warnings: tuple[Problem, ...] = ()
        self._may_start = False
        self._declaration: tuple[object, JsonValue] = None, None
        if not checked:
            from teamwright.teams.preflight import check_team

            self.warnings = check_team(self)

    def check_start(self) -> None:
        """Raise `ManifestError` if a run of this team can't start: a cycle of fallbacks, too many owned keys, no model,
        no sandbox on this machine.

        A manifest was checked when it was loaded, but for models that `--model` might have replaced.
        """
        if self._may_start:
            return
        from teamwright.teams.preflight import check_declared, check_sandboxes, check_start

        if self.declared is None:
            check_start(self)
        if "model" in self.roster.kinds:
            check_declared(self.roster.agents)
        check_sandboxes(self)
        self._may_start = True

    def known_secrets(self) -> frozenset[str]:
        """Return the secrets of the team, which a run masks before it records or delivers anything.

        Those of a team that was made in Python may change: its MCP servers inherit variables, and a caller's own model
        may get another key.
        """
        if self.declared is not None:
            return self.secrets
        from teamwright.teams.manifests.environment_variables import secrets_in

        return secrets_in(self.roster.agents, self.roster.settled, self.declaration())

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Run the strategy on the task and return its outcome as a reply."""
        await ctx.emit(
            TeamStarted(
                strategy=self.strategy.name,
                strategy_version=self.strategy.version,
                members=tuple(member.name for member in self.members),
                share=self.settings.share,
            )
        )
        members = Members(self.members, self.helpers)
        task, note = Task(turn.task, turn.history, self.settings, turn.attachments), None
        if self.settings.share == "a2a_lite":
            from teamwright.strategies.envelopes import run_with_envelopes

            nested = turn.envelope_limits is not None
            outcome, note = await run_with_envelopes(self.strategy, task, members, ctx, nested=nested)
        else:
            outcome = await run_strategy(self.strategy, task, members, ctx)
        await ctx.emit(TeamEnded(stop_reason=outcome.stop_reason, turns=len(outcome.messages), status=outcome.status))
        if failure := outcome.failure:
            text = f"{failure.asked!r} failed: {failure.message}" if failure.member else failure.message
            messages = (*outcome.messages, *failure.messages)
            warnings = self._with_team_name((*outcome.warnings, *failure.warnings))
            raise MemberFailed(failure.error, text, messages, outcome.data, failure.member, warnings)
        reply = Reply(
            messages=outcome.messages,
            data=outcome.data,
            stop_reason=outcome.stop_reason,
            warnings=self._with_team_name(outcome.warnings),
            envelope_note=note,
        )
        return with_data(reply, self.output_schema, f"The answer of the team {self.name!r}", turn.output_schema)

    def _with_team_name(self, warnings: Iterable[str]) -> tuple[str, ...]:
        """Prefix warnings with the team's name, unless a single agent of that name has done so."""
        prefix = f"{self.name}: "
        return tuple(text if self.is_single_agent and text.startswith(prefix) else prefix + text for text in warnings)

    def everyone(self) -> Sequence[Agent]:
        """Return this team, its members, helpers and fallbacks, the agents among their tools, and theirs, each once."""
        return self.roster.agents

    @cached_property
    def roster(self) -> TeamRoster:
        found: dict[int, Agent] = {}  # agents need not be hashable
        teams: list[Team] = []
        settled: list[Agent] = []
        pending: list[Agent] = [self]
        while pending:
            agent = pending.pop()
            if id(agent) in found:
                continue
            found[id(agent)] = agent
            is_set = has_policy(agent)  # a team may have thousands of members, most of them without
            if is_set:
                settled.append(agent)
                pending.extend(judges_of(agent))
            if _is_team(agent):
                teams.append(agent)
                pending.extend(reversed((*agent.members, *agent.helpers)))
                continue
            if tools := agent.tool_agents:
                pending.extend(reversed(tools))
            if is_set and (other := agent.policy.fallback) is not None and other.name != agent.name:
                pending.append(other)
        agents = tuple(found.values())
        return TeamRoster(agents, tuple(teams), tuple(settled), frozenset(agent.kind for agent in agents))

    @property
    def member_fallback(self) -> Agent | None:
        """The fallback for members without one of their own."""
        name = self.policy.recovery.fallback if self.policy.recovery else None
        return Members(self.members, self.helpers).named(name) if name else None

    def strategies(self) -> dict[str, int]:
        return {team.strategy.name: team.strategy.version for team in self.roster.teams}

    @property
    def places_branches(self) -> bool:
        """Whether its strategy places branches on workers, each as a run of its own."""
        model = self.strategy.options
        if model is None or "placement" not in self.settings.options:
            return False
        from teamwright.strategies.part_results import PlacedParts

        if not issubclass(model, PlacedParts):
            return False
        return self.settings.read(model).placement == "workers"

    @property
    def is_single_agent(self) -> bool:
        """Whether this is a single agent that runs as a team under its own name."""
        return len(self.members) == 1 and self.members[0].name == self.name

    @property
    def sole_member(self) -> Agent:
        """The agent that runs as a team under its own name; the team itself if it is a real one."""
        return self.members[0] if self.is_single_agent else self

    @property
    def spec(self) -> TeamSpec:
        from teamwright.values.specs.manifest import TeamSpec

        spec = TeamSpec(
            description=self.description,
            strategy=self._written_strategy or self.strategy.name,
            members=tuple(member.name for member in self.members),
            share=self.settings.share,
            envelope=self.settings.envelope,
            degradation=self.degradation,
            max_turns=self.settings.max_turns,
            on_max_turns=self.settings.on_max_turns,
            limits=self.policy.limits,
            output_schema=self.output_schema,
            options=dict(self.settings.options),
            compact=self.policy.compact,
            confirm=self.policy.confirm,
            notify=self.notify,
            optional=self.policy.optional,
            critical=self.policy.critical,
        )
        rare: dict[str, object] = {}  # fields that most teams leave out, which are then omitted from the record
        if self.policy.recovery is not None:
            rare.update((name, value) for name, value in self.policy.recovery if value is not None)
        if self.attachments:
            rare["attachments"] = tuple(map(str, self.attachments))
        if self.policy.evaluate is not None:
            rare["evaluate"] = declaration_of(self.policy.evaluate)
        if self.workspace is not None:
            rare["workspace"] = self.workspace
        return spec.model_copy(update=rare) if rare else spec

    @property
    def source(self) -> Source:
        """The team and all of its agents as a declaration, from which a resume rebuilds them."""
        if self.declared is not None:
            return self.declared
        from teamwright.values.specs.manifest import Source

        source = Source(manifest=_manifest(self.roster), team=self.name)
        # Fields that were never set are omitted from the record.
        return source if self.bundle is None else source.model_copy(update={"bundle": self.bundle})

    def declaration(self) -> JsonValue:
        """Return the source as JSON, which may hold secrets and is not to be changed. A team is declared once.

        Python reads no environment variables, so `${` is escaped in the texts of a team that was made in Python.
        """
        of, known = self._declaration
        if known is None or of is not (self.declared or self.bundle):
            said = self.source.to_json()
            known = said if self.declared is not None else escape_references(said)
            self._declaration = self.declared or self.bundle, known
        return known


def _is_team(agent: Agent) -> TypeIs[Team]:
    """Return whether an agent is a team; `isinstance` asks an abstract class, which takes five times as long."""
    return Team in type(agent).__mro__


def _as_json(value: object, owner: str) -> JsonValue:
    """Return options as they are recorded; in Python they may contain values of this package, and tuples."""
    match value:
        case None | str() | int() | float():  # most of them
            return value
        case list() | tuple():
            return [_as_json(one, owner) for one in cast("Sequence[object]", value)]
        case Value():
            return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        case Mapping():
            fields = cast("Mapping[str, object]", value)
            return {name: _as_json(one, owner) for name, one in fields.items()}
        case _:
            raise UsageError(f"{owner} has {value!r:.100} in its options, which is no JSON; write a list or a text.")


def _manifest(everyone: TeamRoster) -> Manifest:
    from teamwright.values.specs.manifest import Manifest

    teams = {team.name: team.spec for team in everyone.teams if not team.is_single_agent}
    is_team = set(map(id, everyone.teams))
    agents = {agent.name: agent_spec_of(agent) for agent in everyone.agents if id(agent) not in is_team}
    # Every part was validated when it was created, and a team may have thousands.
    return Manifest.model_construct({"agents", "teams"}, agents=agents, teams=teams)


def _agents(owner: str, name: str, agents: Iterable[Agent]) -> tuple[Agent, ...]:
    """Return the agents of a list; raises `UsageError` with everything in it that is not an agent."""
    mistakes = Mistakes()
    found = tuple(mistakes.collect(require_agent, one) for one in listed(owner, name, agents))
    mistakes.raise_all()
    return found


def _strategy(strategy: str | Strategy) -> Strategy:
    return find_strategy(strategy) if isinstance(strategy, str) else require_strategy(strategy)


def _helpers(
    owner: str, helpers: Sequence[Agent], members: Sequence[Agent] | None, fallback: Agent | None
) -> tuple[Agent, ...]:
    """Return the helpers of a team, with the fallback of its members if it is none of them."""
    found = _agents(owner, "helpers", helpers)
    return found if fallback is None or fallback in (*(members or ()), *found) else (*found, fallback)


def _recovery(owner: str, settings: TeamSettings) -> Recovery | None:
    """Return how the team recovers from failures of members that set nothing themselves; raises `UsageError`."""
    given = {name: value for name in Recovery.model_fields if (value := settings.get(name)) is not None}
    if not given:
        return None
    fallback = settings.get("fallback")
    check_fallback(f"The fallback of {owner[0].lower()}{owner[1:]}", fallback)
    if fallback is not None:
        given["fallback"] = fallback.name
    from teamwright.values.specs.manifest import TeamSpec

    check_arguments(owner, TeamSpec, **given)
    return Recovery.model_validate(given)


def _check_no_tools(owner: str, policy: Policy) -> None:
    if policy.confirm is not None and policy.confirm.tools:
        raise UsageError(f"{owner} has no tools of its own; set  tools  of  confirm  on its members.")


def _checked_notify(owner: str, notify: Notify | None) -> Notify | None:
    notify = value_of(owner, "notify", notify, Notify)
    if notify is not None and notify.secret and notify.secret != HIDDEN:
        signing_key(notify.secret)
    return notify


def _checked_workspace(owner: str, workspace: TeamWorkspace | None) -> TeamWorkspace | None:
    """Return a workspace with an absolute path."""
    workspace = value_of(owner, "workspace", workspace, TeamWorkspace)
    return workspace and workspace.moved_to(str(Path(workspace.path).expanduser().absolute()))


def _paths(owner: str, attachments: Iterable[Path | str]) -> tuple[Path | str, ...]:
    """Return the paths of a team's attachments; raises `UsageError` for anything else."""
    paths = tuple(listed(owner, "attachments", attachments))
    for one in paths:
        if not isinstance(one, Path | str):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
            raise UsageError(f"{owner}: an attachment is a path, not {one!r}; pass a content to  engine.run  instead.")
    return paths


def _levels(agent: Agent) -> int:
    """The nesting depth of teams within an agent, itself included; an agent that asks its tools counts as a level."""
    if not agent.tool_agents:
        inner = agent if isinstance(agent, Team) else agent.policy.fallback
        return inner.levels if isinstance(inner, Team) else 0
    known = {id(agent): agent}  # agents need not be hashable

    def inner_agents(key: int) -> list[int]:
        inside = () if isinstance(known[key], Team) else successors(known[key])
        known.update((id(one), one) for one in inside)
        return list(map(id, inside))

    def weight(key: int) -> int:
        one = known[key]
        return one.levels if isinstance(one, Team) else int(bool(one.tool_agents))

    return depths([id(agent)], inner_agents, weight)[id(agent)]


def successors(agent: Agent) -> Sequence[Agent]:
    """The agents that may be asked within a turn of this one, or in its place."""
    if isinstance(agent, Team):
        return (*agent.members, *agent.helpers)
    other = agent.policy.fallback
    return agent.tool_agents if other is None else (*agent.tool_agents, other)


def require_team(agent: object) -> Team:
    """Return the team, or a team of one around a single agent; raises `UsageError` for anything else."""
    if isinstance(agent, Team):
        return agent
    one = require_agent(agent)
    return Team(one.name, members=[one])
