from __future__ import annotations

import json
from pathlib import Path

import pytest

from teamwright.cli.main import main
from teamwright.server.webhook_notices import LOG_FILE, WebhookLine, WebhookLog

TIME = "2026-01-02T03:04:05.000Z"


def test_attempts_to_call_a_webhook_are_listed_newest_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = WebhookLog(tmp_path / LOG_FILE)
    line = WebhookLine(
        time="2026-01-02T03:04:05.000Z",
        run_id="r",
        number=9,
        kind="run.failed",
        attempt=1,
        error="HTTP 503",
        retry_in=5,
    )
    log.write(line)
    log.write(line.model_copy(update={"attempt": 2, "error": None, "retry_in": None}))
    own = ["--journal", str(tmp_path / "journal.db")]
    assert main(["serve", "webhooks", *own]) == 0
    assert capsys.readouterr().out == (
        f"{TIME}  r  run.failed  attempt 2: delivered\n{TIME}  r  run.failed  attempt 1: HTTP 503; again in 5 s\n"
    )
    assert main(["serve", "webhooks", "--json", "--limit", "1", *own]) == 0
    assert [one["attempt"] for one in json.loads(capsys.readouterr().out)] == [2]


def test_without_attempts_it_says_how_to_name_a_webhook(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "webhooks"]) == 0
    assert "TEAMWRIGHT_WEBHOOK" in capsys.readouterr().err
