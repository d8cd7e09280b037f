"""Native manifests: what they may contain, and what is reported otherwise."""

from pathlib import Path

import pytest

from teamwright.values.specs.models import ServerModel
from teamwright.values.specs.tools import FunctionTool, McpSpec
from tests.teams.manifests.manifests import loaded, only_problem, problems


def test_a_full_manifest_becomes_values(tmp_path: Path) -> None:
    manifest = loaded(
        tmp_path,
        """
        models:
          primary: openai:gpt-5-mini
          near: {url: "http://localhost:8000/v1", name: small, api_key: "${KEY}"}
        tools:
          search: my.tools:search
          count: {function: my.tools:count, description: Counts words.}
          files: {mcp: {command: [files-server, --read-only], tools: [read]}}
        agents:
          researcher:
            description: Finds facts
            instructions: Cite them.
            model: primary
            tools: [search, files, terminate, my.tools:fetch]
            capabilities: [research]
            output_schema: {type: object, properties: {facts: {type: array}}}
            settings: {temperature: 0.2}
            max_tokens: 500
            timeout: 30
            retry: {times: 1}
            limits: {tokens: 5000, calls: 4, seconds: 60}
          near: {model: near}
          here: {model: local}
          own: {model: {url: "http://127.0.0.1:9/v1", name: x}}
          counter: {function: my.agents:count, isolate: process}
        teams:
          pair: {members: [researcher, counter], strategy: round-robin, max_turns: 2, on_max_turns: fail}
          report: {members: [pair, near, near], share: output, description: Reports}
        """,
    ).manifest
    assert manifest.teams["pair"].strategy == "round_robin"
    assert manifest.teams["report"].strategy == "sequential"
    assert manifest.teams["report"].members == ("pair", "near", "near")
    assert manifest.tools["search"] == FunctionTool(function="my.tools:search")
    assert isinstance(manifest.tools["files"], McpSpec)
    assert manifest.agents["researcher"].tools[3] == FunctionTool(function="my.tools:fetch")
    assert manifest.agents["researcher"].retry.times == 1
    assert manifest.models["near"] == ServerModel(url="http://localhost:8000/v1", name="small", api_key="${KEY}")
    assert manifest.agents["own"].model == ServerModel(url="http://127.0.0.1:9/v1", name="x")


def test_anchors_may_live_in_extra_blocks(tmp_path: Path) -> None:
    text = "x-shared: &shared {model: local, timeout: 5}\nagents:\n  a: {<<: *shared, timeout: 9}\nteams:\n"
    manifest = loaded(tmp_path, text).manifest
    assert (manifest.agents["a"].model, manifest.agents["a"].timeout) == ("local", 9)


@pytest.mark.parametrize(
    ("text", "told", "line", "column"),
    [
        ("agent: {}", "'agent' is not a section of a manifest (did you mean 'agents'", 1, 1),
        ("agents: [a]", "'agents' expects a mapping of names, found a list", 1, 9),
        ("[a]", "This is not a manifest: a manifest is a mapping with agents and teams", 1, 1),
        ("hello", "This is not a manifest", 1, 1),
        (
            "agents:\n  a: {modle: local, model: local}",
            "agent 'a': 'modle' is not a field here (did you mean 'model'",
            2,
            7,
        ),
        ("agents:\n  a: local", "agent 'a': expected a mapping, found the text 'local'", 2, 6),
        ("agents: {a: {model: [local]}}", "'model' expects text or a mapping, found a list", 1, 21),
        ("agents: {a: {model: local, instructions: 5.10}}", 'found the number 5.10 (put it in quotes: "5.10")', 1, 42),
        ("agents: {a: {model: local, instructions: true}}", 'found true (put it in quotes: "true")', 1, 42),
        ("agents: {a: {model: local, description: }}", "found nothing (give it a value or remove it)", 1, 41),
        ("agents: {a: {model: local, settings: {top_p: 3}}}", "'top_p' must be at most 1, and 3 is not", 1, 46),
        ("agents: {a: {model: local, temperature: 0}}", "is not a field here (write  settings: {temperature", 1, 28),
        ("agents: {a: {model: local, timeout: 0}}", "'timeout' must be more than 0, and 0 is not", 1, 37),
        ("agents: {a: {model: local, max_tokens: '5'}}", "a whole number, found the text '5' (write it without", 1, 40),
        ("agents: {a: {model: local, max_tokens: 010}}", "found the text '010' (write 10)", 1, 40),
        ("agents: {a: {model: local, max_tokens: 1.5}}", "expects a whole number, found the number 1.5", 1, 40),
        (
            "agents: {a: {model: local, tools: terminate}}",
            "expects a list, found the text 'terminate' (write [term",
            1,
            35,
        ),
        ("agents: {a: {model: local, capabilities: [1]}}", "'each of capabilities' expects text", 1, 43),
        (
            "agents: {a: {function: 'm:f', isolate: proces}}",
            "'thread' or 'process', and this is the text 'proces'",
            1,
            40,
        ),
        (
            "agents: {a: {model: local, limits: {token: 5}}}",
            "'token' is not a field here (did you mean 'tokens'?)",
            1,
            37,
        ),
        ("agents: {a: {model: {url: 'http://x/v1'}}}", "agent 'a': 'name' is missing", 1, 21),
        ("agents: {a: {model: local, retry: 3}}", "'retry' expects a mapping, found the number 3", 1, 35),
        ("agents: {'my agent': {model: local}}", "can't name an agent: use letters", 1, 10),
        ("agents: {größe: {model: local}}", "'größe' can't name an agent", 1, 10),
        ("tools: {terminate: 'a:b'}", "'terminate' is a built-in tool", 1, 9),
        ("tools: {t: {mcp: {}}}", "an MCP server needs either 'command' or 'url'", 1, 18),
        ("tools: {t: {mcp: {url: 'http://x', folder: .}}}", "'folder' goes with 'command', which is not there", 1, 36),
        ("tools: {t: {mcp: {command: x, share: team}}}", "'run' or 'engine', and this is the text 'team'", 1, 38),
        ("tools: {t: {mcp: {command: x, heders: {A: b}}}}", "(did you mean 'headers'?)", 1, 31),
        ("tools: {t: {mcp: {url: nowhere}}}", "'nowhere' is not an http address", 1, 24),
        ("tools: {t: search}", "tool 't': 'search' is not an import path", 1, 12),
        ("models: {m: gpt-5}", "model 'm': 'gpt-5' is not a model (write provider:name", 1, 13),
        ("models: {m: {url: 'localhost:80', name: x}}", "is not an http address", 1, 19),
        ("models: {m: 5}", "model 'm': expected text or a mapping, found the number 5", 1, 13),
    ],
)
def test_a_mistake_is_reported_at_its_place(tmp_path: Path, text: str, told: str, line: int, column: int) -> None:
    problem = only_problem(tmp_path, text)
    assert told in str(problem)
    assert (problem.file, problem.line, problem.column) == (str(tmp_path / "team.yaml"), line, column)


def test_every_mistake_is_reported_at_once_in_order(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        agents:
          bad name: {model: local, tools: [serch]}
          writer: {model: primry, temprature: 1}
        models: {primary: "openai:x"}
        tools: {search: "a:b"}
        teams:
          one: {strategy: round-robn, members: [writr]}
          two: {members: []}
        """,
    )
    assert [(one.line, one.column) for one in found] == [(3, 3), (3, 36), (4, 19), (4, 27), (8, 19), (8, 41), (9, 18)]
    assert all(one.suggestion for one in found[:-1])


def test_what_has_to_be_a_name_is_reported_with_the_other_mistakes(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        agents:
          a: {model: local, memory: a b, timeot: 3}
          b: {model: local, memory: "-", tools: [{function: "a:b", name: "x y"}]}
        teams: {t: {members: [a, b]}}
        """,
    )
    assert [(one.line, one.column) for one in found] == [(3, 29), (3, 34), (4, 29), (4, 66)]
    assert "'memory': 'a b' is no name: use letters, digits" in found[0].message
    assert found[0].suggestion == "for example 'a-b'"
