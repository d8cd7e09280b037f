"""What a run needs of the process that drives it: code, programs, keys, strategies, and what of it a process lacks.

Code never travels with a run: only the digest of its folder does. A worker with the same code, by digest, drives the
run; its operator has put the code there. Checking imports strategies, as driving the run would; nothing is driven.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from pkgutil import iter_modules
from shutil import which

from teamwright.agents.evaluators import evaluator_names
from teamwright.agents.functions.imports import is_importable, modules_of
from teamwright.agents.tools.registry import kind_names
from teamwright.errors import TeamwrightError, UsageError
from teamwright.strategies.registry import find_strategy
from teamwright.teams.manifests.code_references import Code, code_in
from teamwright.teams.manifests.environment_variables import variables_in
from teamwright.values.events.run import RunStarted
from teamwright.values.specs.manifest import Manifest, Source
from teamwright.values.specs.tools import McpSpec
from teamwright.values.text.display import size_text
from teamwright.values.value import Value

MOST_FILES = 20_000
LARGEST_TOTAL = 500_000_000
_SKIPPED = {"__pycache__", "node_modules", "build", "dist"}
_SKIPPED_SUFFIXES = (".pyc", ".pyo", ".egg-info", ".dist-info")
VARIABLE = "${"
SHOWN_DIGEST = 12
"""So many digits of a digest tell folders with code apart."""
HINT = "Name the folder with the code, here and for the workers, with  --code DIR"


class CodeFolder:
    """A folder with code, and its digest at the time this process began to use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._seen = _listing(self.folder)
        self.digest = _digest(self.folder, self._seen)

    def is_unchanged(self) -> bool:
        """Whether the folder still has this digest: this process may have imported its modules as they were."""
        try:
            seen = _listing(self.folder)
            if seen != self._seen and _digest(self.folder, seen) != self.digest:
                return False
        except UsageError:
            return False
        self._seen = seen
        return True

    def has(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.folder)


def _listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """The files of the folder, each with its size, time of change and inode; raises `UsageError`."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {str(folder)!r} with code; name it with  --code DIR")
    try:
        found = dict(_files(folder))
    except OSError as error:
        raise UsageError(f"The folder {str(folder)!r} with code can't be read: {error.strerror}.") from error
    total = sum(size for size, _, _ in found.values())
    if len(found) > MOST_FILES or total > LARGEST_TOTAL:
        raise UsageError(
            f"The folder {str(folder)!r} has {len(found)} files with {size_text(total)}, too many for a digest of code;"
            " name a folder that contains the code alone."
        )
    return found


def _files(folder: Path) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """The files that count as code: all but hidden ones, and what tools generate. Links are followed, as by Python."""
    walked: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(parent)) in walked:  # a link to a folder around it
            folders.clear()
            continue
        walked.add(real)
        folders[:] = sorted(one for one in folders if _is_source(one))
        for name in sorted(filter(_is_source, names)):
            place = Path(parent, name)
            if place.is_file():
                found = place.stat()
                path = place.relative_to(folder).as_posix()
                yield path, (found.st_size, found.st_mtime_ns, found.st_ino)


def _is_source(name: str) -> bool:
    return not name.startswith(".") and name not in _SKIPPED and not name.endswith(_SKIPPED_SUFFIXES)


def _digest(folder: Path, paths: dict[str, tuple[int, int, int]]) -> str:
    """Hash the paths and contents of files; where the folder is and when files were written does not matter."""
    hashed = blake2b(digest_size=16)
    try:
        for path in sorted(paths):
            content = (folder / path).read_bytes()
            name = path.encode("utf-8", "surrogateescape")
            hashed.update(b"%d %d\n%b%b" % (len(name), len(content), name, content))
    except OSError as error:
        raise UsageError(f"The folder {str(folder)!r} with code can't be read: {error.strerror}.") from error
    return hashed.hexdigest()


class Needs(Value):
    """What a process needs to drive a run."""

    strategies: dict[str, int] = {}
    """The versions of the strategies, by their names."""
    strategy_classes: tuple[str, ...] = ()
    """Import paths of strategies, which have names of their own."""
    tools: tuple[str, ...] = ()
    evaluators: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    """Programs that check work, by their paths or by names that are looked up in PATH."""
    variables: tuple[str, ...] = ()
    code: str = ""


def needs_of(started: RunStarted, manifest: Manifest) -> Needs:
    """Return what a run with this start and this manifest needs."""
    code = code_in(manifest)
    paths = {one.code for one in code if one.kind in {"function", "strategy", "evaluator"} and ":" in one.code}
    return Needs(
        strategies=started.strategies,
        strategy_classes=tuple(sorted({one.code for one in code if one.kind == "strategy" and ":" in one.code})),
        tools=tuple(sorted({one.code for one in code if one.kind == "tool"})),
        evaluators=tuple(sorted({one.code for one in code if one.kind == "evaluator" and ":" not in one.code})),
        modules=tuple(sorted({path.partition(":")[0] for path in paths})),
        programs=tuple(sorted(set(programs_in(code)))),
        variables=tuple(sorted(variables_in(manifest))),
        code=started.code,
    )


def programs_in(code: Iterable[Code]) -> Iterator[str]:
    """Return the programs of commands that check work, unless the worker's environment decides what they are."""
    for one in code:
        if one.kind == "command" and VARIABLE not in (program := shlex.split(one.code)[0]):
            yield program


def missing_here(
    needs: Needs, code: CodeFolder | None, environment: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """Return what this process lacks of a run's needs, in words that follow "waits for a worker with"."""
    if needs.code and (code is None or code.digest != needs.code):
        return (f"the code {needs.code[:SHOWN_DIGEST]}",)
    if needs.code and code is not None and not code.is_unchanged():
        return (f"the code {needs.code[:SHOWN_DIGEST]}, unchanged since the worker began",)
    with modules_of(code.folder if code is not None and needs.code else ""):
        return tuple(_missing(needs, os.environ if environment is None else environment))


def _missing(needs: Needs, environment: Mapping[str, str]) -> Iterator[str]:
    yield from (f"the environment variable {name!r}" for name in needs.variables if name not in environment)
    yield from (f"the kind of tool {name!r}" for name in needs.tools if name not in kind_names())
    yield from (f"the evaluator {name!r}" for name in needs.evaluators if name not in evaluator_names())
    yield from (f"the program {name!r}" for name in needs.programs if which(name) is None)
    absent = [name for name in needs.modules if not is_importable(name)]
    yield from (f"the Python module {name!r}" for name in absent)
    if not absent:
        yield from _missing_strategies(needs)


def _missing_strategies(needs: Needs) -> Iterator[str]:
    own: dict[str, int] = {}
    for path in needs.strategy_classes:
        found = _find_strategy(path)
        if found is None:
            yield f"the strategy {path!r}"
        else:
            own[found[0]] = found[1]
    for name, version in needs.strategies.items():
        found = (name, own[name]) if name in own else _find_strategy(name)
        if found is None and needs.strategy_classes and len(own) < len(needs.strategy_classes):
            continue  # the name of a class that is missing, reported by its path
        if found is None or found[1] != version:
            yield f"strategy {name!r} version {version}"


def _find_strategy(name: str) -> tuple[str, int] | None:
    """The name and version of a strategy; `None` if there is none, or if it can't be imported."""
    module, colon, _ = name.partition(":")
    if colon and not is_importable(module):
        return None
    try:
        found = find_strategy(name)
    except TeamwrightError:
        return None
    return found.name, found.version


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
        folder = Path(source.base, server.mcp.folder or ".")
        for text in server.mcp.command or ():
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
