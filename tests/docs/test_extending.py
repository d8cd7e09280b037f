"""The kind of tool on the page about extending: its manifest loads, and a misspelt setting is reported by line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import cast

import pytest

from teamwright import ModelAgent, load_team
from teamwright.agents.tools import registry
from teamwright.errors import ManifestError
from teamwright.teams.manifests import schema
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "extending" / "parts.md"
FILES = {block.about: block.text for block in blocks(PAGE) if block.mark == "file"}
CACHES = (registry._registered, registry._load, schema._schema)


@pytest.fixture
def manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The manifest of the page, beside its modules, with its kind registered as the page says."""
    assert 'almanac = "almanac_kind:AlmanacKind"' in PAGE.read_text(encoding="utf-8")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    point = EntryPoint("almanac", "almanac_kind:AlmanacKind", registry.GROUP)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        patch.setenv("OPENAI_API_KEY", "none")
        patch.setattr(registry, "entry_points_of", lambda _: [point])
        for cached in CACHES:
            cached.cache_clear()
        yield tmp_path / "guide.yaml"
    for cached in CACHES:
        cached.cache_clear()
    for name in FILES:
        sys.modules.pop(Path(name).stem, None)


def test_the_manifest_builds_the_tool_with_its_settings(manifest: Path) -> None:
    (guide,) = load_team(manifest).members
    (source,) = cast("ModelAgent", guide).toolbox.sources
    assert (source.name, source.kind, vars(source)["weather"]) == ("sky", "almanac", "sun")


def test_a_misspelt_setting_is_reported_with_file_and_line(manifest: Path) -> None:
    manifest.write_text(manifest.read_text().replace("weather: sun", "wether: sun"))
    with pytest.raises(ManifestError) as raised:
        load_team(manifest)
    (problem,) = raised.value.problems
    assert (Path(problem.file).name, problem.line) == ("guide.yaml", 6)
    assert "wether" in problem.message


def test_the_wing_adds_its_command_and_its_option(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    declared = page[page.index('[project.entry-points."teamwright.wings"]') :].splitlines()[1]
    metadata = tmp_path / "invoice-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: invoice\nVersion: 1.0\n", encoding="utf-8")
    point = declared.replace('"', "")
    (metadata / "entry_points.txt").write_text(f"[teamwright.wings]\n{point}\n", encoding="utf-8")
    (tmp_path / "invoice_wing.py").write_text(FILES["invoice_wing.py"], encoding="utf-8")
    command = [sys.executable, "-m", "teamwright", "runs", "invoice", "r1", "--ledger", "ledger://h"]
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert (done.stdout, done.stderr) == ("Invoice of r1\n", "")
