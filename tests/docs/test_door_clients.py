"""The clients on the page about the server ask a team, and answer what its run asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from teamwright.journal import MemoryJournal
from tests.docs.pages import ROOT, blocks
from tests.kit.server import serving
from tests.kit.terminal import write_team
from tests.server.conftest import GATED, REPLIES

PAGE = ROOT / "docs" / "running" / "server.md"
CLIENTS = {"a2a": ("/a2a/gated", ()), "agui": ("/agui/gated", ()), "responses": ("", ("gated",))}
"""The address that each client calls, and what else it is given."""


@pytest.mark.parametrize("door", CLIENTS)
async def test_the_client_of_the_page_gets_its_answer(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = [one for one in blocks(PAGE) if one.about == f"{door}_client.py"]
    program: dict[str, Any] = {}
    exec(compile(block.text, block.name, "exec", dont_inherit=True), program)  # noqa: S102
    asked: list[str] = []
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or "approve")
    write_team(tmp_path / "teams" / "gated", GATED, REPLIES)
    path, named = CLIENTS[door]
    async with serving(MemoryJournal(), tmp_path, [tmp_path / "teams"]) as server:
        assert await program["ask"](f"{server.url}{path}", server.token("run"), *named, "Go") == "two"
    assert len(asked) == 1
