"""Builds teams from manifests: the only place where declarations become objects.

File tools and attachments may use the folders of the manifest's own files, and those that the user allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import cast

from teamwright.agents.acp_agent import AcpAgent
from teamwright.agents.agent import Agent
from teamwright.agents.clients.client_pool import Models
from teamwright.agents.evaluators import Evaluator, make_evaluator
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.functions.imports import load_function
from teamwright.agents.functions.instructions import AnyInstructions, Checks, InstructionsFunction
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.registry import AgentRegistry, load_agent_kind
from teamwright.agents.scripted import Script, ScriptedAgent
from teamwright.agents.settings import AgentKeywords
from teamwright.agents.tools.built_in import AgentSource
from teamwright.agents.tools.registry import ToolLike, kind_of
from teamwright.errors import ManifestError, NotResumable, Problem, UnknownName, UsageError
from teamwright.strategies.expressions import Template
from teamwright.strategies.registry import find_strategy, named_agents
from teamwright.teams.sandboxes import confined_evaluation, confined_options, confined_tool, team_sandboxes, unconfined
from teamwright.teams.team import Team
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.manifest import AgentSpec, InstructionsByFunction, InstructionsTemplate, Manifest, TeamSpec
from teamwright.values.specs.members import ExpertProfile, FallbackModel, TeamWorkspace
from teamwright.values.specs.models import AnyModel, NamedModel
from teamwright.values.specs.tools import TERMINATE, AgentTool, AnySandbox, SandboxSettings, memory_specs

LeafAgent = AcpAgent | FunctionAgent | ModelAgent | ScriptedAgent

SCRIPTED = "scripted:"

ECONOMY, STRONGER = "economy", "stronger"
"""The names of the default models for other tiers, for agents that declare none."""
ADDED_LATER = frozenset(("fallback", "evaluate", "expert"))
"""Settings whose declarations name other agents or templates."""

VARIABLE = "${"


@dataclass(slots=True)
class Builder:
    """Builds agents and teams by name, each once. Relative paths are resolved against `base`."""

    manifest: Manifest
    base: Path = field(default_factory=Path)
    models: Models | None = None
    roots: Sequence[str] | None = None
    """Folders that file tools may use besides the base; `None` allows any."""
    recorded: bool = False
    """Whether the manifest is from the record of a run."""
    _built: AgentRegistry = field(default_factory=AgentRegistry)
    _without_fallback: list[LeafAgent] = field(default_factory=list[LeafAgent])
    _unevaluated: list[tuple[LeafAgent | Team, Evaluate]] = field(
        default_factory=list[tuple[LeafAgent | Team, Evaluate]]
    )
    """Agents whose evaluators are built last, since a judge may be any agent or team."""
    _scripts: dict[str, Script] = field(default_factory=dict[str, Script])
    _sandboxes: dict[str, AnySandbox] | None = None
    """The sandboxes of agents and teams, once they are needed."""

    def team(self, name: str | None = None) -> Team:
        """Build the team of this name, or the only one that no other team contains."""
        built = self.agent(self.team_name(name))
        is_checked = self.recorded or not built.policy.talks
        return built if isinstance(built, Team) else Team(built.name, members=[built], checked=is_checked)

    def agent(self, name: str) -> Agent:
        built = self._get_or_build(name)
        while self._without_fallback:
            agent = self._without_fallback.pop()
            fallback = self._build_fallback(agent.name, self.manifest.agents[agent.name])
            if fallback is not None:
                agent.policy = agent.policy.changed(fallback=fallback)
        while self._unevaluated:
            worker, declared = self._unevaluated.pop()
            worker.policy = worker.policy.changed(evaluate=self._build_evaluator(worker.name, declared))
        return built

    def team_name(self, name: str | None = None) -> str:
        """Return the name of the team to build: the given one, or the only outermost team."""
        teams = self.manifest.teams
        if name is not None:
            if name not in teams and name not in self.manifest.agents:
                raise UnknownName("team", name, [*teams, *self.manifest.agents])
            return name
        inner = {name for team in teams.values() for name in (*team.members, *_helpers(team))}
        inner |= _agents_in_tools(self.manifest) | _judges(self.manifest)
        outer = [name for name in teams if name not in inner] or list(teams)
        if len(outer) == 1:
            return outer[0]
        if not teams and len(self.manifest.agents) == 1:
            return next(iter(self.manifest.agents))
        names = ", ".join(outer) or "none"
        raise UsageError(f"Which team? The manifest declares {names}; choose one with --team NAME.")

    def _get_or_build(self, name: str) -> Agent:
        if name in self._built:
            return self._built.get(name)
        return self._built.register(self._build(name))

    def _build_fallback(self, name: str, spec: AgentSpec) -> Agent | None:
        """Build the fallback of an agent, after all teams, since a team may contain it."""
        match spec.fallback:
            case None:
                return None
            case str() as other:
                return self._get_or_build(other)
            case FallbackModel(model=model):
                same = {"model": model, "function": None, "fallback": None}
                return self._build_leaf(name, spec.model_copy(update=same))

    def _sandbox(self, name: str) -> AnySandbox | None:
        """Return the sandbox of an agent or a team, from the team around it, with absolute folders."""
        if self._sandboxes is None:
            self._sandboxes = team_sandboxes(self.manifest, _helpers)
        return self._resolved_sandbox(name, self._sandboxes.get(name))

    def _function_sandbox(self, name: str, spec: AgentSpec) -> AnySandbox | None:
        """Return the sandbox of a function: its own, or with a process of its own that of the team."""
        if spec.sandbox is not None:
            return self._resolved_sandbox(name, spec.sandbox)
        return self._sandbox(name) if spec.isolate == "process" else None

    def _resolved_sandbox(self, owner: str, sandbox: AnySandbox | None) -> AnySandbox | None:
        if not isinstance(sandbox, SandboxSettings):
            return sandbox
        return sandbox.resolved(lambda one: str(self._folder(owner, one)))

    def _build_evaluator(self, owner: str, declared: Evaluate) -> Evaluator:
        """Build the evaluator of an agent or a team, with its judges."""
        declared = confined_evaluation(declared, self._sandbox(owner))
        return make_evaluator(declared, [self._get_or_build(judge) for judge in declared.judges])

    def _build(self, name: str) -> Agent:
        built = self._build_unevaluated(name)
        spec = self.manifest.teams.get(name) or self.manifest.agents[name]
        if spec.evaluate is not None:
            self._unevaluated.append((built, spec.evaluate))
        return built

    def _build_unevaluated(self, name: str) -> LeafAgent | Team:
        if spec := self.manifest.teams.get(name):
            return Team(
                name,
                members=[self._get_or_build(member) for member in spec.members],
                helpers=[self._get_or_build(helper) for helper in _helpers(spec)],
                strategy=spec.strategy,
                description=spec.description,
                share=spec.share,
                envelope=spec.envelope,
                degradation=spec.degradation,
                max_turns=spec.max_turns,
                on_max_turns=spec.on_max_turns,
                limits=spec.limits,
                output_schema=spec.output_schema,
                options=confined_options(spec.options, self._sandbox(name)),
                compact=spec.compact,
                attachments=[self._file(name, file) for file in spec.attachments],
                retry=spec.retry,
                fallback=None if spec.fallback is None else self._get_or_build(spec.fallback),
                too_long=spec.too_long,
                confirm=spec.confirm,
                notify=spec.notify,
                optional=spec.optional,
                critical=spec.critical,
                workspace=self._workspace(name, spec.workspace),
                checked=self.recorded,
            )
        if agent := self.manifest.agents.get(name):
            leaf = self._build_leaf(name, agent)
            self._without_fallback.append(leaf)
            return leaf
        raise UnknownName("agent or team", name, [*self.manifest.agents, *self.manifest.teams])

    def _workspace(self, team: str, spec: TeamWorkspace | None) -> TeamWorkspace | None:
        """Return the workspace of a team with an absolute path, which has to be allowed as that of a tool has."""
        if spec is None:
            return None
        return spec.moved_to(str(checked_workspace(spec.path, self.base, self.roots, team)))

    def _build_leaf(self, name: str, spec: AgentSpec) -> LeafAgent:
        if spec.a2a is not None:
            return load_agent_kind("a2a")(name, spec.a2a, **_keywords(spec))
        if spec.acp is not None:
            sandbox = self._sandbox(name) if spec.sandbox is None else self._resolved_sandbox(name, spec.sandbox)
            return AcpAgent(name, spec.acp, instructions=_instructions(name, spec), sandbox=sandbox, **_keywords(spec))
        if spec.function is not None:
            return FunctionAgent(
                name,
                load_function(spec.function, f"the agent {name!r}"),
                isolate=spec.isolate,
                sandbox=self._function_sandbox(name, spec),
                can_terminate=TERMINATE in spec.tools,
                **_keywords(spec),
            )
        model = self._resolve_model(spec.model)
        written = model.model if isinstance(model, NamedModel) else model
        if isinstance(written, str) and written.startswith(SCRIPTED):
            return self._build_scripted(name, spec, written.removeprefix(SCRIPTED), _as_named_model(model))
        if model is None:
            raise NotResumable(
                f"The agent {name!r} was created in Python and can't be rebuilt from the record; pass the team."
            )
        return ModelAgent(
            name,
            model=model,
            instructions=_instructions(name, spec),
            check=_checks(name, spec),
            tools=self._tools(name, spec),
            max_tokens=spec.max_tokens,
            settings=spec.settings,
            output_mode=spec.output_mode,
            max_requests=spec.max_requests,
            cache=spec.cache,
            models=self.models,
            economy=self._other_model(spec.economy, ECONOMY, model),
            stronger=self._other_model(spec.stronger, STRONGER, model),
            priority=spec.priority,
            compact=spec.compact,
            **_keywords(spec),
        )

    def _other_model(self, written: AnyModel | None, default: str, model: AnyModel) -> AnyModel | None:
        """A model of an agent for another tier; `None` if it is the same as its regular model."""
        other = self._resolve_model(written or (default if default in self.manifest.models else None))
        return None if other == model else other

    def _resolve_model(self, written: AnyModel | None) -> AnyModel | None:
        """Replace a name from the manifest's `models` by the model declared there."""
        declared = self.manifest.models
        return declared.get(written, written) if isinstance(written, str) else written

    def _build_scripted(self, name: str, spec: AgentSpec, file: str, model: NamedModel | None = None) -> ScriptedAgent:
        path = (self.base / file).resolve()
        script = self._scripts.get(file) or self._scripts.setdefault(file, Script.load(path))
        made = ScriptedAgent(
            name,
            script,
            instructions=spec.instructions_text,
            check=_checks(name, spec),
            tools=self._tools(name, spec),
            max_tokens=spec.max_tokens,
            pace=model,
            price=model.price if model else None,
            source=str(path),
            **_keywords(spec),
        )
        if spec.priority or spec.compact is not None:  # it stands in for a model
            made.policy = made.policy.changed(priority=spec.priority, compact=spec.compact)
        return made

    def _tools(self, name: str, spec: AgentSpec) -> list[ToolLike]:
        """The tools of an agent with absolute folders; a name from the manifest's `tools` becomes the declared tool."""
        found: list[ToolLike] = []
        sandbox = self._sandbox(name)
        for tool in spec.tools:
            declared = self.manifest.tools.get(tool) if isinstance(tool, str) else tool
            if declared is None:
                found.append(confined_tool(tool, sandbox))
                continue
            named = tool if isinstance(tool, str) else None
            if isinstance(declared, AgentTool):
                found.append(self._agent_tool(declared, named))
                continue
            resolved = confined_tool(kind_of(declared).resolve(declared, partial(self._folder, name)), sandbox)
            found.append(resolved if named is None else (named, resolved))
        return [*found, *memory_specs(spec.memory)]

    def _agent_tool(self, tool: AgentTool, name: str | None) -> AgentSource:
        """The agent or team of this manifest that a tool asks."""
        agent = self._get_or_build(tool.agent)
        return AgentSource(agent, name=tool.name or name, description=tool.description)

    def _folder(self, agent: str, root: str) -> Path:
        """Return the absolute path of a tool's folder; raises `UsageError` if it is not allowed, or gone since."""
        folder = checked_root(root, self.base, self.roots, agent)
        if self.recorded and folder.is_relative_to(self.base) and not self.base.is_dir():
            raise UsageError(f"The folder {str(folder)!r} of the tools of the agent {agent!r} does not exist.")
        return folder

    def _file(self, team: str, file: str) -> Path:
        """Return the absolute path of a team's attachment; a record has its content, so it need not be allowed."""
        return checked_file(file, self.base, None if self.recorded else self.roots, team)


def _checks(name: str, spec: AgentSpec) -> Checks | None:
    if spec.check is None:
        return None
    what = f"a check of the agent {name!r}"
    return cast("Checks", {one: load_function(path, what) for one, path in spec.check.paths.items()})


def _instructions(name: str, spec: AgentSpec) -> AnyInstructions:
    match spec.instructions:
        case str() as text:
            return text
        case InstructionsTemplate(template=text):
            return Template(text)
        case InstructionsByFunction(function=path):
            return cast("InstructionsFunction", load_function(path, f"the instructions of the agent {name!r}"))


def _keywords(spec: AgentSpec) -> AgentKeywords:
    """Return what a declaration sets of the keywords of every agent; its fallback and evaluator are added later."""
    given = {field: value for field, value in spec if field in AgentKeywords.__optional_keys__ - ADDED_LATER}
    if isinstance(spec.expert, ExpertProfile):
        given["expert"] = spec.expert
    return cast("AgentKeywords", given)


def _as_named_model(model: AnyModel | None) -> NamedModel | None:
    return model if isinstance(model, NamedModel) else None


def _helpers(team: TeamSpec) -> Iterable[str]:
    """The agents and teams that a team's options and its `fallback` name, without its members."""
    named = [one.name for one in named_agents(find_strategy(team.strategy), team.options)]
    if team.fallback:
        named.append(team.fallback)
    return dict.fromkeys(name for name in named if name not in team.members)


def _agents_in_tools(manifest: Manifest) -> set[str]:
    inline = (tool for agent in manifest.agents.values() for tool in agent.tools)
    return {tool.agent for tool in (*inline, *manifest.tools.values()) if isinstance(tool, AgentTool)}


def _judges(manifest: Manifest) -> set[str]:
    """The agents and teams that judge the work of others."""
    declared = (*manifest.agents.values(), *manifest.teams.values())
    return {name for one in declared if one.evaluate is not None for name in one.evaluate.judges}


def programs_without_sandbox(manifest: Manifest) -> Iterable[str]:
    """Return what a manifest starts with the rights of the process, in words."""
    return unconfined(manifest, _helpers)


def replace_models(manifest: Manifest, model: AnyModel) -> Manifest:
    """Return the manifest with every model replaced by this one."""
    if isinstance(model, str) and not model.strip():
        raise ManifestError([Problem("the model's name is empty")])
    agents = {name: _with_model(spec, model) for name, spec in manifest.agents.items()}
    return manifest.model_copy(update={"agents": agents, "models": {}})


def _with_model(spec: AgentSpec, model: AnyModel) -> AgentSpec:
    changes: dict[str, object] = (
        {} if spec.function or spec.a2a or spec.acp else {"model": model, "economy": None, "stronger": None}
    )
    if isinstance(spec.fallback, FallbackModel):
        changes["fallback"] = FallbackModel(model=model)
    return spec.model_copy(update=changes)


def allowed_roots(base: Path, files: Iterable[Path], allow: Iterable[Path | str]) -> tuple[str, ...]:
    """Return the allowed folders, with links resolved: those of other files outside the base, and those in `allow`.

    One in `allow` may lie in the base: a run that travels has another base.
    """
    home = _resolved(base)
    folders = [folder for file in files if not (folder := _resolved(file.parent)).is_relative_to(home)]
    folders += [_resolved(Path(one).expanduser()) for one in allow]
    return tuple(dict.fromkeys(map(str, folders)))


def checked_root(root: str, base: Path, allowed: Sequence[str] | None, agent: str) -> Path:
    """Return the folder of an agent's tools, with links resolved; raises `UsageError` if it is not allowed."""
    folder = _resolved(base / root)
    if VARIABLE in root or _is_allowed(folder, base, allowed):  # a variable is checked when it has a value
        return folder
    raise UsageError(
        f"The tools of the agent {agent!r} would use the folder {str(folder)!r}, which is outside the"
        f" manifest's; if you trust it, allow it with  --allow-root {quote(str(folder))}"
    )


def checked_workspace(path: str, base: Path, allowed: Sequence[str] | None, team: str) -> Path:
    """Return the folder of a team's workspace, with links resolved; raises `UsageError` if it is not allowed."""
    folder = _resolved(base / Path(path).expanduser())
    if VARIABLE in path or _is_allowed(folder, base, allowed):
        return folder
    raise UsageError(
        f"The workspace of the team {team!r} is {str(folder)!r}, which is outside the manifest's folder; if you trust"
        f" it, allow it with  --allow-root {quote(str(folder))}"
    )


def checked_file(file: str, base: Path, allowed: Sequence[str] | None, team: str) -> Path:
    """Return the path of a team's attachment, with links resolved; raises `UsageError` if it is not allowed."""
    path = _resolved(base / file)
    if VARIABLE in file or _is_allowed(path, base, allowed):
        return path
    raise UsageError(
        f"The team {team!r} would attach the file {str(path)!r}, which is outside the manifest's folder; if you trust"
        f" it, allow it with  --allow-root {quote(str(path.parent))}"
    )


def _is_allowed(path: Path, base: Path, allowed: Sequence[str] | None) -> bool:
    """Whether a path lies in the base or in an allowed folder; without a list, every path is allowed."""
    return allowed is None or any(path.is_relative_to(one) for one in (_resolved(base), *map(Path, allowed)))


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"The folder {str(path)!r} can't be used: {error}.") from error
