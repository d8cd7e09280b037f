"""Secrets at every place where one may stand, and then a search through everything that was written."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from urllib.parse import quote

import pytest

from teamwright.values.text.secrets import is_maskable, known_forms
from tests.kit.terminal import Call
from tests.values.text.test_secrets_patterns import IN_PLACE, KEYS

TEAM = """\
models:
  main: scripted:replies.yaml
  other: {url: 'https://u:${DB_PASS}@x.example/v1', name: n, api_key: '${SHOP}'}
tools:
  t: {mcp: {url: 'https://x.example', headers: {X-Any: 'Bearer ${HEADER_VALUE}'}}}
agents:
  teller: {function: 'tests.cli.leaks:tell'}
  speaker: {model: main, instructions: Speak.}
  failing: {function: 'tests.cli.leaks:fail', optional: true}
teams:
  leaky: {members: [speaker, teller, failing]}
  plain: {members: [speaker]}
"""
PLACES = ("SHOP", "DB_PASS", "HEADER_VALUE")


def drawn(seed: int) -> str:
    """A secret of any printable characters that an environment variable can hold."""
    chance = random.Random(seed)
    signs = string.ascii_letters + string.digits + string.punctuation + ("äß密 \t" if seed % 2 else "")
    while True:
        found = "".join(chance.choices(signs, k=chance.randint(12, 60))).strip()
        if is_maskable(found) and "${" not in found:
            return found


def exits(call: Call, folder: Path, text: str) -> dict[str, str]:
    """The output of a run at each exit, from its start to its export."""
    (folder / "team.yaml").write_text(TEAM)
    rules = [{"agent": "speaker", "reply": f"spoken {text} end"}]
    (folder / "replies.yaml").write_text(json.dumps({"rules": rules}))
    written: dict[str, str] = {}

    def note(name: str, *arguments: object) -> None:
        done = call(*arguments)
        assert done.code != 2, (name, done.err)
        written[f"stdout of {name}"], written[f"stderr of {name}"] = done.out, done.err

    note("run", "run", folder, f"task {text} end", "--team", "leaky", "--run-id", "one", "--no-input")
    note("questions", "runs", "answer", "one")
    note("questions as data", "runs", "answer", "one", "--json")
    note("answer", "runs", "answer", "one", f"yes {text} end", "--by", f"by {text} end")
    note("resume", "runs", "resume", "one", "--json")
    note("plain", "run", folder, f"task {text} end", "--team", "plain", "--run-id", "plain")
    note("case", "runs", "export", "plain", "--out", folder / "cases/plain.yaml")
    note("replay", "test", folder / "cases")
    note("show", "runs", "show", "one")
    note("logs", "runs", "logs", "one", "--level", "debug")
    note("logs as data", "runs", "logs", "one", "--json")
    note("tail", "runs", "show", "one", "--follow")
    note("events", "runs", "show", "one", "--follow", "--events")
    note("export", "runs", "export", "one", "--out", folder / "export.json")
    note("fork", "runs", "fork", "one", "--run-id", "two", "--no-input", f"again {text} end")
    note("diff", "runs", "diff", "one", "two")
    note("cancel", "runs", "cancel", "two", f"because {text} end")
    note("show of the fork", "runs", "show", "two", "--json")
    files = ("export.json", "cases/plain.yaml", "cases/plain.replies.jsonl")
    return written | {name: (folder / name).read_text() for name in files}


# S-06
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("seed", range(2))
def test_a_known_secret_is_nowhere_in_what_was_written(
    place: str, seed: int, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = drawn(100 * PLACES.index(place) + seed)
    if place == "DB_PASS":
        secret = quote(secret, safe="")  # the password of an address is written so
    for other in PLACES:
        monkeypatch.setenv(other, secret if other == place else "other-value-0")
    monkeypatch.setenv("LEAKED", secret)
    monkeypatch.setenv("KNOWN", "1")
    home = tmp_path / "home"
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(home))
    folder = tmp_path / "team"
    folder.mkdir()
    written = exits(call, folder, secret)
    assert "[redacted]" in written["stdout of resume"], written
    assert "[redacted]" in written["export.json"]
    for form in known_forms(secret):
        assert not [name for name, text in written.items() if form in text]
        for file in home.rglob("*"):
            assert not file.is_file() or form.encode() not in file.read_bytes(), file


# S-06
@pytest.mark.parametrize("text", [KEYS[1], KEYS[5], KEYS[11], IN_PLACE[0][0], IN_PLACE[7][0], IN_PLACE[8][0]])
def test_what_looks_like_a_secret_is_kept_and_masked_at_every_exit(
    text: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in PLACES:
        monkeypatch.setenv(place, "other-value-0")
    monkeypatch.setenv("LEAKED", text)
    home = tmp_path / "home"
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(home))
    folder = tmp_path / "team"
    folder.mkdir()
    written = exits(call, folder, text)
    assert "[redacted]" in written["stdout of resume"], written
    assert not [name for name, shown in written.items() if text in shown or json.dumps(text)[1:-1] in shown]
    kept = b"".join(file.read_bytes() for file in home.rglob("*") if file.is_file())
    assert json.dumps(f"spoken {text} end").encode() in kept
