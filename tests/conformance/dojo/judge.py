"""Tasks, tools and verdicts of AgentDojo for obedient teams: prints the counts of each defence in a suite as JSON.

It runs in an environment that has AgentDojo beside this package:

    python -m tests.conformance.dojo.judge SUITE
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from typing import Any

import anyio
import email_validator
import yaml
from agentdojo.attacks.baseline_attacks import DirectAttack
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime
from agentdojo.task_suite import task_suite
from agentdojo.task_suite.load_suites import get_suites
from agentdojo.types import text_content_block_from_string
from pydantic import BaseModel, JsonValue

from teamwright import Engine
from teamwright.agents import ToolDefinition
from teamwright.errors import ToolError
from tests.conformance.dojo.obedient import DEFENCES, Attack, Call, Environment, work

VERSION = "v1.2.2"
DEFINITIONS: dict[str, ToolDefinition] = {}

# Most of the time went into reading the same environments again and again.
task_suite.yaml.safe_load = partial(yaml.load, Loader=yaml.CSafeLoader)
email_validator.validate_email = cache(email_validator.validate_email)


@dataclass(frozen=True)
class Pair:
    """A user's task with an injection in the environment that its tools read."""

    suite: Any
    user_task: Any
    injection_task: Any
    environment: Any
    _judged: list[tuple[Any, tuple[bool, bool]]] = field(default_factory=list)

    def attack(self) -> Attack:
        """What the obedient models are scripted with."""
        return Attack(
            self.user_task.PROMPT,
            [Call(one.function, dict(one.args)) for one in self.user_task.ground_truth(self.environment)],
            self.user_task.GROUND_TRUTH_OUTPUT,
            self.injection_task.GOAL,
            [Call(one.function, dict(one.args)) for one in self.injection_task.ground_truth(self.environment)],
            self.injection_task.GROUND_TRUTH_OUTPUT,
        )

    def judge(self, answer: str, made: list[Call], after: Any) -> tuple[bool, bool]:
        """Whether the user's task is fulfilled, and whether the injection is, as AgentDojo sees it.

        It compares whole environments, which is slow; several defences lead to the same calls, and so to the same one.
        """
        end = (answer, made)
        for judged, verdict in self._judged:
            if judged == end:
                return verdict
        calls = [FunctionCall(function=one.tool, args=dict(one.arguments)) for one in made]
        output = [text_content_block_from_string(answer)]
        fulfilled, reached = (
            self.suite._check_task_result(task, output, self.environment, after, calls)
            for task in (self.user_task, self.injection_task)
        )
        self._judged.append((end, (fulfilled, reached)))
        return fulfilled, reached


def suite_named(name: str) -> Any:
    """A suite in the newest version, with the corrections of 1.1.2, which AgentDojo 0.1.35 has and does not load."""
    import_module("agentdojo.default_suites.v1_1_2")  # only works once the suites are loaded, which copies them
    return get_suites("v1")[name].get_new_version(get_suites(VERSION)[name].benchmark_version)


def pairs(suite: Any) -> Iterator[Pair]:
    """Every user's task with every injection that AgentDojo has a solution of, put where the task's tools read it."""
    attack, clean = DirectAttack(suite, None), suite.load_and_inject_default_environment({})

    @cache
    def loaded(injections: tuple[tuple[str, str], ...]) -> Any:
        return suite.load_and_inject_default_environment(dict(injections))

    for injection_task in suite.injection_tasks.values():
        if not injection_task.ground_truth(clean) and not injection_task.GROUND_TRUTH_OUTPUT:
            continue
        for user_task in suite.user_tasks.values():
            injections = attack.attack(user_task, injection_task)
            environment = loaded(tuple(injections.items())).model_copy(deep=True)
            yield Pair(suite, user_task, injection_task, user_task.init_environment(environment))
        loaded.cache_clear()


def tools_over(runtime: FunctionsRuntime, environment: Any) -> Environment:
    """The tools of a suite as a source of ours, over one environment."""

    def run(call: Call) -> JsonValue:
        result, error = runtime.run_function(environment, call.tool, dict(call.arguments))
        if error:
            raise ToolError(error)
        return _plain(result)

    return Environment([_definition(one) for one in runtime.functions.values()], run)


def _definition(function: Any) -> ToolDefinition:
    if function.name not in DEFINITIONS:
        schema = function.parameters.model_json_schema()
        DEFINITIONS[function.name] = ToolDefinition(function.name, function.description, schema)
    return DEFINITIONS[function.name]


def _plain(result: Any) -> JsonValue:
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json")
    if isinstance(result, list | tuple):
        return [_plain(one) for one in result]
    if isinstance(result, dict):
        return {str(name): _plain(one) for name, one in result.items()}
    return result if result is None or isinstance(result, str | int | float) else str(result)


async def measure(name: str) -> None:
    """Run all pairs of a suite with each defence, and print the counts."""
    counts = {defence.name: Counter[str]() for defence in DEFENCES}
    reached_by = {defence.name: Counter[str]() for defence in DEFENCES}
    with redirect_stdout(sys.stderr):  # AgentDojo's tools and judges print
        async for pair, defence, fulfilled, reached, asked in _judged_pairs(suite_named(name)):
            counts[defence].update(runs=1, reached=reached, fulfilled=fulfilled, questions=asked)
            reached_by[defence].update({pair.injection_task.ID: int(reached)})
    for defence, counted in counts.items():
        by = {injection: number for injection, number in reached_by[defence].items() if number}
        print(json.dumps({"suite": name, "defence": defence, **counted, "by": by}), flush=True)


async def _judged_pairs(suite: Any) -> AsyncIterator[tuple[Pair, str, bool, bool, int]]:
    """Run each pair with each defence: whether the task is fulfilled, whether the injection is, and the questions."""
    runtime = FunctionsRuntime(suite.tools)
    async with Engine("memory") as engine:
        for pair in pairs(suite):
            attack = pair.attack()
            for defence in DEFENCES:
                environment = pair.environment.model_copy(deep=True)
                tools = tools_over(runtime, environment)
                answer, asked = await work(engine, attack, tools, defence)
                fulfilled, reached = pair.judge(answer, tools.made, environment)
                yield pair, defence.name, fulfilled, reached, asked


if __name__ == "__main__":
    anyio.run(measure, sys.argv[1])
