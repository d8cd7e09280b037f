"""Kinds of tools that packages register: the schema for editors, code that is not loaded, and unknown names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import cast

import pytest
from pydantic import JsonValue

from teamwright import ModelAgent
from teamwright.agents.functions.import_guard import code_not_loaded
from teamwright.agents.tools.registry import UnloadedSource
from teamwright.errors import UsageError
from teamwright.manifests.code_references import code_in
from teamwright.manifests.schema import manifest_schema
from teamwright.teams.builder import Builder
from teamwright.values.specs.manifest import Manifest
from tests.kit.entry_points import registered_tools


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with registered_tools(monkeypatch, almanac="tests.extending.almanac:AlmanacKind"):
        yield


@pytest.mark.usefixtures("registered")
def test_the_schema_for_editors_knows_its_settings() -> None:
    found = cast("dict[str, dict[str, dict[str, JsonValue]]]", manifest_schema()["$defs"])["tool.almanac"]
    assert "what it always says" in json.dumps(found)


@pytest.mark.usefixtures("registered")
def test_where_no_code_is_loaded_it_is_reported_and_not_imported() -> None:
    manifest = Manifest.model_validate({"agents": {"a": {"model": "local", "tools": [{"almanac": {"weather": 3}}]}}})
    assert [str(one) for one in code_in(manifest)] == ["tool 'almanac' of agent 'a'"]
    with code_not_loaded():
        (member,) = Builder(manifest).team("a").members
    (source,) = cast("ModelAgent", member).toolbox.sources
    assert isinstance(source, UnloadedSource)


def test_an_unregistered_kind_is_reported_with_the_nearest() -> None:
    manifest = Manifest.model_validate({"agents": {"a": {"model": "local", "tools": [{"mpc": {"url": "http://x"}}]}}})
    with pytest.raises(UsageError, match=r"mpc.*did you mean 'mcp'"):
        Builder(manifest).team("a")
