"""Lists the code that a run of a manifest would import or start. Nothing here imports or starts it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pydantic import JsonValue

from teamwright.agents.evaluators import is_own
from teamwright.agents.tools.registry import OWN, find_kind, kind_name, settings_of
from teamwright.strategies.registry import is_own as is_own_strategy
from teamwright.values.names import plain_strategy_name
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.manifest import AgentSpec, InstructionsByFunction, Manifest
from teamwright.values.specs.tools import ToolSpec


class Code(NamedTuple):
    """A reference to code and its owner: a function, a program, or a strategy or tool kind of another package."""

    kind: str
    code: str
    owner: str

    def __str__(self) -> str:
        return f"{self.kind} {self.code!r} of {self.owner}"

    def to_json(self) -> dict[str, JsonValue]:
        return {"kind": self.kind, "code": self.code, "of": self.owner}


def code_in(manifest: Manifest) -> list[Code]:
    """All code that a manifest refers to, without duplicates, in the order of the manifest."""
    found: list[Code] = []
    for name, agent in manifest.agents.items():
        found += code_of_agent(agent, f"agent {name!r}")
    for name, tool in manifest.tools.items():
        found += _code_of_tool(tool, f"tool {name!r}")
    for name, team in manifest.teams.items():
        if not is_own_strategy(plain_strategy_name(team.strategy)):
            found.append(Code("strategy", team.strategy, f"team {name!r}"))
        for evaluate in (team.evaluate, *evaluations_of_steps(team.options)):
            found += _code_of_evaluation(evaluate, f"team {name!r}")
    return list(dict.fromkeys(found))


def code_of_agent(agent: AgentSpec, owner: str) -> Iterator[Code]:
    """The code that an agent refers to itself; named tools are declared elsewhere."""
    if agent.function is not None:
        yield Code("function", agent.function, owner)
    if agent.acp is not None:
        yield Code("coding agent", shlex.join(agent.acp.command), owner)
    if isinstance(agent.instructions, InstructionsByFunction):
        yield Code("function", agent.instructions.function, owner)
    for check in () if agent.check is None else agent.check.paths.values():
        yield Code("function", check, owner)
    yield from _code_of_evaluation(agent.evaluate, owner)
    for tool in agent.tools:
        yield from _code_of_tool(tool, owner)


def evaluations_of_steps(options: Mapping[str, JsonValue]) -> Iterator[Evaluate]:
    """The evaluations of the steps of a team's plan, if its strategy has one: for each step, and for all of them."""
    steps = options.get("steps")
    if isinstance(declared := options.get("evaluate"), dict):
        yield Evaluate.model_validate(declared)
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict) and isinstance(declared := step.get("evaluate"), dict):
            yield Evaluate.model_validate(declared)


def _code_of_evaluation(evaluate: Evaluate | None, owner: str) -> Iterator[Code]:
    """The code that evaluates work: functions, programs, and an evaluator of another package."""
    if evaluate is None:
        return
    if not is_own(evaluate.evaluator_name):
        yield Code("evaluator", evaluate.evaluator, owner)
    for one in evaluate.criteria:
        if one.function is not None:
            yield Code("function", one.function, owner)
        if one.command is not None:
            yield Code("command", shlex.join(one.command), owner)


def _code_of_tool(tool: str | ToolSpec, owner: str) -> Iterator[Code]:
    """The code of a tool; a tool kind of another package is listed by its name and not imported."""
    if isinstance(tool, str):
        return
    name = kind_name(tool)
    if name not in OWN:
        yield Code("tool", name, owner)
        return
    kind = find_kind(name)
    for what, code in kind.code(settings_of(tool, kind)):
        yield Code(what, code, owner)
