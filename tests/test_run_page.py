"""`make run-page`: example runs are there, one of them alive and one waiting for a person."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tools import run_page


def _get(url: str, token: str) -> Any:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


@pytest.mark.experts
@pytest.mark.timeout(120)
async def test_the_page_has_runs_that_ended_one_that_waits_and_one_that_is_alive(tmp_path: Path) -> None:
    await run_page.record(tmp_path)
    token = run_page.new_token(tmp_path)
    server = run_page.serve(tmp_path, 0)
    try:
        url = run_page.address_of(server).partition("/?")[0]
        live = run_page.start_live(url, token)
        rows = {row["id"]: row["status"] for row in _get(f"{url}/api/runs", token)}
        assert {f"{name}-example" for name in run_page.ENDED} < rows.keys()
        assert rows[live] == "running"
        assert rows["approvals-example"] == "paused"
        assert _get(f"{url}/api/runs/{live}/page-events", token)[0]["state"] == "started"
        assert [one["run_id"] for one in _get(f"{url}/api/inbox", token)] == ["approvals-example"]
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
