"""`runs show RUN KEY`."""

from __future__ import annotations

from pathlib import Path

from tests.kit.terminal import Call, write_team

PAIR = """\
agents:
  a: {model: scripted:replies.yaml, instructions: Begin.}
  b: {model: scripted:replies.yaml, instructions: Go on.}
teams:
  pair: {members: [a, b]}
"""
REPLIES = "rules:\n  - {agent: a, reply: one}\n  - {agent: b, reply: two}\n"


def test_a_turn_shows_exactly_what_it_was_told(call: Call, tmp_path: Path) -> None:
    folder = write_team(tmp_path / "pair", PAIR)
    (Path(folder) / "replies.yaml").write_text(REPLIES)
    assert call("run", folder, "Count", "--run-id", "r").code == 0
    shown = call("runs", "show", "r", "step-2").out
    assert "request 1 to scripted, exactly as it was sent" in shown
    assert "# a:\none" in shown
    assert "Go on." in shown
    data = call("runs", "show", "r", "pair/step-1", "--json").json
    assert (data["member"], data["task"], data["requests"][0]["is_exact"]) == ("a", "Count", True)
    missing = call("runs", "show", "r", "step-9")
    assert missing.code == 2
    assert "pair/step-2" in missing.err
