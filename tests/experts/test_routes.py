"""Templates of experts over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.journal import MemoryJournal
from tests.kit.server import serving

pytestmark = pytest.mark.experts


async def test_templates_are_listed_searched_and_read(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("read")
        listed = (await client.get("/api/experts")).json()
        assert {"name", "description", "capabilities", "color", "avatar"} <= set(listed[0])
        found = (await client.get("/api/experts", params={"search": "security"})).json()
        assert found[0]["name"] == "security_reviewer"
        whole = (await client.get("/api/experts/analyst")).json()
        assert whole["instructions"]
        assert "file" not in whole
        missing = await client.get("/api/experts/nobody")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_name")
