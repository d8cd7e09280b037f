"""Checks the settings of models and agents against the list of settings, which is read only where some are given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import cast

from pydantic import JsonValue

from teamwright.documents.nodes import Fields, Node, ProblemReport
from teamwright.documents.schema_check import SchemaCheck, check_secrets
from teamwright.teams.manifests.declarations import Declaration, Declarations
from teamwright.values.specs.model_settings import settings_schema

TWICE = ("temperature", "max_tokens")
"""Settings that are fields of an agent too."""
INLINE_MODELS = (("model",), ("economy",), ("fallback", "model"))
"""Where an agent may declare a model in place."""


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
