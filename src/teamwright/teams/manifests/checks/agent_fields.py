"""Checks the fields of an agent: those that its kind does not use, and its settings of a model.

A kind uses what its class takes in Python, and nothing else. The list of settings is read only where some are given.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache
from typing import cast

from pydantic import JsonValue

from teamwright.agents.contract.settings import AgentKeywords, ModelKeywords
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import ScriptedAgent
from teamwright.documents.nodes import Fields, Items, Node, ProblemReport, Scalar
from teamwright.documents.schema_check import SchemaCheck, check_secrets
from teamwright.teams.manifests.declarations import Declaration, Declarations
from teamwright.values.specs.manifest import TERMINATE, AgentSpec
from teamwright.values.specs.model_settings import settings_schema

KINDS = {"function": FunctionAgent, "scripted": ScriptedAgent, "model": ModelAgent}
KEYWORDS = {"function": AgentKeywords, "scripted": AgentKeywords, "model": ModelKeywords}

ELSEWHERE = frozenset(("function", "scripted", "model", "tools", "memory", "simulation"))
"""Fields that say what kind of agent it is, are checked by themselves, or are not for the agent itself."""

TWICE = ("temperature", "max_tokens")
"""Settings that are fields of an agent too."""

INLINE_MODELS = (("model",), ("economy",), ("fallback", "model"))
"""Where an agent may declare a model in place."""


def check_unused_fields(agent: Declaration, report: ProblemReport) -> None:
    """Report fields that an agent of this kind does not use.

    A field that its script does not use is a warning: the script may stand in for a model. A model that is scripted
    gets none, because a manifest is meant to run with either.
    """
    fields = agent.fields
    kind = next((name for name in KINDS if fields.has(name)), "model")
    unused = _unused_by(kind)
    for name in fields.entries:
        if name not in unused:
            continue
        place = fields.key_place(name)
        if kind == "scripted":
            report.warning(place, f"{agent.words}: {name!r} changes nothing while its replies are scripted")
        else:
            hint = "check it in the function itself" if name.startswith("check_") else f"remove {name!r}"
            report.problem(place, f"{agent.words} is a {kind}, which has no {name!r}", hint)
    if kind == "function":
        _check_tools(agent, report)


def _check_tools(agent: Declaration, report: ProblemReport) -> None:
    """Report tools and a memory of a function; it may be allowed to terminate."""
    fields = agent.fields
    if fields.has("memory"):
        report.problem(fields.key_place("memory"), f"{agent.words} is a function, which has no 'memory'", "remove it")
    tools = fields.get("tools")
    for item in tools.items if isinstance(tools, Items) else ():
        if not isinstance(item, Scalar) or item.value != TERMINATE:
            hint = f"call it in the function itself; {TERMINATE!r} is the only one"
            report.problem(item.place, f"{agent.words} is a function, which calls no tools", hint)


@cache
def _unused_by(kind: str) -> frozenset[str]:
    """The fields of an agent that the class of this kind does not take."""
    parameters = inspect.signature(KINDS[kind]).parameters.values()
    taken = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
    return frozenset(AgentSpec.model_fields) - taken - KEYWORDS[kind].__optional_keys__ - ELSEWHERE


def check_model_settings(declared: Declarations, report: ProblemReport) -> None:
    """Report unknown settings, unsuitable values, and settings that are given twice."""
    for one in declared.every("model"):
        _check(one.node, one, report)
    for one in declared.every("agent"):
        _check(one.node, one, report)
        for path in INLINE_MODELS:
            _check(one.fields.get(*path), one, report)


def _check(node: Node | None, owner: Declaration, report: ProblemReport) -> None:
    settings = node.get("settings") if isinstance(node, Fields) else None
    if not isinstance(node, Fields) or not isinstance(settings, Fields):
        return
    schema = _schema()
    SchemaCheck(owner.words, report, cast("Mapping[str, JsonValue]", schema["$defs"])).check(settings, schema)
    check_secrets(settings.get("extra_headers"), "extra_headers", owner.words, report)
    for name in TWICE:
        if node.has(name) and settings.has(name):
            message = f"{owner.words}: {name!r} is given twice, also under 'settings'"
            report.problem(settings.key_place(name), message, "keep one of them")


@cache
def _schema() -> Mapping[str, JsonValue]:
    return settings_schema()
