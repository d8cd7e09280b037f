"""Each variable of a manifest has known destinations, and a provider's key goes to its provider."""

from pathlib import Path

import pytest

from teamwright.errors import ManifestError
from teamwright.teams.manifests.variable_checks import sent_variables
from teamwright.teams.team_loader import load_team, read_manifest

KEY = "sk-proj-0123456789abcdef"


def written(folder: Path, model: str = "local", *, tools: str = "{}", team: str = "", agent: str = "") -> Path:
    file = folder / "team.yaml"
    file.write_text(
        f"agents: {{a: {{model: main{agent}}}}}\nmodels: {{main: {model}}}\ntools: {tools}\n"
        f"teams: {{t: {{members: [a]{team}}}}}\n"
    )
    return file


ELSEWHERE = {
    "key": {"model": "{url: 'http://other.example/v1', name: x, api_key: '${OPENAI_API_KEY}'}"},
    "path": {"model": "{url: 'https://other.example/${OPENAI_API_KEY}/v1', name: x}"},
    "host": {"model": "{url: 'https://${OPENAI_API_KEY}.other.example/v1', name: x}"},
    "plain": {"model": "{url: 'http://api.openai.com/v1', name: x, api_key: '${OPENAI_API_KEY}'}"},
    "loopback": {"model": "{url: 'http://127.0.0.1:8000/v1', name: x, api_key: '${OPENAI_API_KEY}'}"},
    "headers": {
        "model": "{url: 'https://other.example/v1', name: x, settings: {extra_headers: {A: '${OPENAI_API_KEY}'}}}"
    },
    "provider": {"model": "{model: 'groq:x', settings: {extra_headers: {A: '${OPENAI_API_KEY}'}}}"},
    "agent": {"model": "groq:x", "agent": ", settings: {extra_headers: {A: '${OPENAI_API_KEY}'}}"},
    "fallback": {
        "model": "openai:x",
        "agent": ", fallback: {model: 'groq:x'}, settings: {extra_headers: {A: '${OPENAI_API_KEY}'}}",
    },
    "mcp": {"tools": "{s: {mcp: {url: 'https://other.example', headers: {A: 'Bearer ${OPENAI_API_KEY}'}}}}"},
    "named": {
        "tools": "{s: {mcp: {url: 'http://o.ex', headers: {url: 'https://api.openai.com', A: '${OPENAI_API_KEY}'}}}}"
    },
    "env": {"tools": "{s: {mcp: {command: serve, env: {url: 'https://api.openai.com', A: '${OPENAI_API_KEY}'}}}}"},
    "webhook": {"team": ", notify: {webhook: 'https://other.example/${OPENAI_API_KEY}'}"},
    "secret": {"team": ", notify: {webhook: 'https://other.example/', secret: '${OPENAI_API_KEY}'}"},
    "variable": {"model": "{url: '${PLACE}', name: x, api_key: '${OPENAI_API_KEY}'}"},
}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("PLACE", "https://other.example/v1")
    monkeypatch.delenv("TEAMWRIGHT_ALLOW_HOSTS", raising=False)


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_providers_key_goes_nowhere_else(case: str, tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="would send OPENAI_API_KEY, the key of 'openai'") as caught:
        load_team(written(tmp_path, **ELSEWHERE[case]))
    assert KEY not in str(caught.value)
    assert "TEAMWRIGHT_ALLOW_HOSTS=OPENAI_API_KEY@" in str(caught.value)


@pytest.mark.parametrize("case", ["key", "path", "headers", "mcp", "webhook", "variable"])
def test_the_user_allows_a_host_by_name(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAMWRIGHT_ALLOW_HOSTS", "OPENAI_API_KEY@other.example")
    assert load_team(written(tmp_path, **ELSEWHERE[case]))


def test_what_the_message_suggests_allows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in ("loopback", "env", "provider", "plain"):
        with pytest.raises(ManifestError) as caught:
            load_team(written(tmp_path, **ELSEWHERE[case]))
        value = caught.value.problems[0].suggestion.rpartition("TEAMWRIGHT_ALLOW_HOSTS=")[2]
        with monkeypatch.context() as changed:
            changed.setenv("TEAMWRIGHT_ALLOW_HOSTS", value)
            assert load_team(written(tmp_path, **ELSEWHERE[case]))


def test_a_key_of_no_known_provider_goes_to_any_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SERVER_KEY", "a-0123456789")
    model = "{url: 'http://localhost:8000/v1', name: x, api_key: '${MY_SERVER_KEY}'}"
    assert load_team(written(tmp_path, model))


def test_a_providers_key_goes_to_its_own_hosts(tmp_path: Path) -> None:
    model = "{url: 'https://api.openai.com/v1', name: x, api_key: '${OPENAI_API_KEY}'}"
    assert load_team(written(tmp_path, model))
    model = "{model: 'openai:x', settings: {extra_headers: {A: '${OPENAI_API_KEY}'}}}"
    assert load_team(written(tmp_path, model))


def test_a_manifest_says_which_variable_goes_where(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "{url: '${PLACE}', name: x, api_key: '${MY_KEY}'}",
        tools="{s: {mcp: {command: serve, env: {TOKEN: '${SHOP_TOKEN}'}}}}",
        agent=", economy: 'openai:x', instructions: 'Hi ${NAME}'",
    )
    assert [str(one) for one in sent_variables(read_manifest([file]).manifest)] == [
        "NAME goes to the text of the field (agents.a.instructions)",
        "PLACE goes to '${PLACE}' (models.main.url)",
        "MY_KEY goes to '${PLACE}' (models.main.api_key)",
        "SHOP_TOKEN goes to the program 'serve' (tools.s.mcp.env.TOKEN)",
        "OPENAI_API_KEY goes to the provider 'openai' (agents.a)",
    ]
