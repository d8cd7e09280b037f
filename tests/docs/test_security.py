"""Each attack names existing tests, and the page on security lists attacker, promises and limits for each threat."""

from __future__ import annotations

import re
from functools import cache

from tests.paths import ROOT

MODEL = (ROOT / "docs" / "running" / "security.md").read_text(encoding="utf-8")
ATTACKS = (ROOT / "docs" / "contributing" / "attacks.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
DEFINED = re.compile(r"^ *(?:async def|def|class) (\w+)", re.MULTILINE)
THREATS = {
    "Manifests from strangers", "Hostile model output", "Other users of the machine", "Secrets", "Webhooks",
    "Supply chain",
}  # fmt: skip


@cache
def functions_in(file: str) -> frozenset[str]:
    return frozenset(DEFINED.findall((ROOT / file).read_text(encoding="utf-8")))


def test_every_test_that_is_named_exists() -> None:
    named = NAMED.findall(ATTACKS)
    assert named
    assert [file for file, _ in named if not (ROOT / file).is_file()] == []
    assert [f"{file}::{name}" for file, name in named if name and name not in functions_in(file)] == []


def test_every_promise_against_an_attack_names_a_test() -> None:
    rows = [line for line in ATTACKS.splitlines() if line.startswith("| ") and not line.startswith("| attack |")]
    assert rows
    assert [row for row in rows if not NAMED.search(row)] == []


def test_the_threat_model_says_who_what_is_promised_and_what_is_not() -> None:
    model = MODEL.partition("## Threat model")[2].partition("\n## ")[0]
    sections = dict(re.findall(r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", model, re.MULTILINE | re.DOTALL))
    assert sections.keys() >= THREATS
    for name in THREATS:
        assert [word for word in ("*Who:*", "*Promised:*", "*Not promised:*") if word not in sections[name]] == [], name
