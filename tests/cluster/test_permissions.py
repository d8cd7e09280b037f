"""A worker lets the runs of others use what its operator named, and nothing else."""

from pathlib import Path

import pytest

from teamwright.cluster.permissions import Permissions
from teamwright.errors import UsageError
from teamwright.values.specs.manifest import Manifest

MODEL = "openai:gpt-5-mini"
COMMAND = {"criteria": [{"id": "c", "command": ["sh", "-c", "true"]}]}
PYTHON = {"criteria": [{"id": "c", "function": "os:system"}]}


def manifest(agent: object = None, *, team: object = None, **sections: object) -> Manifest:
    agents = {"a": {"model": MODEL} if agent is None else agent}
    teams = {} if team is None else {"t": {"members": ["a"], **team}}  # pyright: ignore[reportGeneralTypeIssues]
    return Manifest.model_validate({"agents": agents, "teams": teams, **sections})


def refused(given: Manifest, allow: Permissions | None = None, code: Path | None = None) -> list[str]:
    return [one.option for one in (allow or Permissions()).refusals(given, code)]


def with_tool(tool: object) -> Manifest:
    return manifest({"model": MODEL, "tools": [tool]})


HOSTILE = [
    (with_tool({"mcp": {"command": ["sh", "-c", "id"]}}), "--allow program:sh"),
    (manifest(tools={"x": {"mcp": {"command": "./sh"}}}), "--allow program:./sh"),
    (manifest({"model": MODEL, "evaluate": COMMAND}), "--allow program:sh"),
    (manifest(team={"evaluate": COMMAND}), "--allow program:sh"),
    (
        manifest(team={"strategy": "dag", "options": {"steps": [{"id": "a", "evaluate": COMMAND}]}}),
        "--allow program:sh",
    ),
    (manifest(team={"options": {"anything": [{"deep": {"evaluate": COMMAND}}]}}), "--allow program:sh"),
    (with_tool({"function": "subprocess:getoutput"}), "--allow module:subprocess"),
    (with_tool({"function": "json:dumps", "check": "os:system"}), "--allow module:os"),
    (with_tool("os:system"), "--allow module:os"),
    (manifest({"function": "os:system"}), "--allow module:os"),
    (manifest({"model": MODEL, "instructions": {"function": "os:getlogin"}}), "--allow module:os"),
    (manifest({"model": MODEL, "check": {"input": "os:system"}}), "--allow module:os"),
    (manifest({"model": MODEL, "check": {"output": "os.path:exists"}}), "--allow module:os.path"),
    (manifest({"model": MODEL, "evaluate": PYTHON}), "--allow module:os"),
    (manifest({"model": MODEL, "evaluate": {"evaluator": "os:system"}}), "--allow module:os"),
    (manifest(team={"strategy": "antigravity:Fly"}), "--allow module:antigravity"),
    (with_tool("shell"), "--allow program:sh"),
    (with_tool({"shell": {"folder": "."}}), "--allow program:sh"),
    (with_tool({"shell": {}}), "--allow-root DIR"),
    (with_tool({"shell": {"folder": ".", "sandbox": {"env": {"TOKEN": "x"}}}}), "--allow env:TOKEN"),
    (with_tool({"shell": {"folder": ".", "sandbox": {"readable": ["/etc"]}}}), "--allow-root /etc"),
    (manifest(team={"sandbox": {"writable": ["/etc"]}}), "--allow-root /etc"),
    (with_tool("files"), "--allow-root DIR"),
    (with_tool({"files": {}}), "--allow-root DIR"),
    (manifest(tools={"x": {"files": {}}}), "--allow-root DIR"),
    (with_tool({"files": {"folder": "/etc"}}), "--allow-root /etc"),
    (with_tool({"files": {"folder": "."}}), "--allow-root ."),
    (with_tool({"files": {"folder": "a/../../.."}}), "--allow-root ../.."),
    (manifest({"model": "scripted:/etc/passwd"}), "--allow-root /etc/passwd"),
    (manifest({"model": "scripted:../../secret.yaml"}), "--allow-root ../../secret.yaml"),
    (manifest({"model": "local:/weights.gguf"}), "--allow-root /weights.gguf"),
    (manifest({"model": "local:hostile.gguf"}), "--allow-root hostile.gguf"),
    (manifest({"model": MODEL, "stronger": "local:/weights.gguf"}), "--allow-root /weights.gguf"),
    (manifest({"model": MODEL, "economy": "local:/weights.gguf"}), "--allow-root /weights.gguf"),
    (manifest({"model": MODEL, "instructions": "Tell ${HOME}"}), "--allow env:HOME"),
    (with_tool({"mcp": {"url": "https://x.example", "headers": {"A": "${SHOP_TOKEN}"}}}), "--allow env:SHOP_TOKEN"),
    (with_tool({"mcp": {"command": "x", "env": {"TOKEN": "${SHOP_TOKEN}"}}}), "--allow env:SHOP_TOKEN"),
    (with_tool({"mcp": {"command": "x", "env": {"LD_PRELOAD": "a.so"}}}), "--allow env:LD_PRELOAD"),
    (
        manifest(models={"m": {"url": "http://other/v1", "name": "x", "api_key": "${OPENAI_API_KEY}"}}),
        "TEAMWRIGHT_ALLOW_HOSTS=OPENAI_API_KEY@other",
    ),
    (manifest(agents={"env": {"function": "os:system"}}), "--allow module:os"),
    (manifest(agents={"output_schema": {"function": "os:system"}}), "--allow module:os"),
]


@pytest.mark.parametrize(("given", "option"), HOSTILE)
def test_nothing_of_the_machine_is_used_without_a_permission(given: Manifest, option: str) -> None:
    assert option in refused(given)


def test_a_key_is_not_sent_to_a_model_that_has_the_name_of_a_fallback() -> None:
    team = {"members": ["a"], "fallback": "main", "sandbox": {"env": {"GREETING": "${OPENAI_API_KEY}"}}}
    agents = {"a": {"model": "main"}, "main": {"model": "main"}}
    given = manifest(models={"main": "openai:gpt-5"}, agents=agents, teams={"t": team})
    allow = Permissions.read(["env:GREETING"], [])
    assert "OPENAI_API_KEY" in str(refused(given, allow))


def test_only_guardrails_are_functions_below_a_check() -> None:
    assert refused(manifest({"model": MODEL, "check": {"input": "os:system"}})) == ["--allow module:os"]
    plan = {"strategy": "dag", "members": ["a"], "options": {"roles": {"check": {"instructions": "Note: be strict"}}}}
    assert refused(manifest(agents={"a": {"model": MODEL}}, teams={"t": plan})) == []


def test_models_and_travelling_files_need_no_permission() -> None:
    assert (
        refused(manifest({"model": "scripted:replies/one.yaml", "output_schema": {"command": "x", "env": {"a": 1}}}))
        == []
    )
    server = {"url": "https://api.openai.com/v1", "name": "x", "api_key": "${OPENAI_API_KEY}"}
    assert refused(manifest(models={"m": server})) == []  # the key goes to its provider
    assert refused(with_tool({"mcp": {"url": "https://x.example/mcp"}})) == []


def test_what_is_named_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "abcdef-0123456789")
    monkeypatch.setenv("WHO", "Ann")
    allow = Permissions.read(["module:shop", "program:serve", "env:SHOP_TOKEN@x.example", "env:WHO"], [tmp_path])
    assert refused(with_tool({"function": "shop.tools:buy"}), allow) == []
    assert refused(with_tool({"function": "shopping:buy"}), allow) == ["--allow module:shopping"]
    assert refused(with_tool({"mcp": {"command": "serve", "env": {"WHO": "Bob"}}}), allow) == []
    assert refused(with_tool({"files": {"folder": str(tmp_path / "inner")}}), allow) == []
    assert refused(manifest({"model": MODEL, "instructions": "Hi ${WHO}"}), allow) == []
    for host, options in (("x.example", []), ("y.example", ["--allow env:SHOP_TOKEN"])):
        tool = {"mcp": {"url": f"https://{host}", "headers": {"A": "${SHOP_TOKEN}"}}}
        assert refused(with_tool(tool), allow) == options


def test_a_link_out_of_an_allowed_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to("/etc")
    allow = Permissions.read([], [tmp_path / "open"])
    assert refused(with_tool({"files": {"folder": str(tmp_path / "open" / "link")}}), allow) != []


def test_a_program_by_a_relative_path_is_that_of_the_folder_with_code(tmp_path: Path) -> None:
    allow = Permissions.read(["program:bin/serve", "program:../serve"], [])
    assert refused(with_tool({"mcp": {"command": "bin/serve"}}), allow) == ["--allow program:bin/serve"]
    assert refused(with_tool({"mcp": {"command": "bin/serve"}}), allow, tmp_path) == []
    assert refused(with_tool({"mcp": {"command": "../serve"}}), allow, tmp_path) == ["--allow program:../serve"]


def test_a_module_of_the_folder_with_code_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "voices.py").write_text("")
    assert refused(with_tool({"function": "voices:shout"}), code=tmp_path) == []
    assert refused(with_tool({"function": "others:shout"}), code=tmp_path) == ["--allow module:others"]


def test_a_reason_never_quotes_a_variable_that_is_not_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "hidden.example")
    server = {"url": "https://${PLACE}/v1", "name": "x", "api_key": "${OPENAI_API_KEY}"}
    found = Permissions().refusals(manifest(models={"m": server}, tools={"x": {"mcp": {"command": "${PLACE}"}}}))
    assert found
    assert "hidden" not in str(found)


def test_options_that_can_not_be_meant_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        Permissions.read([], [tmp_path / "none"])
    with pytest.raises(UsageError, match="write  NAME or NAME@HOST"):
        Permissions.read(["env:A=B"], [])
    with pytest.raises(UsageError, match="names no program"):
        Permissions.read(["program: "], [])
