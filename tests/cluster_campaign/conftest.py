"""Fixtures of the sample of the campaign."""

from tests.cluster.conftest import cluster, empty_queue, queue_url, workers
from tests.kit.postgres import postgres_server

__all__ = ["cluster", "empty_queue", "postgres_server", "queue_url", "workers"]
