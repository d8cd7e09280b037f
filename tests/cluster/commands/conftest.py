"""Fixtures of the tests of the commands of a cluster."""

from tests.cluster.conftest import cluster, workers
from tests.kit.postgres import postgres_server

__all__ = ["cluster", "postgres_server", "workers"]
