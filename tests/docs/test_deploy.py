"""The files in deploy/ start commands that exist, with options that exist, and agree with themselves."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, cast

import pytest
import yaml

from teamwright.cli.main import main
from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"
PROBED = {"/healthz", "/readyz"}
VARIABLES = re.compile(r"TEAMWRIGHT_[A-Z_]+")


def kubernetes() -> list[dict[str, Any]]:
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    return [cast("dict[str, Any]", one) for one in yaml.safe_load_all(text)]


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The pods of the deployments, each with its container."""
    for one in kubernetes():
        if one["kind"] == "Deployment":
            for container in one["spec"]["template"]["spec"]["containers"]:
                yield one, container


def _commands() -> dict[str, list[str]]:
    """The arguments of `teamwright` in each file."""
    compose: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    services = {name: one["command"] for name, one in compose["services"].items() if one.get("image") == "teamwright"}
    unit = (DEPLOY / "teamwright-worker@.service").read_text(encoding="utf-8")
    started = re.search(r"^ExecStart=\S+/teamwright (.*)$", unit, re.MULTILINE)
    assert started is not None
    pods = {f"kubernetes-{container['name']}": container["args"] for _, container in containers()}
    return {**services, **pods, "unit": shlex.split(started[1].replace("%i", "default"))}


@pytest.mark.parametrize("name", sorted(_commands()))
def test_a_command_of_deploy_is_understood(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = _commands()[name]
    assert main([arguments[0], "--help"]) == 0
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert {one for one in arguments if one.startswith("--")} <= known


def test_the_dashboard_shows_metrics_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "grafana.json").read_text(encoding="utf-8"))
    asked = " ".join(one["expr"] for panel in dashboard["panels"] for one in panel["targets"])
    sources = [
        *(ROOT / "src/teamwright/history/telemetry").glob("*.py"),
        *(ROOT / "src/teamwright/cluster").glob("*.py"),
    ]
    known = {name for file in sources for name in re.findall(r'Metric\(\s*"(\w+)"', file.read_text(encoding="utf-8"))}
    shown = set(re.findall(r"(?:teamwright|process)_[a-z_]+", asked))
    assert len(shown) > 10
    assert shown <= known


def test_a_worker_has_time_to_finish_its_calls() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    assert compose["services"]["worker"]["stop_grace_period"] == "10m"
    assert "TimeoutStopSec=10min" in (DEPLOY / "teamwright-worker@.service").read_text(encoding="utf-8")
    worker = next(one for one, container in containers() if container["name"] == "worker")
    assert worker["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 600


def test_every_deployment_selects_its_own_pods_and_probes_what_it_serves() -> None:
    for deployment, container in containers():
        pod = deployment["spec"]["template"]
        assert deployment["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
        (port,) = container["ports"]
        assert str(port["containerPort"]) in " ".join(container["args"])
        for probe in ("readinessProbe", "livenessProbe"):
            found = container.get(probe, {})
            asked = found.get("httpGet", found.get("tcpSocket", {"port": port["name"]}))
            assert asked["port"] == port["name"]
            assert asked.get("path", "/readyz") in PROBED
        mounted = {one["name"] for one in container["volumeMounts"]}
        assert mounted == {one["name"] for one in pod["spec"]["volumes"]}
        assert "TEAMWRIGHT_HOME" in {one["name"] for one in container["env"]}
        assert not any("JOURNAL" in one["name"] for one in container["env"]), "addresses with passwords are secrets"


def test_services_budgets_and_claims_name_what_there_is() -> None:
    objects = {(one["kind"], one["metadata"]["name"]): one for one in kubernetes()}
    pods = {
        one["spec"]["selector"]["matchLabels"]["app"]: one for (kind, _), one in objects.items() if kind == "Deployment"
    }
    assert objects["PodDisruptionBudget", "teamwright-worker"]["spec"]["selector"]["matchLabels"]["app"] in pods
    service = objects["Service", "teamwright-page"]["spec"]
    ports = pods[service["selector"]["app"]]["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert service["ports"][0]["targetPort"] in {one["name"] for one in ports}
    for deployment in pods.values():
        for volume in deployment["spec"]["template"]["spec"]["volumes"]:
            if claim := volume.get("persistentVolumeClaim"):
                assert ("PersistentVolumeClaim", claim["claimName"]) in objects


def test_every_variable_of_ours_is_one_that_the_program_reads() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "teamwright").rglob("*.py"))
    known = set(VARIABLES.findall(source))
    for path in DEPLOY.iterdir():
        assert set(VARIABLES.findall(path.read_text(encoding="utf-8"))) <= known, path.name
