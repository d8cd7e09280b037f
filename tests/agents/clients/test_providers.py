"""The table of providers: the same as pydantic-ai's, which no manifest and no constructor imports."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from pydantic_ai import providers
from pydantic_ai.providers import gateway

from teamwright import ModelAgent
from teamwright.agents import NamedModel
from teamwright.agents.clients.providers import (
    GATEWAY_PROVIDERS,
    PROVIDERS,
    WITHOUT_MODELS,
    undeclared_reason,
    unknown_provider,
)
from teamwright.errors import UsageError
from tests.teams.manifests.manifests import problems


def test_the_table_has_the_providers_that_pydantic_ai_knows() -> None:
    tree = ast.parse(inspect.getsource(providers.infer_provider_class))
    cases = {node.value for case in ast.walk(tree) if isinstance(case, ast.MatchValue) for node in ast.walk(case.value)
             if isinstance(node, ast.Constant)}  # fmt: skip
    assert cases - WITHOUT_MODELS == PROVIDERS
    files = {one.stem.replace("_", "-") for one in Path(providers.__file__).parent.glob("[a-z]*.py")}
    assert files - PROVIDERS == WITHOUT_MODELS


def test_the_table_has_the_providers_of_the_gateway() -> None:
    known = {*get_args(gateway.ModelProvider), *get_args(gateway.APIFlavor)}
    assert known == GATEWAY_PROVIDERS


@pytest.mark.parametrize(
    "model", ["openai:gpt-5", "gateway/openai:gpt-5", "local", "local:w.gguf", "scripted:a.yaml", "ollama:qwen3:8b"]
)
def test_a_model_of_a_known_provider_passes(model: str) -> None:
    assert unknown_provider(model) is None


@pytest.mark.parametrize("model", ["opena:gpt-5", "gateway/opena:gpt-5", "voyageai:voyage-4", "_oauth:x"])
def test_a_model_of_an_unknown_provider_does_not(model: str) -> None:
    assert unknown_provider(model) == model.partition(":")[0]


def test_a_newer_pydantic_ai_may_have_more_providers_than_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pydantic_ai" / "providers").mkdir(parents=True)
    for file in ("__init__.py", "providers/brand_new.py"):
        (tmp_path / "pydantic_ai" / file).touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pydantic_ai"]:
        monkeypatch.delitem(sys.modules, name)
    assert unknown_provider("brand-new:x") is None


def test_an_unknown_provider_is_refused_in_python_with_the_nearest_one() -> None:
    text = r"The agent 'a': there is no provider 'opena' for the model 'opena:gpt-5'; did you mean 'openai:'"
    for model in ("opena:gpt-5", NamedModel(model="opena:gpt-5")):
        with pytest.raises(UsageError, match=text):
            ModelAgent("a", model=model)
    with pytest.raises(UsageError, match=text):
        ModelAgent("a", model="local", economy="opena:gpt-5")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("openai", "'openai' is a provider without a model; write  openai:NAME"),
        ("openai:", "'openai:' is a provider without a model; write  openai:NAME"),
        ("gpt-5", "'gpt-5' is not a model; write provider:name, local or local:FILE"),
        ("openai:gpt-5", None),
        ("gateway/openai:gpt-5", None),
        ("local", None),
        ("test", None),
    ],
)
def test_a_name_without_a_provider_or_a_model_is_no_model(model: str, reason: str | None) -> None:
    assert undeclared_reason(model) == reason


def test_one_that_is_near_to_none_gets_the_whole_list() -> None:
    with pytest.raises(UsageError, match=r"known are alibaba:, anthropic:.* zai:, local:, scripted:\.$"):
        ModelAgent("a", model="zzzzzz:gpt-5")


@pytest.mark.parametrize(
    "field", ["model: opena:x", "economy: opena:x", "stronger: opena:x", "fallback: {model: opena:x}"]
)
def test_an_unknown_provider_is_refused_in_a_manifest(tmp_path: Path, field: str) -> None:
    model = "" if field.startswith("model") else "model: local, "
    (problem,) = problems(tmp_path, f"agents: {{a: {{{model}{field}}}}}")
    assert problem.message == "agent 'a': there is no provider 'opena' for the model 'opena:x'"
    assert problem.suggestion.startswith("did you mean 'openai:'")
    assert problem.column == 14 + len(model) + field.index("opena")


def test_a_declared_model_is_checked_where_it_is_declared(tmp_path: Path) -> None:
    found = problems(tmp_path, "models: {m: opena:x, n: {model: 'antropic:x'}}\nagents: {a: {model: m}, b: {model: n}}")
    assert [one.message.partition(":")[0] for one in found] == ["model 'm'", "model 'n'"]


@pytest.mark.parametrize("field", ["economy", "stronger"])
def test_a_misspelt_name_of_another_model_is_refused(tmp_path: Path, field: str) -> None:
    (problem,) = problems(tmp_path, f"models: {{small: local}}\nagents: {{a: {{model: 'openai:x', {field}: smal}}}}")
    assert (problem.message, problem.suggestion) == ("agent 'a': there is no model 'smal'", "did you mean 'small'?")


def test_no_library_is_imported_to_know_them(tmp_path: Path) -> None:
    manifest = tmp_path / "team.yaml"
    manifest.write_text("agents: {a: {model: 'opena:x'}}")
    code = (
        "import sys; from pathlib import Path; from teamwright.teams.manifests.manifest_loader import load\n"
        f"try: load([Path({str(manifest)!r})])\n"
        "except Exception as error: print(error)\n"
        "print('pydantic_ai' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "did you mean 'openai:'" in printed
    assert printed.endswith("False\n")
