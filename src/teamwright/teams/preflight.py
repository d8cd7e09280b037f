"""Checks a team before it runs: its construction in Python, its configuration, its attachments.

A team from a manifest was checked with positions when the manifest was loaded. Nothing here sends a request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from teamwright.agents.acp_agent import AcpAgent
from teamwright.agents.agent import Agent, Preflight, check_ignored, declaration_of, has_policy, require_agent
from teamwright.agents.attachments import Attachment, why_not_taken
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.evaluators import check_evaluations
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.registry import MOST_NESTED, cycle_text, find_cycles
from teamwright.agents.sandbox_back_ends import named_sandbox, sandbox_problem
from teamwright.agents.tools.protocol import WITH_TOOLS, ToolUser
from teamwright.documents.nodes import Place
from teamwright.errors import ManifestError, Problem, UsageError, nearest
from teamwright.strategies.protocol import TALKS, Members
from teamwright.strategies.registry import settings_flaws
from teamwright.strategies.team_conversation import handoff_flaws
from teamwright.teams.manifests.code_references import evaluations_of_steps
from teamwright.teams.team import Team, successors
from teamwright.values.owned_paths import wildcards_problem
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.models import model_key
from teamwright.values.specs.tools import AUTO, SandboxSettings, sandbox_settings


def check_team(team: Team) -> tuple[Problem, ...]:
    """Return the warnings about a team; raises `ManifestError` with everything in it that can't work."""
    _require_fallbacks((*team.members, *team.helpers))
    problems = [] if team.members else [f"the team {team.name!r} has no members"]
    if team.levels > MOST_NESTED:
        problems.append(
            f"the team {team.name!r} has teams within it {team.levels} levels deep; {MOST_NESTED} are possible"
        )
    found = settings_flaws(team.strategy, team.settings, Members(team.members, team.helpers))
    problems += [f"the team {team.name!r}: {flaw.text}" for flaw in found if not flaw.is_warning]
    for flaw in handoff_flaws(team.strategy, Members(team.members, team.helpers)):
        hint = f"; {nearest(flaw.to, flaw.known).rstrip('.')}" if flaw.known else ""
        problems.append(f"the team {team.name!r}: {flaw.text}{hint}")
    warnings = tuple(Problem(f"the team {team.name!r}: {flaw.text}") for flaw in found if flaw.is_warning)
    problems += _unheard(team)
    problems += _misplaced_workspaces(team)
    fallback = team.policy.recovery.fallback if team.policy.recovery else None
    if fallback and fallback not in Members(team.members, team.helpers).names:
        problems.append(f"the team {team.name!r}: the fallback {fallback!r} is neither a member nor a helper")
    known: dict[str, Agent] = {}
    for agent in team.roster.agents:
        if known.setdefault(agent.name, agent) is not agent and not team.is_single_agent:
            problems.append(f"two different agents are called {agent.name!r}")
    if problems:
        raise ManifestError([Problem(text) for text in problems])
    _check_fallbacks(team.roster.settled)
    return warnings


def _misplaced_workspaces(team: Team) -> Iterator[str]:
    """Yield workspaces of teams within this one, which has the only branch of a run, and a merger that is no member."""
    for inner in team.roster.teams:
        if inner is not team and inner.workspace is not None:
            yield f"the team {inner.name!r} can't have a `workspace` within {team.name!r}; set it on {team.name!r}"
    workspace, names = team.workspace, Members(team.members, team.helpers).names
    if workspace is not None and workspace.agent is not None and workspace.agent not in names:
        hint = nearest(workspace.agent, names).rstrip(".")
        yield f"the team {team.name!r}: the merger {workspace.agent!r} is no member; {hint}"


def _unheard(team: Team) -> Iterator[str]:
    """Yield who has tools to talk with colleagues, and none who would hear it; nested teams have checked their own."""
    talkers = [agent for agent in team.roster.settled if agent.policy.talks]
    if not talkers:
        return
    if team.is_single_agent:
        yield f"the agent {team.name!r} {TALKS} and works alone; put it into a team with  talk: all"
        return
    problem = team.strategy.talk_problem(team.settings)
    own, members = set(map(id, team.members)), {id(one) for inner in team.roster.teams for one in inner.members}
    tools = {id(one) for agent in team.roster.agents for one in agent.tool_agents}
    for agent in talkers:
        if problem is not None and id(agent) in own:
            yield f"the team {team.name!r}: {agent.name!r} {TALKS}, and {problem}, or remove the tools"
        if id(agent) in tools or id(agent) not in members:
            role = "is a tool of another agent" if id(agent) in tools else "is a member of no team"
            yield f"the team {team.name!r}: {agent.name!r} {TALKS}, but {role}; make it a member, or remove the tools"


def new_member_problem(team: Team, agent: Agent) -> str | None:
    """Return why a member that joins a running team could not work in it; None if it can."""
    problem = team.strategy.talk_problem(team.settings) if agent.policy.talks else None
    return None if problem is None else f"{agent.name!r} {TALKS}, and {problem}, or leave the tools out"


def check_start(team: Team) -> None:
    """Raise `ManifestError` for what may have changed since a team was made: a cycle of fallbacks, keys, judges."""
    for agent in team.roster.agents:
        own = agent.__dict__  # a team may have thousands, so that a call for each would count
        if "limits" in own or "confirm" in own or "recovery" in own:
            check_ignored(agent)
    settled = list(filter(has_policy, team.roster.agents))
    _check_fallbacks(settled)
    _check_keys(team)
    check_evaluations(settled)


def _check_fallbacks(agents: Iterable[Agent]) -> None:
    """Raise `ManifestError` with the path if a fallback leads back to its own agent."""
    starts = {id(agent): agent for agent in agents if agent.policy.fallback is not None}
    known = dict(starts)  # agents need not be hashable

    def edges(key: int) -> Iterator[tuple[int, None]]:
        for agent in successors(known[key]):
            known[id(agent)] = agent
            yield id(agent), None

    for cycle, _ in find_cycles(starts, edges):
        start = next(place for place, key in enumerate(cycle) if known[key].policy.fallback is not None)
        names = [known[key].name for key in (*cycle[start:-1], *cycle[: start + 1])]
        text = f"the fallback of {names[0]!r} leads back to it: {cycle_text(names)}; take one of them out"
        raise ManifestError([Problem(text)])


def _check_keys(team: Team) -> None:
    """Raise `ManifestError` if comparing the owned keys of all nested teams would take quadratic time."""
    from teamwright.strategies.plan.steps.step_options import owned_keys

    keys = [key for one in team.roster.teams for key in owned_keys(one.strategy, one.settings)]
    if problem := wildcards_problem(keys):
        raise ManifestError([Problem(f"the steps of all teams in {team.name!r} {problem}")])


def _require_fallbacks(agents: Iterable[Agent]) -> None:
    """Raise `UsageError` if a fallback, or one of its own fallbacks, is not an agent.

    A nested team has checked those of its members.
    """
    pending = list(agents)
    checked = set(map(id, pending))
    for agent in pending:
        other = None if isinstance(agent, Team) else agent.policy.fallback
        if other is None or id(other) in checked:
            continue
        try:
            pending.append(require_agent(other))
        except UsageError as error:
            raise UsageError(f"The fallback of the agent {agent.name!r} can't be used. {error}") from error
        checked.add(id(other))


MOST_NAMED = 8


async def check_ready(team: Team, models: Models, places: Mapping[str, Place] | None = None) -> None:
    """Raise `ManifestError` with all configuration problems: unknown models, missing extras and keys."""
    problems: dict[str, list[str]] = {}
    for agent in _agents_and_fallbacks(team):
        for text in await agent.preflight(models) if isinstance(agent, Preflight) else ():
            names = problems.setdefault(text, [])
            if agent.name not in names:
                names.append(agent.name)
    if problems:
        raise ManifestError([_problem(text, names, places or {}) for text, names in problems.items()])


def check_declared(agents: Iterable[Agent]) -> None:
    """Raise `ManifestError` with all names that no model has, without opening a client."""
    models = [agent for agent in agents if isinstance(agent, ModelAgent)]
    problems = [Problem(f"the agent {one.name!r}: {text}") for one in models for text in one.undeclared_models()]
    if problems:
        raise ManifestError(problems)


def check_sandbox_names(team: Team) -> None:
    """Raise `UnknownName` for a sandbox that no package here has; whether this machine can use it is not asked."""
    for _, settings in _sandboxes(team):
        if settings.backend != AUTO:
            named_sandbox(settings.backend)


def check_sandboxes(team: Team) -> None:
    """Raise `ManifestError` with every sandbox of tools and checks that this machine can't provide."""
    problems: dict[str, Problem] = {}
    for owner, settings in _sandboxes(team):
        if (text := sandbox_problem(settings)) is not None:
            problems.setdefault(text, Problem(f"{owner}: {text}"))
    if problems:
        raise ManifestError([*problems.values()])


def _sandboxes(team: Team) -> Iterator[tuple[str, SandboxSettings]]:
    """Yield the sandboxes that a run of a team needs, with whose they are."""
    evaluations: list[tuple[str, Evaluate]] = []
    for agent in team.roster.agents:
        if agent.kind in WITH_TOOLS and isinstance(agent, ToolUser):
            yield from ((f"the agent {agent.name!r}", one) for one in agent.toolbox.sandboxes)
        if isinstance(agent, AcpAgent | FunctionAgent) and agent.sandbox is not None:
            yield f"the agent {agent.name!r}", agent.sandbox
    judged = ((one.name, one.policy.evaluate) for one in team.roster.settled)
    evaluations += [(name, declaration_of(evaluate)) for name, evaluate in judged if evaluate is not None]
    for one in team.roster.teams:
        evaluations += [(one.name, declared) for declared in evaluations_of_steps(one.settings.options)]
    for name, evaluate in evaluations:
        for one in evaluate.criteria:
            if one.sandbox is not None:
                yield f"the check {one.id!r} of {name!r}", sandbox_settings(one.sandbox)


def check_attachments(team: Team, files: Sequence[Attachment]) -> None:
    """Raise `UsageError` if a model of the team is known not to take one of the files of a task.

    With `share: output` only some members see the task, so a model refuses its file when it gets one.
    """
    if team.settings.share == "output":
        return
    for agent in _agents_and_fallbacks(team):
        if not isinstance(agent, ModelAgent):
            continue
        model = model_key(agent.model)
        for file in files:
            if (reason := why_not_taken(file.media_type, model)) is not None:
                raise UsageError(
                    f"The file {file.name!r} ({file.media_type}) can't be attached: the model {model!r} of"
                    f" {agent.name!r} does not take it, since {reason}."
                )


def _agents_and_fallbacks(team: Team) -> Iterator[Agent]:
    """Yield the agents of a team, and their fallbacks of the same name."""
    for agent in team.everyone():
        yield agent
        other = agent.policy.fallback
        if other is not None and other.name == agent.name:
            yield other


def _problem(text: str, names: list[str], places: Mapping[str, Place]) -> Problem:
    """Combine a problem that several agents have into one, at the position of the first."""
    place = places.get(names[0], Place(""))
    who = ", ".join(map(repr, names[:MOST_NAMED])) + (" …" if len(names) > MOST_NAMED else "")
    return Problem(f"{'agent' if len(names) == 1 else 'agents'} {who}: {text}", place.file, place.line, place.column)
