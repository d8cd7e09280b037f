"""The build of the page: once per version of its sources, and into the wheel; its unit tests pass."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT
from tools import page


def _fake_web(folder: Path) -> Path:
    web = folder / "web"
    for name in ("package.json", "package-lock.json", ".npmrc", "src/main.ts", "node_modules/vue/index.js"):
        (web / name).parent.mkdir(parents=True, exist_ok=True)
        (web / name).write_text(name)
    return web


def test_the_page_is_built_again_only_where_its_sources_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, static = _fake_web(tmp_path), tmp_path / "static"
    static.mkdir()
    calls: list[str] = []
    monkeypatch.setattr(page, "npm", lambda *arguments, web: calls.append(arguments[-1]))
    page.build(web, static)
    page.build(web, static)
    assert calls == ["--ignore-scripts", "build"]
    (web / "node_modules" / "vue" / "index.js").write_text("other")
    page.build(web, static)
    assert len(calls) == 2
    (web / "src" / "main.ts").write_text("other")
    page.build(web, static)
    assert calls == ["--ignore-scripts", "build", "build"]


def test_the_lock_file_names_no_host() -> None:
    lock = (ROOT / "web" / "package-lock.json").read_text()
    assert "://" not in lock, "delete the funding entries that npm has added"


@pytest.mark.timeout(180)
def test_the_unit_tests_of_the_page_pass() -> None:
    page.install()
    done = subprocess.run(
        [sys.executable, "tools/page.py", "test"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_view_has_less_than_200_kilobytes_and_an_exported_page_less_than_a_megabyte() -> None:
    page.build()
    index = (page.STATIC / "index.html").read_text(encoding="utf-8")
    names = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', index)
    assert names
    first = sum(len(gzip.compress((page.STATIC / name).read_bytes())) for name in names)
    assert first < 200_000
    exported = sum((page.STATIC / "export" / name).stat().st_size for name in ("run.js", "run.css"))
    assert exported < 1_000_000
