"""Checks, before a run is submitted, that workers will find the code that its manifest names.

A worker finds installed packages, and the modules and programs of a folder with code of the same digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from pkgutil import iter_modules

from teamwright.cluster.submission.code_folder import CodeFolder
from teamwright.cluster.submission.needs import programs_in
from teamwright.errors import UsageError
from teamwright.teams.manifests.code_references import code_in
from teamwright.values.specs.manifest import Manifest, McpSpec, Source

HINT = "Name the folder with the code, here and for the workers, with  --code DIR"


def place_in_code(source: Source) -> Path | None:
    """Where the manifest is in the folder with code; `None` if it is outside."""
    base, modules = Path(source.base), Path(source.module_folder)
    return base.relative_to(modules) if base.is_relative_to(modules) else None


def check_code(source: Source, code: CodeFolder | None) -> None:
    """Raise `UsageError` if the manifest names code that no worker would find."""
    if code is None:
        beside = {one.name for one in iter_modules([source.base])}
        for one in code_in(source.manifest):
            module = one.code.partition(":")[0].partition(".")[0]
            if ":" in one.code and module in beside:
                raise UsageError(
                    f"The {one.kind} {one.code!r} of {one.owner} is beside the manifest, and code does not travel with"
                    f" a run. {HINT}, or install it there as a package."
                )
    for program in programs_in(code_in(source.manifest)):
        if "/" in program and not Path(program).is_absolute():
            raise UsageError(
                f"The program {program!r} that checks work is relative to the folder of the process, which is another"
                " one for each worker: name it by an absolute path, or put it into a folder of PATH there."
            )
    for program in _programs(source):
        if code is None or not code.has(program) or place_in_code(source) is None:
            raise UsageError(
                f"The program {str(program)!r} of an MCP server is beside the manifest, and code does not travel with a"
                f" run. {HINT} that contains the manifest and the program."
            )


def _programs(source: Source) -> Iterator[Path]:
    """The files that commands of MCP servers name, relative to the folder in which they start."""
    for server in _servers(source.manifest):
        folder = Path(source.base, server.mcp.cwd or ".")
        for text in (server.mcp.command or "", *server.mcp.args):
            if text and not Path(text).is_absolute() and _is_file(folder / text):
                yield folder / text


def _servers(manifest: Manifest) -> Iterator[McpSpec]:
    inline = (tool for agent in manifest.agents.values() for tool in agent.tools)
    yield from (tool for tool in (*manifest.tools.values(), *inline) if isinstance(tool, McpSpec))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
