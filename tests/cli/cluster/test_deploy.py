"""The files in `deploy/` agree with the commands that they call, and with themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest
import yaml

from teamwright.cli.main import main
from tests.paths import ROOT

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


def commands() -> Iterator[list[str]]:
    """The arguments with which a file calls the program."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
    yield from (compose["services"][name]["command"] for name in ("worker", "page"))
    yield from (container["args"] for _, container in containers())
    unit = (DEPLOY / "teamwright-worker@.service").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ExecStart=\S+/teamwright (.*)$", unit, re.MULTILINE)
    yield line.split(" ")


@pytest.mark.parametrize("arguments", list(commands()), ids=" ".join)
def test_every_command_exists_with_its_options(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([arguments[0], "--help"]) == 0
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert {one for one in arguments if one.startswith("--")} <= known


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
