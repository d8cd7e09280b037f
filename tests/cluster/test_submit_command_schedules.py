"""`teamwright submit --every` and `cluster schedules`."""

from __future__ import annotations

import json

import pytest
from anyio.to_thread import run_sync

from teamwright.cli.main import main
from tests.kit.workers import Cluster


async def test_a_schedule_is_made_listed_and_removed(cluster: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    async def teamwright(*arguments: str) -> tuple[int, str, str]:
        code = await run_sync(main, [*arguments, "--journal", cluster.url])
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    submit = (
        "submit",
        str(cluster.folder / "team.yaml"),
        "report",
        "--every",
        "0 7 * * mon-fri Europe/Berlin",
        "--name",
        "daily",
    )
    code, out, err = await teamwright(*submit, "--queue", "night")
    assert (code, out) == (0, "daily\n")
    assert "teamwright cluster schedules" in err
    code, _, err = await teamwright(*submit)
    assert code == 2
    assert "schedules daily --remove" in err
    assert await cluster.engine.runs.list() == [], "the first run starts at its time"
    code, out, _ = await teamwright("cluster", "schedules", "--json")
    (listed,) = json.loads(out)
    assert code == 0
    assert listed.pop("next").endswith(("05:00:00+00:00", "06:00:00+00:00"))
    assert listed == {
        "name": "daily",
        "cron": "0 7 * * mon-fri",
        "time_zone": "Europe/Berlin",
        "queue": "night",
        "priority": 0,
        "last_run": None,
    }
    code, _, err = await teamwright("cluster", "schedules", "dayly", "--remove")
    assert code == 2
    assert "'daily'" in err
    assert (await teamwright("cluster", "schedules", "daily", "--remove"))[0] == 0
    code, out, _ = await teamwright("cluster", "schedules")
    assert "There are no schedules" in out


@pytest.mark.parametrize("option", [("--after", "10m"), ("--wait",), ("--run-id", "one")])
def test_options_of_one_run_do_not_go_with_a_schedule(
    option: tuple[str, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["submit", "team.yaml", "task", "--every", "@daily", *option]) == 2
    assert f"{option[0]} is for one run" in capfd.readouterr().err
