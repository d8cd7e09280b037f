"""Nothing that a library worded reaches a user: wrong values at every field of every file, and every message read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import pytest

from teamwright.agents.scripted import Script
from teamwright.cli.main import main
from teamwright.errors import ManifestError, UsageError
from teamwright.strategies.registry import BUILT_IN_STRATEGIES
from teamwright.teams.manifests.manifest_loader import load
from teamwright.teams.manifests.plans import read_plan
from teamwright.teams.manifests.schema import manifest_schema
from teamwright.values.specs.plan import Step
from tests.profiles import is_whole
from tests.teams.manifests.manifests import problems

LIBRARY = (
    "Input should", "should be a valid", "json-or-python", "function-", "constrained-", "tagged-union", "Tuple should",
    "List should", "Value error", "pydantic", "jsonschema", "Field required", "Extra inputs", "is not valid under any",
    "is not of type", "jinja2", "Jinja was", "Jinja is", "yaml.", "libyaml", "while parsing", "while scanning",
    "did not find", "[type=", "unable to parse", "Traceback", "NoneType", "object at 0x",
)  # fmt: skip
JUNK: tuple[Any, ...] = (
    None, True, 5, -1, 0.5, 1e300, 10**18, "x", "", "ä ö", [], [1], ["x"], [[]], [{}], {}, {"x": 1}, {"x": [{}]},
)  # fmt: skip
PRESETS = ("dag", "single", "lead_subagent", "star_team", "mesh_team")
MOST_DEPTH = 5
SLIPS = (
    "a: b: c", "a: [1, 2", "a: 'b", "%YAML 3.0\n---\na: 1", "a: {b", "- a\nb: c", "a: *", "a: &", "a: @b", "\t- a",
    "a:\n  - b\n c: d", 'a: "\\q"', 'a: "\\xZZ"', "a: !x!y z", "--- a\n--- b: : c", "? a\n: b: c", "{a: 1}}",
    "key\nother: 1", "[a, b: ]]",
)  # fmt: skip
"""Slips of the pen in YAML."""

Schema = Mapping[str, Any]


def paths_in(schema: Schema, root: Schema, depth: int = 0) -> Iterator[tuple[str | int, ...]]:
    """The paths of all fields that a schema knows; items of lists and names of mappings are one each."""
    if depth > MOST_DEPTH:
        return
    if "$ref" in schema:
        yield from paths_in(root["$defs"][str(schema["$ref"]).removeprefix("#/$defs/")], root, depth)
    for option in schema.get("anyOf", ()):
        yield from paths_in(option, root, depth)
    for name, inner in schema.get("properties", {}).items():
        yield (name,)
        yield from ((name, *rest) for rest in paths_in(inner, root, depth + 1))
    if isinstance(items := schema.get("items"), dict):
        yield (0,)
        yield from ((0, *rest) for rest in paths_in(cast("Schema", items), root, depth + 1))


def any_number(path: tuple[str | int, ...]) -> int:
    """A number that is the same for a path in every process."""
    return crc32(repr(path).encode())


def placed(path: tuple[str | int, ...], value: object) -> Any:
    """A value at a path, in lists and mappings that hold nothing else."""
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def read(file: Path, data: object) -> None:
    """Load a manifest of this data, and look at every message."""
    file.write_text(json.dumps(data))
    try:
        load([file])
    except UsageError as error:  # with every problem
        check(str(error), data)


def check(text: str, data: object) -> None:
    found = [word for word in LIBRARY if word in text]
    assert not found, f"{found} in {text!r} for {data!r}"


def test_no_field_of_an_agent_tells_a_librarys_words(tmp_path: Path) -> None:  # M-10
    schema = cast("Schema", manifest_schema())
    file = tmp_path / "team.yaml"
    for path in dict.fromkeys(paths_in(schema["$defs"]["AgentSpec"], schema)):
        read(file, {"agents": {"a": placed(path, JUNK[any_number(path) % len(JUNK)])}})
    for field in schema["$defs"]["AgentSpec"]["properties"]:
        for junk in JUNK:
            read(file, {"agents": {"a": {"model": "local", field: junk}}})


@pytest.mark.parametrize("strategy", BUILT_IN_STRATEGIES)
def test_no_field_of_a_team_tells_a_librarys_words(tmp_path: Path, strategy: str) -> None:  # M-10
    schema = cast("Schema", manifest_schema())
    file = tmp_path / "team.yaml"
    agents = {name: {"model": "local"} for name in "abx"}
    block = schema["$defs"][f"{strategy}.options"]
    for field in schema["$defs"]["TeamSpec"]["properties"]:
        if field not in BUILT_IN_STRATEGIES and strategy == "sequential":
            for junk in JUNK:
                read(
                    file, {"agents": agents, "teams": {"t": {"strategy": strategy, "members": ["a", "b"], field: junk}}}
                )
    for path in dict.fromkeys(paths_in(block, schema)):
        if len(path) > 1 and strategy in PRESETS and not is_whole():
            continue  # the same blocks as below the options of `plan`
        for junk in JUNK if len(path) < 2 else JUNK[any_number(path) % 4 :: 4]:
            options = placed(path, junk)
            read(
                file,
                {"agents": agents, "teams": {"t": {"strategy": strategy, "members": ["a", "b"], strategy: options}}},
            )


@pytest.mark.parametrize("section", ["agents", "teams", "models", "tools", "tasks", "x", "apiVersion", "kind"])
def test_no_section_tells_a_librarys_words(tmp_path: Path, section: str) -> None:  # M-10
    for junk in JUNK:
        read(tmp_path / "team.yaml", {section: junk})
        read(tmp_path / "team.yaml", {section: {"a": junk}})
        read(tmp_path / "team.yaml", junk)


def test_no_script_tells_a_librarys_words(tmp_path: Path) -> None:  # M-10
    schema = cast("Schema", Script.model_json_schema(by_alias=True))
    file = tmp_path / "replies.yaml"
    for path in dict.fromkeys(paths_in(schema, schema)):
        for junk in JUNK:
            data = placed(path, junk)
            file.write_text(json.dumps(data))
            try:
                Script.load(file)
            except ManifestError as error:
                check(str(error), data)


def test_no_file_of_tasks_tells_a_librarys_words(tmp_path: Path) -> None:  # M-10
    schema = cast("Schema", Step.model_json_schema())
    file = tmp_path / "tasks.yaml"
    for path in dict.fromkeys(paths_in(schema, schema)):
        for junk in JUNK:
            data = {"tasks": [{"id": "a"} | cast("dict[str, Any]", placed(path, junk))]}
            file.write_text(json.dumps(data))
            try:
                read_plan(file)
            except ManifestError as error:
                check(str(error), data)


@pytest.mark.lab
@pytest.mark.parametrize("text", ["", "{", "[]", "5", '{"version": "x"}', '{"profiles": 5}', '{"what": [1]}', "\xff"])
def test_no_profile_tells_a_librarys_words(tmp_path: Path, text: str) -> None:  # M-10
    from teamwright.lab.calibration import read_profile

    file = tmp_path / "profile.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="is not a calibration") as caught:
        read_profile(str(file))
    check(str(caught.value), text)


@pytest.mark.parametrize("text", SLIPS)
def test_no_yaml_error_shows_the_text_of_the_parser(tmp_path: Path, text: str) -> None:  # M-10
    check("\n".join(map(str, problems(tmp_path, text))), text)


@pytest.mark.parametrize(
    "when",
    [
        "a b",
        "a >",
        "(",
        "$",
        "a ~ b",
        "a if",
        "{{ a }}",
        "1 +",
        "a | nope",
        "a is",
        "'x",
        "a..b",
        "[1",
        "a = 1",
        "f(x)",
    ],
)
def test_no_error_in_a_condition_shows_the_text_of_the_parser(tmp_path: Path, when: str) -> None:  # M-10
    agents = {name: {"model": "local"} for name in "ab"}
    for field in ("when", "task"):
        texts = [
            when,
            "{% if a %}",
            "{% endif %}",
            "{% for %}",
            "{# x",
            "{% nope %}",
            "{{",
            "{% raw %}",
            f"{{{{ {when} }}}}",
        ]
        for text in texts if field == "task" else [when]:
            edge = {"from": "a", "to": "b", field: text}
            read(
                tmp_path / "t.yaml",
                {
                    "agents": agents,
                    "teams": {"t": {"strategy": "graph", "members": ["a", "b"], "graph": {"edges": [edge]}}},
                },
            )


@pytest.mark.parametrize("option", ["--max-tokens", "--max-usd", "--max-calls", "--max-seconds"])
@pytest.mark.parametrize("value", ["x", "0", "-1", "inf", "nan", "1e400", ""])
def test_no_limit_on_the_command_line_tells_a_librarys_words(
    capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:  # M-10
    main(["run", "nowhere.yaml", "task", option, value])
    check(capsys.readouterr().err, (option, value))
