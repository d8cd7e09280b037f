"""ARK's models become servers or provider names."""

from pathlib import Path

import pytest

from teamwright.teams.manifests.manifest_loader import Loaded
from teamwright.values.specs.models import ServerModel
from tests.teams.manifests.manifests import loaded, only_problem

HEAD = "apiVersion: ark.mckinsey.com/v1alpha1\nkind: Model\nmetadata: {name: m}\nspec: "
SECRET = "apiKey: {valueFrom: {secretKeyRef: {name: n, key: k}}}"


def openai(config: str, model: str = "g") -> str:
    return f"{{type: openai, model: {{value: '{model}'}}, config: {{openai: {{{config}}}}}}}"


def model(folder: Path, spec: str) -> Loaded:
    return loaded(folder, HEAD + spec)


def test_an_address_makes_a_server(tmp_path: Path) -> None:
    spec = openai("baseUrl: {value: 'http://o:1/v1'}, apiKey: {value: '${K}'}", "q:8b")
    found = model(tmp_path, spec)
    assert found.manifest.models["m"] == ServerModel(url="http://o:1/v1", name="q:8b", api_key="${K}")
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("spec", "expected", "warned"),
    [
        (
            openai(f"baseUrl: {{value: 'https://api.openai.com/v1'}}, {SECRET}"),
            "openai:g",
            ["set OPENAI_API_KEY"],
        ),
        (
            f"{{provider: anthropic, type: completions, model: {{value: c}}, config: {{anthropic: {{{SECRET}}}}}}}",
            "anthropic:c",
            ["set ANTHROPIC_API_KEY"],
        ),
        (
            "{type: azure, model: {value: g}, config: {azure: {baseUrl: {value: 'http://x'}, apiVersion: {value: v}}}}",
            "azure:g",
            ["set AZURE_OPENAI_ENDPOINT", "'apiVersion' of model 'm' is not supported"],
        ),
        (
            "{type: bedrock, model: {value: 'us.a:0'}, config: {bedrock: {region: {value: r}}}, pollInterval: 5m}",
            "bedrock:us.a:0",
            ["'region'", "'pollInterval'"],
        ),
        ("{type: openai, model: {value: g}, config: {azure: {}}}", "openai:g", ["'config.azure' is not used"]),
    ],
)
def test_without_an_address_the_provider_is_named(
    tmp_path: Path, spec: str, expected: str, warned: list[str]
) -> None:
    found = model(tmp_path, spec)
    assert found.manifest.models["m"] == expected
    told = "\n".join(str(one) for one in found.warnings)
    assert len(found.warnings) == len(warned)
    assert all(words in told for words in warned)


def test_what_is_kept_in_a_cluster_is_reported(tmp_path: Path) -> None:
    spec = openai(f"baseUrl: {{value: 'http://x/v1'}}, {SECRET}")
    (warning,) = model(tmp_path, spec).warnings
    assert "'apiKey' of model 'm' is stored in a cluster" in warning.message


def test_a_model_needs_a_name(tmp_path: Path) -> None:
    assert "'model.value' is missing" in only_problem(tmp_path, HEAD + "{type: openai}").message


FROM_CLUSTER = (
    "{type: openai, model: {valueFrom: {configMapKeyRef: {name: c, key: m}}}, config: {openai: {baseUrl: {valueFrom:"
    " {configMapKeyRef: {name: c, key: u}}}, apiKey: {valueFrom: {secretKeyRef: {name: s, key: k}}}}}}"
)


def test_a_model_whose_name_a_cluster_keeps_loads_where_another_takes_its_place(tmp_path: Path) -> None:  # R-12, M-05
    problem = only_problem(tmp_path, HEAD + FROM_CLUSTER)
    assert problem.message == "model 'm': the model's name is stored in a cluster ('valueFrom')"
    assert "--model" in problem.suggestion
    found = loaded(tmp_path, HEAD + FROM_CLUSTER, replaced=True)
    assert list(found.manifest.models) == ["m"]
    assert any("stored in a cluster" in one.message for one in found.warnings)


def test_a_model_without_a_name_loads_where_another_takes_its_place(tmp_path: Path) -> None:  # M-05
    assert loaded(tmp_path, HEAD + "{type: openai, config: {}}", replaced=True).manifest.models
