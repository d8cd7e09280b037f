"""Gives the sandbox of a team to what its members start: commands, MCP servers, isolated functions, and checks.

What has a sandbox of its own keeps it, and so does a team within the team. Nothing else starts a program in one.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import cast

from pydantic import JsonValue

from teamwright.errors import ManifestError, Problem
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.manifest import AgentSpec, Manifest, TeamSpec
from teamwright.values.specs.tools import AnySandbox, McpSpec, SandboxSettings, ShellSpec, ShellTool, ToolSpec

SANDBOX, EVALUATE, STEPS = "sandbox", "evaluate", "steps"


def team_sandboxes(manifest: Manifest, helpers: Callable[[TeamSpec], Iterable[str]]) -> dict[str, AnySandbox]:
    """Return the sandbox of each agent and team that is in one; raises `ManifestError` for an agent in two."""
    found: dict[str, tuple[AnySandbox, str]] = {}
    problems: dict[str, Problem] = {}
    for owner, team in manifest.teams.items():
        if team.sandbox is None:
            continue
        for name in _within(owner, manifest, helpers):
            other, other_owner = found.setdefault(name, (team.sandbox, owner))
            if other != team.sandbox:
                text = f"{name!r} is in the teams {other_owner!r} and {owner!r}, whose sandboxes differ"
                problems[name] = Problem(text, suggestion="set  sandbox  on what it starts, or on one team around both")
    if problems:
        raise ManifestError([*problems.values()])
    return {name: sandbox for name, (sandbox, _) in found.items()}


def _within(owner: str, manifest: Manifest, helpers: Callable[[TeamSpec], Iterable[str]]) -> Iterator[str]:
    """Yield a team and all that it reaches: members, helpers, fallbacks, judges, and agents among tools."""
    pending, seen = [owner], set[str]()
    while pending:
        name = pending.pop()
        team, agent = manifest.teams.get(name), manifest.agents.get(name)
        if name in seen or (team is not None and name != owner and team.sandbox is not None):
            continue
        seen.add(name)
        yield name
        if team is not None:
            pending += [*team.members, *helpers(team), *_judges(team.evaluate)]
        elif agent is not None:
            pending += [*_judges(agent.evaluate), *([agent.fallback] if isinstance(agent.fallback, str) else [])]


def _judges(evaluate: Evaluate | None) -> Iterable[str]:
    return evaluate.judges if evaluate is not None else ()


def confined_tool(tool: str | ToolSpec, sandbox: AnySandbox | None) -> str | ToolSpec:
    """Return a tool in this sandbox, if it starts programs and has none of its own."""
    if sandbox is None:
        return tool
    match tool:
        case "shell":
            return ShellSpec(shell=ShellTool(sandbox=sandbox))
        case ShellSpec(shell=settings) if settings.sandbox is None:
            return ShellSpec(shell=settings.model_copy(update={SANDBOX: sandbox}))
        case McpSpec(mcp=settings) if settings.sandbox is None and settings.command is not None:
            return McpSpec(mcp=settings.model_copy(update={SANDBOX: sandbox}))
        case _:
            return tool


def confined_evaluation(evaluate: Evaluate, sandbox: AnySandbox | None) -> Evaluate:
    """Return an evaluation whose programs run in this sandbox, if they have none of their own."""
    if sandbox is None or not any(one.command for one in evaluate.criteria):
        return evaluate
    criteria = (
        one.model_copy(update={SANDBOX: sandbox}) if one.command and one.sandbox is None else one
        for one in evaluate.criteria
    )
    return evaluate.model_copy(update={"criteria": tuple(criteria)})


def confined_options(options: dict[str, JsonValue], sandbox: AnySandbox | None) -> dict[str, JsonValue]:
    """Return the options of a strategy, whose plan may have evaluations of its steps, with this sandbox for them."""
    if sandbox is None:
        return options
    changed = _confined_evaluate(options, sandbox)
    if isinstance(steps := changed.get(STEPS), list):
        changed[STEPS] = [_confined_evaluate(one, sandbox) if isinstance(one, dict) else one for one in steps]
    return changed


def _confined_evaluate(data: dict[str, JsonValue], sandbox: AnySandbox) -> dict[str, JsonValue]:
    evaluate = data.get(EVALUATE)
    criteria = evaluate.get("criteria") if isinstance(evaluate, dict) else None
    if not isinstance(evaluate, dict) or not isinstance(criteria, list):
        return dict(data)
    said: JsonValue = (
        cast("JsonValue", sandbox.model_dump(mode="json", exclude_unset=True))
        if isinstance(sandbox, SandboxSettings)
        else sandbox
    )
    confined: list[JsonValue] = [
        {**one, SANDBOX: said} if isinstance(one, dict) and "command" in one and SANDBOX not in one else one
        for one in criteria
    ]
    return {**data, EVALUATE: {**evaluate, "criteria": confined}}


def unconfined(manifest: Manifest, helpers: Callable[[TeamSpec], Iterable[str]]) -> Iterator[str]:
    """Yield what starts programs with the rights of the process, in words, for people who check a manifest."""
    sandboxes = team_sandboxes(manifest, helpers)
    for name, agent in manifest.agents.items():
        sandbox = sandboxes.get(name)
        yield from (f"{what} of the agent {name!r}" for what in _programs(agent, manifest, sandbox))
    for name, team in manifest.teams.items():
        yield from (f"{what} of the team {name!r}" for what in _checks(team.evaluate, sandboxes.get(name)))


def _programs(agent: AgentSpec, manifest: Manifest, sandbox: AnySandbox | None) -> Iterator[str]:
    if agent.isolate == "process" and agent.sandbox is None and sandbox is None:
        yield "the function"
    if agent.acp is not None and agent.sandbox is None and sandbox is None:
        yield f"the coding agent {shlex.join(agent.acp.command)!r}"
    for tool in agent.tools:
        declared = manifest.tools.get(tool, tool) if isinstance(tool, str) else tool
        match confined_tool(declared, sandbox):
            case McpSpec(mcp=settings) if settings.command is not None and settings.sandbox is None:
                yield f"the MCP server {settings.command[0]!r}"
            case _:
                pass
    yield from _checks(agent.evaluate, sandbox)


def _checks(evaluate: Evaluate | None, sandbox: AnySandbox | None) -> Iterator[str]:
    if evaluate is not None:
        for one in confined_evaluation(evaluate, sandbox).criteria:
            if one.command is not None and one.sandbox is None:
                yield f"the check {one.id!r}"
