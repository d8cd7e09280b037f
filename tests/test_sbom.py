"""The SBOM and the list of licences: complete, the same every time, with hashes of the lock files and no hosts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.paths import ROOT
from tools import sbom

HOST = re.compile(r"https?://|[a-z0-9-]+\.(?:com|org|io|net|dev)\b", re.IGNORECASE)


@pytest.fixture(scope="module")
def components() -> list[sbom.Component]:
    return sbom.components(sbom.locked_hashes(ROOT / "requirements"))


def test_every_package_that_is_needed_is_in_it_as_locked(components: list[sbom.Component]) -> None:  # S-09
    locks = sbom.locked_hashes(ROOT / "requirements")
    named = {one.name: one for one in components}
    core = {
        "anyio", "jinja2", "jsonschema", "msgspec", "platformdirs", "pydantic", "pyyaml", "regex", "rich", "typer",
        "typing-extensions", "idna",
    }  # fmt: skip
    assert core <= named.keys()
    assert not any(named[name].optional for name in core)
    assert {"pytest", "ruff", "hypothesis"}.isdisjoint(named)
    for one in components:
        if one.name != "teamwright":
            assert locks[one.name][0] == one.version
            assert one.hashes


def test_every_package_says_its_licence(components: list[sbom.Component]) -> None:  # S-09
    assert [one.name for one in components if one.licence == sbom.UNKNOWN] == []
    table = sbom.licence_table(components)
    assert all(f"| {one.name} | {one.version} | {one.licence} |" in table for one in components)
    assert "GPL" not in table.replace("LGPL", "")


def test_the_sbom_is_cyclonedx_and_holds_together(components: list[sbom.Component]) -> None:  # S-09
    found: Any = sbom.cyclonedx(components)
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(
        r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", found["serialNumber"]
    )
    refs = [found["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in found["components"])]
    assert len(refs) == len(set(refs))
    assert {one["ref"] for one in found["dependencies"]} == set(refs)
    assert all(set(one["dependsOn"]) <= set(refs) for one in found["dependencies"])
    for one in found["components"]:
        assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"
        assert one["scope"] in {"required", "optional"}
        assert one["licenses"] == [{"expression": one["licenses"][0]["expression"]}]


def test_the_same_environment_gives_the_same_bytes_without_hosts(components: list[sbom.Component]) -> None:  # S-09
    text = json.dumps(sbom.cyclonedx(components)) + sbom.licence_table(components)
    again = sbom.components(sbom.locked_hashes(ROOT / "requirements"))
    assert json.dumps(sbom.cyclonedx(again)) + sbom.licence_table(again) == text
    assert HOST.search(text) is None
    assert str(ROOT) not in text


def test_lock_files_are_hashed_and_hold_no_hosts() -> None:  # S-09
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text()
        assert HOST.search(text) is None
        pinned = re.findall(r"^[A-Za-z0-9._-]+==", text, re.MULTILINE)
        assert pinned
        assert len(re.findall(r"^[A-Za-z0-9._-]+==[^\n]*\\\n +--hash=sha256:", text, re.MULTILINE)) == len(pinned)
