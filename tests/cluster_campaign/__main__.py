"""`python -m tests.cluster_campaign`: queued runs, and workers that die at random. Exits with 1 if a law breaks."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from tests.cluster_campaign.campaign import Campaign, CampaignReport
from tests.kit.postgres import GIVEN, schema_url
from tests.kit.postgres_restart import OwnPostgres
from tests.kit.workers import opened_cluster, worker_server


def main() -> int:
    given = _arguments()
    seed = given.seed if given.seed is not None else secrets.randbits(32)
    _say(f"seed {seed}, {given.runs} runs, {given.workers} workers")
    report = anyio.run(_run, given.runs, given.workers, seed, given.minutes)
    print(report.text)
    for breach in report.breaches:
        _say(f"BROKEN {breach}")
    return 1 if report.breaches else 0


async def _run(runs: int, workers: int, seed: int, minutes: float) -> CampaignReport:
    own = None if GIVEN else OwnPostgres(connections=100 + 25 * workers)
    try:
        with TemporaryDirectory() as folder, worker_server() as server:
            url = schema_url(own.url if own is not None else GIVEN, Path(folder))
            async with opened_cluster(url, Path(folder), server) as cluster:
                campaign = Campaign(cluster, runs=runs, workers=workers, seed=seed, tell=_say)
                return await campaign.run(blow_every=3.0, patience=minutes * 60)
    finally:
        if own is not None:
            own.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster_campaign", description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000, help="how many runs are queued (10000)")
    parser.add_argument("--workers", type=int, default=8, help="how many workers drive them (8)")
    parser.add_argument("--seed", type=int, help="draw the same blows again; their timing differs")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long they may take (60)")
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
