"""The kind of tool on the page about extending: its manifest loads, and a misspelt setting is reported by line."""

from __future__ import annotations

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

PAGE = ROOT / "docs" / "extending.md"
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
