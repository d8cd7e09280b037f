"""A field that an agent of its kind does not use is a mistake, as an unknown argument is in Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import FunctionAgent, ModelAgent, ScriptedAgent
from teamwright.errors import UsageError
from tests.teams.manifests.manifests import loaded, only_problem, problems

OF_MODELS = {
    "settings": "{seed: 1}", "cache": "'off'", "output_mode": "tool", "max_requests": "3",
    "compact": "{threshold: 0.5}", "max_tokens": "5", "economy": "local", "priority": "1",
    "instructions": "Hello", "check": "{input: 'm:f', output: 'm:f'}", "memory": "own",
}  # fmt: skip


@pytest.mark.parametrize("name", OF_MODELS)
def test_a_function_has_no_field_of_a_model(tmp_path: Path, name: str) -> None:
    text = f"agents: {{a: {{function: 'm:f', {name}: {OF_MODELS[name]}}}}}"
    problem = only_problem(tmp_path, text)
    assert problem.message == f"agent 'a' is a function, which has no {name!r}"
    assert problem.column == text.index(f" {name}:") + 2
    other = {"check": "check it in the function itself", "memory": "remove it"}
    assert problem.suggestion == other.get(name, f"remove {name!r}")
    with pytest.raises(UsageError, match=f"The agent 'a' is a function, which has no {name!r}"):
        FunctionAgent("a", str, **{name: None})  # pyright: ignore[reportArgumentType]


def test_a_function_calls_no_tools_but_may_terminate(tmp_path: Path) -> None:
    found = problems(tmp_path, "agents: {a: {function: 'm:f', tools: [terminate, files, 'm:g']}}")
    assert [one.message for one in found] == ["agent 'a' is a function, which calls no tools"] * 2
    loaded(tmp_path, "agents: {a: {function: 'm:f', tools: [terminate], timeout: 5, isolate: process}}")


def test_a_model_is_not_isolated(tmp_path: Path) -> None:
    problem = only_problem(tmp_path, "agents: {a: {model: local, isolate: process}}")
    assert problem.message == "agent 'a' is a model, which has no 'isolate'"
    with pytest.raises(UsageError, match="The agent 'a' is a model, which has no 'isolate'"):
        ModelAgent("a", model="local", isolate="process")  # pyright: ignore[reportCallIssue]


def test_a_script_takes_the_fields_of_the_model_that_it_stands_for(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: hi}]")
    fields = "output_mode: tool, memory: own, max_tokens: 5"
    assert loaded(tmp_path, f"agents: {{a: {{model: scripted:replies.yaml, {fields}}}}}").warnings == ()
    with pytest.raises(UsageError, match="The agent 'a' is scripted, which has no 'output_mode'"):
        ScriptedAgent("a", [], output_mode="tool")  # pyright: ignore[reportCallIssue]
