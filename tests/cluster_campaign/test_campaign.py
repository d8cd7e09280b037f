"""A sample of the campaign: `python -m tests.cluster_campaign` is the whole."""

from __future__ import annotations

import pytest

from tests.cluster_campaign.campaign import Campaign
from tests.kit.workers import Cluster
from tests.profiles import sampled


@pytest.mark.timeout(180)
async def test_queued_runs_end_once_while_workers_are_killed_at_random(cluster: Cluster) -> None:
    campaign = Campaign(cluster, runs=sampled(80, 200), workers=3, seed=18, tell=print)
    report = await campaign.run(blow_every=1.5, patience=120)
    assert not report.breaches
    assert report.blows
    print(report.text)
