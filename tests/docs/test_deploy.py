"""The files in deploy/ start commands that exist, with options that exist."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
import yaml

from teamwright.cli.main import main
from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"


def _commands() -> dict[str, list[str]]:
    """The arguments of `teamwright` in each file."""
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = {name: one["command"] for name, one in compose["services"].items() if one.get("image") == "teamwright"}
    unit = (DEPLOY / "teamwright-worker@.service").read_text(encoding="utf-8")
    started = re.search(r"^ExecStart=\S+/teamwright (.*)$", unit, re.MULTILINE)
    assert started is not None
    return {**services, "unit": shlex.split(started[1].replace("%i", "default"))}


@pytest.mark.parametrize("name", sorted(_commands()))
def test_a_command_of_deploy_is_understood(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = _commands()[name]
    assert main([arguments[0], "--help"]) == 0
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert {one for one in arguments if one.startswith("--")} <= known


def test_a_worker_has_time_to_finish_its_calls() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert compose["services"]["worker"]["stop_grace_period"] == "10m"
    assert "TimeoutStopSec=10min" in (DEPLOY / "teamwright-worker@.service").read_text(encoding="utf-8")
