"""The roles of `deploy/roles.sql`, on a real server: what workers and submitters may do, and what they may not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from teamwright.cli.main import main
from teamwright.journal.postgres.connection import DatabaseAddress
from tests.kit.workers import Cluster
from tests.paths import ROOT

TEAM = """\
agents:
  first: {model: scripted:replies.yaml}
teams:
  one: {members: [first]}
"""


@pytest.fixture
def user(cluster: Cluster) -> Callable[[str], str]:
    """Apply the file to the schemas of a test, and return the addresses of users in these roles."""
    address = cluster.journal.address
    name = address.schema.removeprefix("test_")
    text = (ROOT / "deploy" / "roles.sql").read_text(encoding="utf-8")
    roles = {"teamwright_worker": f"worker_{name}", "teamwright_submitter": f"submitter_{name}"}
    for old, new in roles.items():
        text = text.replace(old, new)
    text = re.sub(r"\bteamwright_queue\b", f"{address.schema}_queue", text)
    text = re.sub(r"(?<=[ ,])teamwright(?=[.,])|(?<=SCHEMA )teamwright\b", address.schema, text)
    with psycopg.connect(address.url, autocommit=True) as connection:
        connection.execute(text.encode())
        for role in roles.values():
            connection.execute(f"CREATE ROLE user_{role} LOGIN IN ROLE {role}".encode())
    return lambda role: address.url.replace("//postgres:@", f"//user_{role}_{name}:@")


def denied(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute(statement.encode())


async def test_a_submitter_submits_and_a_worker_drives_without_rights_to_more(
    cluster: Cluster, user: Callable[[str], str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from anyio.to_thread import run_sync

    schema = DatabaseAddress.parse(cluster.url).schema
    submitter, worker = (f"{user(role)}&schema={schema}" for role in ("submitter", "worker"))
    (tmp_path / "one.yaml").write_text(TEAM, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text("rules: [{reply: done}]\n", encoding="utf-8")

    async def call(*arguments: str, url: str = submitter) -> int:
        return await run_sync(lambda: main([*arguments, "--journal", url]))

    limits = ("--max-tokens", "400", "--budget", "tenant")
    assert await call("cluster", "budget", "tenant", "--max-tokens", "1000", "--per", "ever", url=cluster.url) == 0
    path = str(tmp_path / "one.yaml")
    assert await call("submit", path, "Go", "--run-id", "now", *limits) == 0, capfd.readouterr().err
    assert await call("submit", path, "Go", "--run-id", "later", "--after", "1h") == 0
    assert await call("submit", path, "Go", "--run-id", "later", "--after", "1h") == 0, "once more does nothing"
    assert await call("runs", "cancel", "later") != 0, "that ends the run, which is a worker's right"
    cluster.start(url=worker)
    await cluster.completed("now")
    assert await call("runs", "show", "now") == 0
    assert await call("runs", "delete", "now", "--yes") != 0
    assert await call("cluster", "budget", "tenant", "--max-tokens", "9000") != 0
    assert "may not do this" in capfd.readouterr().err
    for table in ("events", "runs", "bodies", "budgets", "budget_reservations"):
        denied(user("submitter"), f"DELETE FROM {schema}.{table}")
    denied(user("submitter"), f"UPDATE {schema}.events SET data = ''")
    denied(user("submitter"), f"UPDATE {schema}.budgets SET tokens = 9000")
    for url in (user("submitter"), user("worker")):
        with psycopg.connect(url, autocommit=True) as connection, pytest.raises(psycopg.Error, match="must be owner"):
            connection.execute(f"DROP TABLE {schema}.events".encode())
