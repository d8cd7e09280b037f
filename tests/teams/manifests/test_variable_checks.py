"""Secrets are allowed only in fields for secrets; a variable with the name of a secret is refused elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import load_team
from teamwright.documents.nodes import Fields, ProblemReport
from teamwright.documents.reader import read_file
from teamwright.errors import ManifestError
from teamwright.teams.manifests.declarations import Declarations, read_native
from teamwright.teams.manifests.manifest_loader import FORM, load
from teamwright.teams.manifests.variable_checks import check_variables
from teamwright.teams.team_loader import source_of, team_from_source
from tests.growth import assert_linear_calls, count_calls

# S-04
TEAM = """\
models:
  main: {url: 'https://x.example/v1', name: n}
agents:
  a: {model: main, instructions: Do it.}
teams:
  t: {members: [a]}
tools:
  s: {mcp: {command: [serve, now]}}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "team.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("variable", ["SHOP_API_KEY", "GITHUB_TOKEN", "CLIENT_SECRET", "DB_PASS", "AWS_CREDENTIALS"])
@pytest.mark.parametrize(
    ("old", "new", "field", "line"),
    [
        ("Do it.", "'Use ${NAME} now'", "agent 'a': instructions", 4),
        ("name: n", "name: '${NAME}'", "model 'main': name", 2),
        ("now]", "'--key=${NAME}']", "tool 's': mcp.command", 8),
        ("[serve, now]", "'${NAME}'", "tool 's': mcp.command", 8),
        ("{members: [a]}", "{members: [a], description: '${NAME}'}", "team 't': description", 6),
        ("Do it.", "x, description: '${NAME}'", "agent 'a': description", 4),
        (
            "Do it.",
            "x, output_schema: {properties: {url: {default: '${NAME}'}}}",
            "agent 'a': output_schema.properties.url.default",
            4,
        ),
        ("Do it.", "x, output_schema: {default: {url: '${NAME}'}}", "agent 'a': output_schema.default.url", 4),
        ("'https://x.example/v1', name: n", "'https://x.example/v1', name: '$${NAME} ${NAME}'", "model 'main'", 2),
    ],
)
def test_a_secret_is_refused_with_its_place(
    variable: str, old: str, new: str, field: str, line: int, tmp_path: Path
) -> None:
    file = written(tmp_path, TEAM.replace(old, new.replace("NAME", variable)))
    with pytest.raises(ManifestError) as caught:
        load([file])
    [problem] = caught.value.problems
    assert problem.message.startswith(field)
    assert f"may not read {variable!r}, which is a secret by its name" in problem.message
    assert (problem.file, problem.line) == (str(file), line)
    written_line = file.read_text().splitlines()[line - 1]
    assert problem.column == written_line.rindex("'", 0, written_line.index("${")) + 1
    assert "api_key, headers, env, url and webhook" in problem.suggestion


@pytest.mark.parametrize("variable", ["MODEL", "WHO", "MAX_TOKENS", "AUTHOR"])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Do it.", "'Use ${NAME}'"),
        ("name: n", "name: '${NAME}'"),
        ("now]", "'${NAME}']"),
        ("[serve, now]", "'serve ${NAME}'"),
    ],
)
def test_a_setting_may_stand_in_any_text(variable: str, old: str, new: str, tmp_path: Path) -> None:
    load([written(tmp_path, TEAM.replace(old, new.replace("NAME", variable)))])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: n", "name: n, api_key: '${SHOP_API_KEY}'"),
        ("https://x.example/v1", "https://u:${DB_PASS}@x.example/v1"),
        ("[serve, now]", "serve, env: {ANYTHING: '${DB_PASS}'}"),
        ("command: [serve, now]", "url: 'https://x.example/?k=${DB_PASS}', headers: {X-Any: '${DB_PASS}'}"),
        ("model: main", "model: {url: 'https://x.example', name: n, api_key: '${DB_PASS}'}"),
        ("Do it.", "x, tools: [{mcp: {url: 'https://x.example', headers: {A: '${DB_PASS}'}}}]"),
        ("{members: [a]}", "{members: [a], notify: {webhook: 'https://x.example/${DB_PASS}'}}"),
        ("Do it.", "'write $${SHOP_API_KEY} there'"),
    ],
)
def test_a_secret_may_stand_where_secrets_belong(old: str, new: str, tmp_path: Path) -> None:
    load([written(tmp_path, TEAM.replace(old, new))])


def test_an_agent_that_is_called_like_a_field_is_no_field(tmp_path: Path) -> None:
    for name in ("env", "headers", "url", "api_key"):
        with pytest.raises(ManifestError, match="may not read"):
            load([written(tmp_path, TEAM.replace("  a: {", f"  {name}: {{").replace("Do it.", "'${DB_PASS}'"))])


ARK = """\
apiVersion: ark.mckinsey.com/v1alpha1
kind: {kind}
metadata: {{name: x}}
spec: {spec}
"""


def test_the_documents_of_ark_are_checked_alike(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load([written(tmp_path, ARK.format(kind="Agent", spec="{prompt: 'Use ${SHOP_TOKEN}'}"))])
    assert any("may not read 'SHOP_TOKEN'" in one.message and one.line == 4 for one in caught.value.problems)
    spec = (
        "{type: openai, model: {value: m}, config: {openai: {baseUrl: {value: 'https://x.example'},"
        " apiKey: {value: '${SHOP_TOKEN}'}}}}"
    )
    load([written(tmp_path, ARK.format(kind="Model", spec=spec))])


# S-06
@pytest.mark.parametrize(
    "argument",
    ["--api-key=a1b2c3d4", "postgres://bob:hunter2@db/x", "sk_live_abcdefgh12345678", "https://h/?token=abc"],
)
def test_a_secret_that_is_written_on_a_command_line_is_refused(argument: str, tmp_path: Path) -> None:
    file = written(tmp_path, TEAM.replace("now]", f"'{argument}']"))
    with pytest.raises(ManifestError) as caught:
        load([file])
    [problem] = caught.value.problems
    assert problem.message.startswith("tool 's': mcp.command holds a secret")
    assert "a1b2c3d4" not in problem.message
    assert (problem.line, problem.suggestion) == (8, "put it under env, and let the server read it from there")


def test_a_recorded_manifest_is_refused_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "abcdef-0123456789")
    loaded = load([written(tmp_path, TEAM.replace("Do it.", "'Use NAME'"))])
    source = source_of(loaded)
    agent = loaded.manifest.agents["a"].model_copy(update={"instructions": "Use ${SHOP_API_KEY}"})
    manifest = source.manifest.model_copy(update={"agents": {"a": agent}})
    with pytest.raises(ManifestError, match=r"agents\.a\.instructions may not read 'SHOP_API_KEY'"):
        team_from_source(source.model_copy(update={"manifest": manifest}), recorded=True)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Do it.", "'${TEAMWRIGHT_JOURNAL}'"),
        ("[serve, now]", "serve, env: {ANYTHING: '${TEAMWRIGHT_JOURNAL}'}"),
        ("https://x.example/v1", "https://x.example/${TEAMWRIGHT_JOURNAL}"),
    ],
)
def test_a_variable_of_teamwright_itself_is_refused_everywhere(before: str, after: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as caught:
        load([written(tmp_path, TEAM.replace(before, after))])
    [problem] = caught.value.problems
    assert "may not read 'TEAMWRIGHT_JOURNAL'" in problem.message
    assert problem.line > 0


def test_a_mapping_that_many_agents_share_is_looked_through_once(tmp_path: Path) -> None:
    # S-01
    properties = ", ".join(f"p{number}: {{type: string, description: some text}}" for number in range(100))

    def declared(agents: int) -> Declarations:
        many = "".join(f"  a{number}: {{model: local, output_schema: *schema}}\n" for number in range(agents))
        text = f"agents:\n  a: {{model: local, output_schema: &schema {{properties: {{{properties}}}}}}}\n{many}"
        found = Declarations()
        for document in read_file(written(tmp_path, text), ProblemReport(), form=FORM):
            assert isinstance(document, Fields)
            read_native(document, tmp_path, found, ProblemReport())
        return found

    def check(given: Declarations) -> None:
        check_variables(given, ProblemReport())

    assert count_calls(check, declared(100)) - count_calls(check, declared(50)) < 50 * 100
    assert_linear_calls(check, prepare=declared, size=50)


def test_the_check_holds_for_python_too(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="secret by its name"):
        load_team(written(tmp_path, TEAM.replace("Do it.", "'${DB_PASS}'")))


ENVIRONMENT = """\
models:
  main: {url: '${PLACE}/v1', name: n, api_key: '${MAIN_KEY}'}
agents:
  a: {model: main, instructions: 'In ${TOWN}, not in $${TOWN}'}
  b:
    model: {url: '${HOST}:80/v1', name: n, settings: {extra_headers: {X: '${HEAD}'}}}
    tools: [{mcp: {command: serve, env: {K: '${INNER}'}}}, {mcp: {url: '${MCP_URL}', headers: {Y: '${HEAD}'}}}]
teams:
  t: {members: [a, b], notify: {webhook: '${HOOK}'}}
"""


def test_validate_names_each_variable_that_is_not_set_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, ENVIRONMENT)

    def unset(*, models_replaced: bool = False) -> list[tuple[int, str]]:
        warnings = load([file], thorough=True, models_replaced=models_replaced).warnings
        found = [(one.line, one.message.partition("environment variable ")[2]) for one in warnings]
        return [(line or 0, text) for line, text in found if text]

    assert unset() == [
        (2, "'PLACE' is not set, and url needs it"),
        (2, "'MAIN_KEY' is not set, and api_key needs it"),
        (4, "'TOWN' is not set, and instructions needs it"),
        (6, "'HOST' is not set, and model.url needs it"),
        (6, "'HEAD' is not set, and model.settings.extra_headers.X needs it"),
        (7, "'INNER' is not set, and tools.mcp.env.K needs it"),
        (7, "'MCP_URL' is not set, and tools.mcp.url needs it"),
        (7, "'HEAD' is not set, and tools.mcp.headers.Y needs it"),
        (9, "'HOOK' is not set, and notify.webhook needs it"),
    ]
    assert {line for line, _ in unset(models_replaced=True)} == {4, 7, 9}
    assert load([file]).warnings == ()
    monkeypatch.setenv("PLACE", "https://x.example")
    assert len(unset()) == 8


def test_validate_checks_an_address_with_the_values_of_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"PLACE": "localhost:8000", "HOST": "htp://x", "MCP_URL": "x.example", "HOOK": "https://hook.example/abc"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ManifestError) as caught:
        load([written(tmp_path, ENVIRONMENT)], thorough=True)
    assert [(one.line, one.message) for one in caught.value.problems] == [
        (2, "model 'main': url is not an http address with the value of 'PLACE'"),
        (6, "agent 'b': model.url is not an http address with the value of 'HOST'"),
        (7, "agent 'b': tools.mcp.url is not an http address with the value of 'MCP_URL'"),
    ]
