"""Builds the site of the documentation from the Markdown in `docs/`: `make docs`.

The chapters are those of `docs/README.md`. The site works offline and from the file system: it loads nothing from
another host, and its search needs no server. Files outside of `docs/` that a page links to are copied as text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
BUILD = ROOT / "build" / "docs"
SOURCES = "sources"
"""The folder of the site with files from outside of `docs/`."""
UNSEARCHED = ("contributing", "decisions")
UNINDEXED = "---\nsearch:\n  exclude: true\n---\n\n"
"""Above the pages for contributors, which the search of users leaves out."""
LINK = re.compile(r"\]\((?!https?:|#)([^)\s#]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"^<!-- (\w+)(?:: (.*?))? -->\n(?=```(\w*)$)", re.MULTILINE)
CONFIG = {
    "site_name": "Teamwright",
    "site_dir": "site",
    "docs_dir": "pages",
    "use_directory_urls": False,
    "theme": {
        "font": False,
        "features": ["navigation.sections", "navigation.top", "toc.follow", "search.highlight", "content.code.copy"],
        "palette": [
            {
                "media": "(prefers-color-scheme: light)",
                "scheme": "default",
                "toggle": {"icon": "lucide/sun", "name": "Dark"},
            },
            {
                "media": "(prefers-color-scheme: dark)",
                "scheme": "slate",
                "toggle": {"icon": "lucide/moon", "name": "Light"},
            },
        ],
    },
    "plugins": ["search", "offline"],
    "extra_css": ["assets/site.css"],
    "extra": {"generator": False, "polyfills": ["assets/iframe-worker.js"]},
    "markdown_extensions": [
        "tables",
        "md_in_html",
        "pymdownx.superfences",
        "pymdownx.highlight",
        "pymdownx.inlinehilite",
        {"toc": {"permalink": True, "slugify": "!slugify"}},
    ],
}
SLUGIFY = "!!python/object/apply:pymdownx.slugs.slugify {kwds: {case: lower}}"
"""Makes the anchors that GitHub makes, so that a link works in both places."""


def chapters() -> dict[str, list[tuple[str, str]]]:
    """Return the chapters of the start page, each with the titles and files of its pages, in order."""
    found: dict[str, list[tuple[str, str]]] = {}
    for section in (DOCS / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        name, _, text = section.partition("\n")
        links = re.findall(r"\[([^\]]+)\]\(([\w/-]+\.md)\)", text)
        found[name] = [(title[0].upper() + title[1:], file) for title, file in links]
    return found


def config() -> str:
    """Return the configuration of the site generator."""
    nav: list[object] = [{"Documentation": "README.md"}]
    nav += [{name: [{title: file} for title, file in pages]} for name, pages in chapters().items()]
    decisions = sorted(file.name for file in (DOCS / "decisions").glob("*.md"))
    nav.append({"Decisions": ["decisions/README.md", *(f"decisions/{name}" for name in decisions)]})
    return yaml.safe_dump({**CONFIG, "nav": nav}, sort_keys=False).replace("'!slugify'", SLUGIFY)


def stage(folder: Path) -> None:
    """Copy the pages and what they link to, as the site generator reads them."""
    shutil.copytree(DOCS, folder)
    for file in sorted(folder.rglob("*.md")):
        page = DOCS / file.relative_to(folder)
        parts = FENCE.split(_with_titles(page.read_text(encoding="utf-8")))
        text = "".join(part if part.startswith("```") else _with_links(part, page, folder) for part in parts)
        text = text.replace("<details>", '<details markdown="1">')
        file.write_text(text if file.parent.name not in UNSEARCHED else f"{UNINDEXED}{text}", encoding="utf-8")
    lines = [f"- [{_title(file)}]({file.name})" for file in sorted((DOCS / "decisions").glob("*.md"))]
    (folder / "decisions" / "README.md").write_text("# Decisions\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


def _with_titles(text: str) -> str:
    """Turn the marks of blocks into titles of files; other marks are for tests."""

    def replaced(mark: re.Match[str]) -> str:
        return f"<!-- title {mark[2]} -->\n" if mark[1] == "file" else ""

    text = MARK.sub(replaced, text)
    return re.sub(r"<!-- title (.*) -->\n```(\w*)$", r'```\2 title="\1"', text, flags=re.MULTILINE)


def _with_links(text: str, page: Path, folder: Path) -> str:
    """Point links to folders at their index, and links to files outside of `docs/` at copies of them."""

    def replaced(link: re.Match[str]) -> str:
        target = (page.parent / link[1]).resolve()
        if target.is_relative_to(DOCS):
            return f"]({link[1]}/README.md)" if target.is_dir() else link[0]
        copy = folder / SOURCES / f"{target.relative_to(ROOT)}.txt"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, copy)
        here = folder / page.relative_to(DOCS)
        return f"]({os.path.relpath(copy, here.parent)})"

    return LINK.sub(replaced, text)


def _title(file: Path) -> str:
    return file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def build(folder: Path = BUILD) -> Path:
    """Build the site and return its folder; a warning of the generator, such as a broken link, is an error."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stage(folder / "pages")
    (folder / "mkdocs.yml").write_text(config(), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "mkdocs.yml"]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the site was not built:\n{done.stdout}{done.stderr}")
    return folder / "site"


if __name__ == "__main__":
    print(build() / "index.html")
