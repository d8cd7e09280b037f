"""The programs on the page for users of other frameworks: theirs and ours print the same, with the same model.

The model is a server on loopback. Ours run in each test session; those of the others run in `.venv-peers`, which
`make peers` sets up, and are skipped without it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from runpy import run_path

import pytest
from pydantic import JsonValue

from teamwright.testing import CallTools, ChatRequest, ModelServer, Say, ToolCall
from tests.docs.pages import ROOT, Block, blocks

PEERS = ROOT / ".venv-peers" / "bin" / "python"
QUIET = {
    "AGNO_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}
FACTS, SENTENCE = "The moon pulls; twice a day.", "The moon pulls the sea up twice a day."
Answer = Say | CallTools


def text_of(request: ChatRequest) -> str:
    return "\n".join(message.content for message in request.messages)


def call(name: str, **args: JsonValue) -> CallTools:
    return CallTools(calls=(ToolCall(name=name, args=args),))


def write_until_approved(request: ChatRequest) -> Answer:
    text = text_of(request)
    if "APPROVED" in text:
        return Say(text="APPROVED" if "Twice a day" in text else "Too vague.")
    return Say(text="Twice a day the sea rises." if "Too vague" in text else "The sea moves.")


def research_then_write(request: ChatRequest) -> Answer:
    return Say(text=FACTS if "Collect facts" in text_of(request) else SENTENCE)


def look_up_then_reply(request: ChatRequest) -> Answer:
    if "broken on arrival" in text_of(request):
        return call("final_result", reply="You get a new lamp.", refund=False)
    return call("find_order", number=7)


def lead(request: ChatRequest) -> Answer:
    """Delegate to the researcher, then to the writer, then answer, in the form that the framework asks for."""
    text = text_of(request)
    done = SENTENCE in text
    member, task = ("writer", f"Write a sentence: {FACTS}") if FACTS in text else ("researcher", "Collect facts.")
    if "delegate_task_to_member" in request.tools:
        return Say(text=SENTENCE) if done else call("delegate_task_to_member", member_id=member, task=task)
    if "final_result" in request.tools:
        delegations: list[JsonValue] = [{"specialist": member, "task": task}]
        synthesis = call("final_result", action="synthesize", synthesis=SENTENCE)
        return synthesis if done else call("final_result", action="delegate", delegations=delegations)
    return Say(text=SENTENCE if "Write a sentence" in text else FACTS)


MODELS: dict[str, Callable[[ChatRequest], Answer]] = {
    "langgraph": write_until_approved,
    "crewai": research_then_write,
    "pydantic_ai": look_up_then_reply,
    "agno": lead,
}
"""The model of each program, by the module of the other framework."""
PAGE = ROOT / "docs" / "start" / "from-others.md"
SIDES = {block.about: block for block in blocks(PAGE) if block.mark == "side"}
OURS = "teamwright, "


def models_at(url: str, home: Path) -> dict[str, str]:
    """The environment of a program that calls the models at this address."""
    return {"OPENAI_BASE_URL": url, "OPENAI_API_BASE": url, "OPENAI_API_KEY": "none", "HOME": str(home)}


def run_side(python: Path, peer: str, block: Block, folder: Path) -> str:
    """Run a program in a process of its own, in a folder of its own, with the model of its section."""
    (folder / "program.py").write_text(block.text, encoding="utf-8")
    with ModelServer(MODELS[peer]) as server:
        done = subprocess.run(
            [python, "program.py"],
            cwd=folder,
            env={**os.environ, **QUIET, **models_at(server.url, folder), "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def shown(peer: str) -> str:
    """What the page says that both programs of a section print."""
    section = PAGE.read_text(encoding="utf-8").partition(f"<!-- side: {OURS}{peer} -->")[2]
    return section.partition("Both print:\n\n```text\n")[2].partition("\n```")[0]


def test_the_page_has_both_sides() -> None:
    assert sorted(SIDES) == sorted([*MODELS, *(OURS + peer for peer in MODELS)])
    assert all(map(shown, MODELS))


@pytest.mark.parametrize("peer", MODELS)
@pytest.mark.timeout(300)
def test_our_program_prints_what_the_page_shows(
    peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "program.py").write_text(SIDES[OURS + peer].text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with ModelServer(MODELS[peer]) as server:
        for name, value in models_at(server.url, tmp_path).items():
            monkeypatch.setenv(name, value)
        run_path("program.py", run_name="__main__")
    assert capsys.readouterr().out.strip() == shown(peer)


@pytest.mark.parametrize("peer", MODELS)
@pytest.mark.timeout(300)
def test_their_program_prints_the_same(peer: str, tmp_path: Path) -> None:
    if (
        not PEERS.exists()
        or subprocess.run([PEERS, "-c", f"import {peer}"], check=False, capture_output=True).returncode
    ):
        pytest.skip(f"{peer} is not installed; set it up with  make peers")
    assert run_side(PEERS, peer, SIDES[peer], tmp_path).splitlines()[-1] == shown(peer)
