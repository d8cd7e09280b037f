"""Scripts: files of scripted replies, drawn by their schema and mutated; loaded, matched and written again."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import ClassVar, cast

import yaml
from pydantic import JsonValue

from teamwright.agents.scripted import Script
from teamwright.errors import AgentError, TeamwrightError
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_text, mutated_tree
from tests.fuzz.odd_values import odd_text
from tests.fuzz.schema_values import SchemaValues
from tests.fuzz.targets.protocol import CORPUS, check_words

AGENTS = ("writer", "critic", "a", "*", "w*")
PATTERNS = (
    "sorted", "^Go$", "(a+)+$", "(a|a)*b", "[a-z]{2,9}", "(?i)go", "(?P<x>a)(?P=x)", "a{0,99999}", "(?=a)b", "\\1",
    "(" * 50 + ")" * 50, "(x*)*y", "(.*)(.*)(.*)=", "[", "(?", "a**", "\\p{L}", "(?R)", "{e<=2}",
)  # fmt: skip
TOKENS = (
    "rules:", "- ", "agent: ", "match: ", "reply: ", "json: ", "tool: ", "error: rate_limit", "delay: ", "times: ",
    "strict: true", "{name: x, args: {}}", "|\n", "&x ", "*x", "---\n", *PATTERNS,
)  # fmt: skip


class Scripts:
    """Scripts written by hand."""

    name: ClassVar[str] = "scripts"
    weight: ClassVar[float] = 1.0
    seconds: ClassVar[float] = 20.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "script.yaml"
        self._texts = [file.read_text() for file in sorted((CORPUS / self.name).glob("*.yaml"))]
        schema = Script.model_json_schema(by_alias=True)
        self._by_schema = SchemaValues(schema, texts=PATTERNS, names=AGENTS)

    def corpus(self) -> list[JsonValue]:
        return [{"text": text, "told": "Go"} for text in self._texts]

    def draw(self, random: Random) -> JsonValue:
        roll = random.random()
        text = random.choice(self._texts)
        if roll < 0.4:
            text = _dumped(_one_answer(random, self._by_schema.draw(random)))
        elif roll < 0.7:
            text = _dumped(mutated_tree(random, yaml.safe_load(text), ("reply", "json", "tool", "match")))
        else:
            text = mutated_text(random, text, TOKENS, self._texts)
        told = random.choice(("Go", "a" * 40 + "b", "sorted keys", odd_text(random), "ab" * 2000))
        return {"text": text, "told": told}

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, str]", payload)
        self._file.write_bytes(given["text"].encode("utf-8", "surrogatepass"))
        try:
            script = Script.load(self._file)
        except TeamwrightError as error:
            check_words(str(error), given["text"])
            return "refused"
        self._match(script, given)
        self._file.write_bytes(script.to_yaml().encode("utf-8", "surrogatepass"))
        try:
            again = Script.load(self._file)
        except TeamwrightError as error:
            raise Violation("round trip", "a script that was read and written is refused", error) from error
        if again != script:
            raise Violation("round trip", "a script changes when it is written", f"{script!r} and then {again!r}")
        return "accepted"

    def _match(self, script: Script, given: dict[str, str]) -> None:
        for agent in ("writer", "nobody"):
            for rule in script.rules[:50]:
                try:
                    rule.matches(agent, given["told"])
                except AgentError as error:
                    check_words(str(error), given["text"])
            check_words(script.nearest(agent, given["told"]), given["text"] + given["told"])
        script.unused_rules(lambda _: 0)

    def close(self) -> None:
        pass


def _one_answer(random: Random, script: JsonValue) -> JsonValue:
    """Most rules keep one of their answers, as each must have exactly one."""
    answers = ("reply", "json", "tool", "error")
    if isinstance(script, dict) and isinstance(rules := script.get("rules"), list):
        for rule in rules:
            if isinstance(rule, dict) and random.random() < 0.9:
                kept = random.choice(answers)
                for name in answers:
                    if name != kept or rule.get(name) is None:
                        rule.pop(name, None)
                if not any(name in rule for name in answers):
                    rule["reply"] = "Yes."
    return script


def _dumped(tree: JsonValue) -> str:
    try:
        return yaml.safe_dump(tree, allow_unicode=True)
    except (RecursionError, yaml.YAMLError):
        return "rules: []"
