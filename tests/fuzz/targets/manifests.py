"""Manifests: drawn by their schema, and mutants of the examples, native and ARK; validated, shown and planned."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, ClassVar, cast

import yaml
from pydantic import JsonValue

from teamwright.strategies.registry import BUILT_IN_STRATEGIES
from teamwright.teams.manifests.schema import manifest_schema
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_text, mutated_tree
from tests.fuzz.program import Called, call
from tests.fuzz.schema_values import SchemaValues
from tests.fuzz.targets.protocol import CORPUS
from tests.paths import EXAMPLES

MEMBERS = ("a", "b", "c", "lead")
NAMES = ("a", "b", "c", "lead", "team", "inner", "primary", "A-1.x")
TEXTS = (
    "Write.", "data.score >= 8", "'x' in text", "state.turns.a < 3", "outputs.a != ''",
    "{{ task }} and {{ outputs.a }}",
    "{% for one in outputs %}{{ one }}{% endfor %}", "{{.History}}", "scripted:replies.yaml", "replies.yaml", "local",
    "openai:gpt-5-mini", "http://127.0.0.1:9/v1", "src/**", "docs/a.md", "${HOME}", "${FUZZ_KEY}", "sequential",
    "graph",
    "a2a_lite", "collect", "desk:answer", "nothing:there", "terminate", "workspace", "files", "go", "workflow.started",
)  # fmt: skip
TOKENS = (
    "agents:", "teams:", "models:", "tools:", "tasks:", "strategy: ", "members: ", "options:", "steps:", "edges:",
    "limits: {tokens: 1}", "fallback: a", "share: a2a_lite", "on_failure: collect", "max_turns: ", "- ", "  ", "&x ",
    "*x", "<<: *x", "---\n", "...\n", "!!set ", "!!binary ", "? ", "|\n", ">-\n", "apiVersion: ", "kind: Team\n",
    "metadata: {name: a}", "spec:", "valueFrom: {secretKeyRef: {name: a, key: b}}", "null", "[]", "{}", "[a, b]",
)  # fmt: skip
REPLIES = "rules: [{reply: Yes.}]\n"


class Manifests:
    """Every command that reads a manifest, on a folder with one file that a stranger wrote."""

    name: ClassVar[str] = "manifests"
    weight: ClassVar[float] = 3.0
    seconds: ClassVar[float] = 30.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "team.yaml"
        self._model = f"scripted:{folder / 'replies.yaml'}"
        (folder / "replies.yaml").write_text(REPLIES)
        (folder / "desk.py").write_text("def answer(task: str) -> str:\n    return task\n")

    def corpus(self) -> list[JsonValue]:
        return list(self._texts)

    def draw(self, random: Random) -> JsonValue:
        roll = random.random()
        if roll < 0.4:
            drawn = self._by_schema.draw(random) if roll < 0.1 else self._coherent(random)
            return _dumped(random, [mutated_tree(random, drawn, NAMES) if random.random() < 0.2 else drawn])
        text = random.choice(self._texts)
        if roll < 0.7:
            documents = [mutated_tree(random, one, NAMES) for one in _documents(text)]
            return _dumped(random, documents)
        return mutated_text(random, text, TOKENS, self._texts)

    def run(self, payload: JsonValue) -> Outcome:
        text = cast("str", payload)
        self._file.write_bytes(text.encode("utf-8", "surrogatepass"))
        checked = call("validate", str(self._file), "--json", given=text)
        replaced = call("validate", str(self._file), "--model", self._model, given=text)
        call("show", str(self._file), "--json", given=text)
        call("show", str(self._file), "--json", "--model", self._model, given=text)
        call("plan", str(self._file), "Do it", "--json", codes=(0, 1, 2), given=text)
        self._check_places(checked)
        if checked.code == 0 and replaced.code:
            raise Violation("disagree", "it is valid, but not with another model", replaced.err)
        return "accepted" if checked.code == 0 else "refused"

    def close(self) -> None:
        pass

    def _coherent(self, random: Random) -> JsonValue:
        """Agents that can answer, and a team of them whose options are drawn by the schema of its strategy."""
        own, specs = SchemaValues(self._schema, texts=TEXTS, names=MEMBERS, wrong=0.0), self._schema["$defs"]
        agents: dict[str, JsonValue] = {}
        for name in MEMBERS:
            drawn = cast("dict[str, JsonValue]", own.draw(random, specs["AgentSpec"], 2))
            for other in ("model", "function", "input_schema", "output_schema", "tools", "fallback", "approve"):
                if random.random() < 0.8:
                    drawn.pop(other, None)
            agents[name] = (
                {**drawn, "model": "scripted:replies.yaml"}
                if random.random() < 0.5
                else {"model": "scripted:replies.yaml"}
            )
        strategy = random.choice(sorted(BUILT_IN_STRATEGIES))
        options = own.draw(random, specs[f"{strategy}.options"], 5)
        members = random.sample(MEMBERS, random.randint(1, len(MEMBERS)))
        team: dict[str, JsonValue] = {"strategy": strategy, "members": list(members)}
        if options:
            team[strategy] = options
        for name, part in specs["TeamSpec"]["properties"].items():
            if name not in {"strategy", "members", "options", *BUILT_IN_STRATEGIES} and random.random() < 0.08:
                team[name] = own.draw(random, part, 2)
        return {"agents": agents, "teams": {"team": team}}

    def _check_places(self, checked: Called) -> None:
        """Check that each problem of a manifest has its file and line."""
        if not checked.code:
            return
        problems = json.loads(checked.out)["error"]["problems"]
        if not problems or any(not problem["file"] for problem in problems):
            raise Violation("placeless", "a problem is told without its place", checked.out[:2000])

    @cached_property
    def _texts(self) -> list[str]:
        files = sorted((CORPUS / self.name).glob("*.yaml")) + sorted(EXAMPLES.rglob("*.yaml"))
        return [file.read_text() for file in files if file.name != "replies.yaml"]

    @cached_property
    def _by_schema(self) -> SchemaValues:
        return SchemaValues(self._schema, texts=TEXTS, names=NAMES)

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return manifest_schema()


def _documents(text: str) -> list[JsonValue]:
    return [one for one in yaml.safe_load_all(text) if one is not None]


def _dumped(random: Random, documents: list[JsonValue]) -> str:
    try:
        style = random.choice((None, None, True))
        return yaml.safe_dump_all(documents, default_flow_style=style, allow_unicode=random.random() < 0.5)
    except (RecursionError, yaml.YAMLError):
        return "agents: {}"
