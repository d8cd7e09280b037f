"""The list of settings is that of the installed pydantic-ai, and settings are checked without importing it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from pydantic_ai.models.openai import OpenAIResponsesModelSettings

from teamwright.agents import NamedModel, ServerModel
from teamwright.errors import InvalidValue, UsageError
from teamwright.values.specs.model_settings import INSTEAD, ModelSettings, check_settings

NOT_FOR_CHATS = ("decision_", "typesafe_", "mcp_")
"""Settings of models that make no conversation, or that only a server of MCP has."""


def library_settings() -> set[str]:
    """The settings of all providers, also of those whose packages are not installed."""
    spec = find_spec("pydantic_ai")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    found: set[str] = set()
    for file in (root / "settings.py", *(root / "models").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef) and node.name.endswith("ModelSettings"):
                found |= {
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                }
    return {name for name in found if not name.startswith(NOT_FOR_CHATS)}


def test_the_list_has_each_setting_of_the_installed_library_or_says_what_to_write_instead() -> None:
    refused = {name for name in library_settings() if name in INSTEAD}
    assert refused == {
        "timeout", "request_timeout", "first_event_timeout", "max_retries", "openai_background", "openai_transport",
    }  # fmt: skip
    assert set(get_type_hints(ModelSettings)) == library_settings() - refused


def choices(hint: Any) -> set[object]:
    """The values of all literals in a type, and its simple types."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    if get_origin(hint) in (Union, types.UnionType, Annotated):
        inner = get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)
        return set().union(*(choices(one) for one in inner))
    return {hint} if hint in (bool, int, float, str) else set()


def test_simple_values_are_those_of_the_installed_library() -> None:
    ours, theirs = (get_type_hints(one, include_extras=True) for one in (ModelSettings, OpenAIResponsesModelSettings))
    same = ours.keys() & theirs.keys() - {"openai_conversation_id", "openai_previous_response_id"}
    assert {name: choices(ours[name]) for name in same} == {name: choices(theirs[name]) for name in same}


def test_mistakes_are_named_together_with_what_to_write() -> None:
    wrong = {"top_p": 3, "stop": ["x"], "openai_reasoning_efort": "low", "thinking": "lots", "timeout": 3}
    with pytest.raises(UsageError) as caught:
        check_settings("the agent 'a'", wrong)
    text = str(caught.value)
    assert text.startswith("The settings of the agent 'a' do not fit: ")
    for part in (
        "top_p: must be at most 1, and 3 is not",
        "'stop' is no setting: write stop_sequences",
        "did you mean 'openai_reasoning_effort'",
        "thinking: is 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max', and this is the text 'lots'",
        "'timeout' is no setting: set 'timeout' of the agent",
    ):
        assert part in text


def test_the_output_cap_of_an_agent_is_no_setting() -> None:
    with pytest.raises(UsageError, match=r"'max_tokens' is no setting of the agent 'a' but a field: write it beside"):
        check_settings("the agent 'a'", {"max_tokens": 1})


@pytest.mark.parametrize(
    ("form", "fields"), [(NamedModel, {"model": "openai:x"}), (ServerModel, {"url": "http://x", "name": "n"})]
)
def test_a_model_refuses_wrong_settings_at_construction(form: Any, fields: dict[str, str]) -> None:
    assert form(**fields, settings={"seed": 7}).settings == {"seed": 7}
    with pytest.raises(InvalidValue, match=r"settings: 'sed' is no setting: did you mean 'seed'"):
        form(**fields, settings={"sed": 7})
    with pytest.raises(InvalidValue, match="output_mode: is 'auto', 'native', 'tool' or 'prompt'"):
        form(**fields, output_mode="nativ")


def test_settings_are_checked_without_an_import_of_pydantic_ai() -> None:
    code = (
        "import sys; from teamwright import ModelAgent; ModelAgent('a', model='openai:x', settings={'seed': 1});"
        "print('pydantic_ai' in sys.modules)"
    )
    assert json.loads(subprocess.check_output([sys.executable, "-c", code], text=True).lower()) is False
