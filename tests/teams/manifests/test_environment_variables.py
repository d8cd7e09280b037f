"""Secrets come from the environment, late, and are known for redaction."""

import pytest

from teamwright.errors import ManifestError, NotResumable
from teamwright.teams.manifests.environment_variables import resolve_secrets
from teamwright.values.names import escape_references
from teamwright.values.specs.manifest import AgentSpec, Manifest, Source
from teamwright.values.specs.models import ServerModel
from teamwright.values.specs.tools import McpSpec, McpTool


def test_references_are_replaced_everywhere() -> None:
    manifest = Manifest(
        agents={"a": AgentSpec(model="${MODEL}", instructions="Hi ${WHO}, pay $5 or $${WHO}")},
        models={"m": ServerModel(url="http://${HOST}/v1", name="x", api_key="${KEY}")},
        tools={
            "t": McpSpec(
                mcp=McpTool(
                    command=(
                        "run",
                        "--place=${HOST}",
                    ),
                    env={"PLACE": "${HOST}"},
                )
            )
        },
    )
    environment = {"MODEL": "openai:x", "WHO": "Ann", "HOST": "h", "KEY": "s3cret"}
    resolved, secrets = resolve_secrets(manifest, environment)
    assert resolved.agents["a"].model == "openai:x"
    assert resolved.agents["a"].instructions == "Hi Ann, pay $5 or ${WHO}"
    assert resolved.models["m"] == ServerModel(url="http://h/v1", name="x", api_key="s3cret")
    tool = resolved.tools["t"]
    assert isinstance(tool, McpSpec)
    assert (tool.mcp.command, tool.mcp.env) == (("run", "--place=h"), {"PLACE": "h"})
    assert secrets == {"s3cret"}
    assert manifest.models["m"] == ServerModel(url="http://${HOST}/v1", name="x", api_key="${KEY}")


def test_the_environment_of_the_process_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_TEST_VALUE", "here")
    resolved, _ = resolve_secrets(Manifest(agents={"a": AgentSpec(instructions="${TEAMWRIGHT_TEST_VALUE}")}))
    assert resolved.agents["a"].instructions == "here"


def test_every_missing_variable_is_reported_with_its_place() -> None:
    manifest = Manifest(
        agents={"a": AgentSpec(instructions="${ONE}")}, models={"m": ServerModel(url="${TWO}", name="x")}
    )
    with pytest.raises(ManifestError) as caught:
        resolve_secrets(manifest, {})
    assert [one.message for one in caught.value.problems] == [
        "The environment variable 'ONE' is not set, and agents.a.instructions needs it",
        "The environment variable 'TWO' is not set, and models.m.url needs it",
    ]


def test_an_address_is_checked_once_its_variables_are_read() -> None:
    manifest = Manifest(
        agents={"a": AgentSpec(model=ServerModel(url="${TWO}/v1", name="x"))},
        models={"m": ServerModel(url="${ONE}", name="x"), "url": ServerModel(url="http://${ONE}/v1", name="x")},
        tools={"t": McpSpec(mcp=McpTool(url="${ONE}"))},
    )
    with pytest.raises(ManifestError) as caught:
        resolve_secrets(manifest, {"ONE": "localhost:8000", "TWO": "http//typo"})
    assert [one.message for one in caught.value.problems] == [
        "agents.a.model.url is not an http address with the value of 'TWO'",
        "models.m.url is not an http address with the value of 'ONE'",
        "tools.t.mcp.url is not an http address with the value of 'ONE'",
    ]
    assert "typo" not in str(caught.value)


def test_an_empty_variable_is_a_value() -> None:
    resolved, secrets = resolve_secrets(Manifest(agents={"a": AgentSpec(instructions="<${A}>")}), {"A": ""})
    assert (resolved.agents["a"].instructions, secrets) == ("<>", frozenset())


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${A-B}", "${A:-x}", "$A", "$$", "{A}"])
def test_other_dollars_stay_as_they_are(text: str) -> None:
    resolved, _ = resolve_secrets(Manifest(agents={"a": AgentSpec(instructions=text)}), {})
    assert resolved.agents["a"].instructions == text


def test_a_value_that_looks_like_a_reference_is_not_read_again() -> None:
    resolved, _ = resolve_secrets(Manifest(agents={"a": AgentSpec(instructions="${A}")}), {"A": "${B} $${"})
    assert resolved.agents["a"].instructions == "${B} $${"


def test_keys_that_are_written_out_are_secret_too() -> None:
    manifest = Manifest(
        models={"m": ServerModel(url="http://x/v1", name="n", api_key="written")},
        tools={"t": McpSpec(mcp=McpTool(url="http://x", headers={"Authorization": "Bearer t0ken", "Accept": "json"}))},
    )
    assert resolve_secrets(manifest, {})[1] == {"written", "Bearer t0ken"}


def test_a_manifest_from_a_record_that_lacks_its_secrets_makes_nothing() -> None:
    manifest = Manifest(
        agents={"a": AgentSpec(model=ServerModel(url="http://x/v1", name="n", api_key="[redacted]"))},
        tools={
            "t": McpSpec(mcp=McpTool(url="http://x", headers={"X-Auth-Token": "[redacted]", "Accept": "[redacted]"}))
        },
    )
    with pytest.raises(NotResumable) as caught:
        resolve_secrets(manifest, {})
    assert "of agents.a.model.api_key, tools.t.mcp.headers.X-Auth-Token is a secret" in str(caught.value)
    assert "team=…" in str(caught.value)
    assert "${NAME}" in str(caught.value)


def test_a_text_that_speaks_of_the_mark_is_no_secret() -> None:
    manifest = Manifest(agents={"a": AgentSpec(instructions="[redacted]")})
    assert resolve_secrets(manifest, {}) == (manifest, frozenset())


# S-06
def test_plain_variables_are_settings_and_secrets_are_known_by_name_or_by_field() -> None:
    manifest = Manifest(
        agents={"headers": AgentSpec(instructions="${MODEL}")},
        models={"m": ServerModel(url="http://u:${DB_PASS}@${HOST}/v1", name="${MODEL}", api_key="${SHOP}")},
        tools={
            "t": McpSpec(
                mcp=McpTool(url="http://x", headers={"X-Shop": "a ${CODE}", "Accept": "${KIND}"}),
            ),
            "u": McpSpec(mcp=McpTool(command=("run",), env={"DB_PASSWORD": "${PLAIN}", "PLACE": "${HOST}"})),
        },
    )
    environment = {
        "MODEL": "a-model-1", "DB_PASS": "pass-1", "HOST": "h", "SHOP": "shop-1", "CODE": "code-1", "KIND": "k",
        "PLAIN": "plain-1",
    }  # fmt: skip
    resolved, secrets = resolve_secrets(manifest, environment)
    assert secrets == {"pass-1", "shop-1", "code-1", "plain-1"}
    assert resolved.models["m"] == ServerModel(url="http://u:pass-1@h/v1", name="a-model-1", api_key="shop-1")


def test_more_secrets_than_can_be_searched_for_are_refused() -> None:
    # S-01
    headers = {f"X-Token-{number}": f"value-{number}" for number in range(1_001)}
    manifest = Manifest(tools={"t": McpSpec(mcp=McpTool(url="http://x", headers=headers))})
    with pytest.raises(ManifestError, match="has 1001 secrets, and at most 1000 can be masked"):
        resolve_secrets(manifest, {})


def test_a_secret_that_is_passed_on_to_an_mcp_server_is_known() -> None:
    server = McpSpec(mcp=McpTool(command=("run",), env={"A": "${SHOP_KEY}", "B": "${SHOP_REGION}"}))
    environment = {"SHOP_KEY": "s3cret-of-the-shop", "SHOP_REGION": "north"}
    assert resolve_secrets(Manifest(tools={"t": server}), environment)[1] == {"s3cret-of-the-shop"}


@pytest.mark.parametrize(
    "text", ["${HOME}", "$${HOME}", "$$${HOME}", "a ${HOME} b ${B}", "${", "${not a name}", "$${", "$", "{", "${A${B}}"]
)
def test_an_escaped_text_is_read_as_it_was_written(text: str) -> None:
    agents = {"a": AgentSpec(instructions=text, capabilities=(text,))}
    escaped = escape_references(Source(manifest=Manifest(agents=agents), team="").to_json())
    resolved, _ = resolve_secrets(Source.model_validate(escaped).manifest, {})
    assert resolved.agents == agents


def test_a_recorded_manifest_is_checked_like_a_file() -> None:
    manifest = Manifest(agents={"a": AgentSpec(instructions="Use ${SHOP_API_KEY}")})
    with pytest.raises(ManifestError, match=r"agents\.a\.instructions may not read 'SHOP_API_KEY', which is a secret"):
        resolve_secrets(manifest, {"SHOP_API_KEY": "abcdef-0123456789"})


@pytest.mark.parametrize(
    "value",
    ["postgresql://ann:pa55word-1234@db/x", "redis://:pa55word-1234@h:6379", "host=db password=pa55word-1234"],
)
def test_a_connection_string_is_a_secret_by_its_value_and_never_part_of_a_prompt(value: str) -> None:
    with pytest.raises(ManifestError, match="may not read 'PLACE', which holds a password") as caught:
        resolve_secrets(Manifest(agents={"a": AgentSpec(instructions="Look at ${PLACE}")}), {"PLACE": value})
    assert "pa55word" not in str(caught.value)
    server = McpSpec(mcp=McpTool(command=("run",), env={"PLACE": "${PLACE}"}))
    _, secrets = resolve_secrets(Manifest(tools={"t": server}), {"PLACE": value})
    assert secrets == {value}


@pytest.mark.parametrize("name", ["TEAMWRIGHT_JOURNAL", "TEAMWRIGHT_REDIS", "TEAMWRIGHT_WEBHOOK"])
def test_no_manifest_reads_the_variables_of_teamwright_itself(name: str) -> None:
    model = ServerModel(url=f"https://x.example/${{{name}}}", name="x", api_key=f"${{{name}}}")
    server = McpSpec(mcp=McpTool(command=("run",), env={"A": f"${{{name}}}"}))
    with pytest.raises(ManifestError) as caught:
        resolve_secrets(Manifest(models={"m": model}, tools={"t": server}), {name: "postgresql://a:b@c/d"})
    places = ["models.m.url", "models.m.api_key", "tools.t.mcp.env.A"]
    assert [one.message for one in caught.value.problems] == [f"{place} may not read {name!r}" for place in places]
