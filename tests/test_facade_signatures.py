"""Signatures of public names: each class of this package that one mentions can be imported from a facade."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from tests.test_facades import FACADES

REPORTS = {"teamwright.cli", "teamwright.history", "teamwright.plans"}
"""Facades whose functions return reports: users read the parts of a report and write no annotation with them."""
WINGS = ("teamwright.cluster", "teamwright.experts", "teamwright.lab", "teamwright.server")
"""Wings offer what a program calls; what they take and return is described where it is used."""
PARTS = sorted(one for one in FACADES if one not in REPORTS and not one.startswith(WINGS))
PRIVATE = {
    "teamwright.agents.contract.settings.AgentKeywords",  # the keywords of constructors, which users write one by one
    "teamwright.agents.contract.settings.ModelKeywords",
    "teamwright.teams.team.TeamSettings",
    "teamwright.teams.team.TeamRoster",  # the agents of a team, found once
    "teamwright.journal.memory.MemoryTokenRates",  # a `TokenRates`
    "teamwright.agents.clients.model_client.ModelClient",  # what `Models` opens for model agents
    "teamwright.runtime.placement.protocol.Placement",  # what lets workers drive branches
    "teamwright.runtime.handle.Driver",  # the engine, as its handles see it
    "teamwright.runtime.webhooks.deliveries.Delivery",  # a notice that handles pass to the engine
    "teamwright.values.specs.manifest.Manifest",  # what a worker examines before it builds a team
    "teamwright.values.specs.manifest.Source",  # the recorded form of a team
    "teamwright.agents.contract.effect.Publish",  # the function that streams a piece of a reply
    "teamwright.agents.model.request_template.RequestTemplate",  # what an agent's last turn offered its model
    "teamwright.values.text.timed_regex.PatternSearch",  # the time that the rules of one turn share
}
"""Classes in signatures that are not for users: the package makes these objects."""
NOT_CALLED = {"Handle", "Runs"}
"""Classes whose objects come from the engine, so their constructors are not public."""
ALIASES = (
    ("teamwright.agents", "AnyModel Arguments JsonSchema ToolLike ToolSpec"),
    ("teamwright.engine", "Status"),
    ("teamwright.strategies", "ExpectedAsks Share Signal StopReason"),
)
Function = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def tree(module: str) -> ast.Module:
    file = import_module(module).__file__
    assert file is not None
    return ast.parse(Path(file).read_text(encoding="utf-8"))


@cache
def imports(module: str) -> dict[str, tuple[str, str]]:
    """What a module imports, also for type checkers only: its name there, and where it comes from."""
    froms = [node for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom) and node.module]
    return {one.asname or one.name: (str(node.module), one.name) for node in froms for one in node.names}


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    args = node.args
    for one in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if one is not None and one.annotation is not None:
            yield one.annotation
    if node.returns is not None:
        yield node.returns


def public_annotations(node: ast.stmt) -> Iterator[ast.expr]:
    """The annotations of a function, or of the public methods and fields of a class."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from signature(node)
        case ast.ClassDef():
            for one in node.body:
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and one.target.id[0] != "_":
                    yield one.annotation
                elif isinstance(one, Function) and (
                    one.name[0] != "_" or (one.name == "__init__" and node.name not in NOT_CALLED)
                ):
                    yield from signature(one)
        case _:
            return


def classes_in(value: object) -> Iterator[type]:
    """The classes of this package in a type; an alias stands for those it is made of."""
    if inspect.isclass(value) and not get_args(value) and value.__module__.startswith("teamwright."):
        yield value
    for one in get_args(value):
        yield from classes_in(one)


def mentioned(value: object) -> Iterator[type]:
    """The classes of this package in the signatures of a function or class."""
    for one in inspect.getmro(value) if inspect.isclass(value) else (value,):
        module = getattr(one, "__module__", "")
        if not module.startswith("teamwright."):
            continue
        (node,) = [it for it in tree(module).body if getattr(it, "name", "") == getattr(one, "__name__", None)]
        for expression in public_annotations(node):
            for name in ast.walk(expression):
                if isinstance(name, ast.Name):
                    home, original = imports(module).get(name.id, (module, name.id))
                    if home.startswith("teamwright."):
                        yield from classes_in(getattr(import_module(home), original, None))


@cache
def exported() -> frozenset[object]:
    facades = [import_module(name) for name in FACADES]
    values = [getattr(facade, name) for facade in facades for name in facade.__all__]
    errors = {one for one in vars(import_module("teamwright.errors")).values() if inspect.isclass(one)}
    return frozenset(errors | {one for one in values if inspect.isclass(one)})


@pytest.mark.parametrize("name", PARTS)
def test_the_classes_in_signatures_of_public_names_can_be_imported_from_a_facade(name: str) -> None:
    facade = import_module(name)
    values = [getattr(facade, one) for one in facade.__all__]
    found = {
        f"{one.__module__}.{one.__qualname__}"
        for value in values
        if inspect.isclass(value) or inspect.isfunction(value)
        for one in mentioned(value)
        if one not in exported()
    }
    assert sorted(found - PRIVATE) == []


@pytest.mark.parametrize(("name", "aliases"), ALIASES)
def test_the_aliases_that_parts_are_annotated_with_can_be_imported_from_a_facade(name: str, aliases: str) -> None:
    assert set(aliases.split()) <= set(import_module(name).__all__)
