"""Contracts: each class of this package in the signature of what a user implements can be imported from a facade."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from tests.test_facades import FACADES, declared

CONTRACTS = (
    "teamwright.Agent",
    "teamwright.Strategy",
    "teamwright.agents.Evaluator",
    "teamwright.agents.ToolSource",
    "teamwright.journal.Journal",
    "teamwright.engine.Transport",
)
"""What users implement. Values that they only read have no public name: they come with the fields that the docs say."""
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
                elif isinstance(one, Function) and (one.name[0] != "_" or (one.name == "__init__")):
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
                    if home.startswith("teamwright.") and (home, original) not in named():
                        yield from classes_in(getattr(import_module(home), original, None))


@cache
def named() -> frozenset[tuple[str, str]]:
    """Every public name with its home: an alias that has one stands for what it is made of."""
    return frozenset((home, name) for facade in FACADES for name, home in declared(import_module(facade)).items())


@cache
def exported() -> frozenset[object]:
    facades = [import_module(name) for name in FACADES]
    values = [getattr(facade, name) for facade in facades for name in facade.__all__]
    errors = {one for one in vars(import_module("teamwright.errors")).values() if inspect.isclass(one)}
    return frozenset(errors | {one for one in values if inspect.isclass(one)})


@pytest.mark.parametrize("contract", CONTRACTS)
def test_the_classes_in_a_contract_can_be_imported_from_a_facade(contract: str) -> None:
    facade, _, name = contract.rpartition(".")
    found = set(mentioned(getattr(import_module(facade), name)))
    assert sorted(f"{one.__module__}.{one.__qualname__}" for one in found - exported()) == []
