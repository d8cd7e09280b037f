"""Checks types with basedpyright, of those files alone whose result may differ from the last one that was good.

A file is checked again if it, or anything in the repository that it imports, however far, has changed since it passed;
so is every file after a change of the settings, of a lock file or of the interpreter. It imports no code that it reads.
"""

import ast
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PASSED = Path("build") / "types.json"
"""For each file that passed: the digest of all that its result depends on. Beside it, the imports of each text."""
SETTINGS = ("pyproject.toml", "requirements/dev.txt")
SOURCE = "src"
NODE = "--max-semi-space-size=256"
"""Most of what a type checker allocates lives shortly, and a larger nursery saves a tenth of its time."""
FEWEST = 100
"""The fewest files for which a further process is worth its start."""


def digest(*parts: str) -> str:
    """Return the digest of texts, none of which runs into the next."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def files(root: Path, folders: Iterable[str]) -> dict[str, str]:
    """Return the text of each Python file below these folders, by its path."""
    found = sorted(
        path for folder in folders for path in (root / folder).rglob("*.py*") if path.suffix in (".py", ".pyi")
    )
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in found}


def imports(text: str) -> list[str]:
    """Return the dotted names that a text imports, wherever the statement stands; nothing if it has no valid syntax."""
    try:
        module = ast.parse(text)
    except SyntaxError:
        return []
    names: set[str] = set()
    for node in ast.walk(module):
        match node:
            case ast.Import(names=aliases):
                parts = (alias.name.split(".") for alias in aliases)
                names |= {".".join(one[: length + 1]) for one in parts for length in range(len(one))}
            case ast.ImportFrom(module=str(origin), names=aliases):
                names |= {origin, *(f"{origin}.{alias.name}" for alias in aliases)}
            case _:
                continue
    return sorted(names)


def module_paths(name: str, folder: str) -> list[str]:
    """Return the paths that a module of this name may have for a file in this folder."""
    path = name.replace(".", "/")
    places = ("", f"{SOURCE}/", f"{folder}/")
    return [f"{place}{path}{end}" for place in places for end in (".py", ".pyi", "/__init__.py", "/__init__.pyi")]


def dependencies(texts: Mapping[str, str], known: Mapping[str, Sequence[str]]) -> dict[str, set[str]]:
    """Return the files that each file imports; `known` holds the imports of texts, by their digest."""
    found: dict[str, set[str]] = {}
    for file, text in texts.items():
        folder = file.rpartition("/")[0]
        paths = (path for name in known[digest(text)] for path in module_paths(name, folder))
        found[file] = {path for path in paths if path in texts}
    return found


def keys(texts: Mapping[str, str], needs: Mapping[str, set[str]], settings: str) -> dict[str, str]:
    """Return the digest of all that the result of each file depends on."""
    digests = {file: digest(text) for file, text in texts.items()}
    found: dict[str, str] = {}
    for file in texts:
        reached, left = {file}, [file]
        while left:
            new = needs[left.pop()] - reached
            reached |= new
            left += new
        found[file] = digest(settings, *(f"{one} {digests[one]}" for one in sorted(reached)))
    return found


def divided(texts: Mapping[str, str], stale: Sequence[str], processes: int) -> list[list[str]]:
    """Divide files that lie next to each other into parts of about the same length, for a process each.

    Files of one folder import the same, which each process evaluates once; so a few files stay together.
    """
    parts: list[list[str]] = [[] for _ in range(max(1, min(processes, len(stale) // FEWEST)))]
    whole, before = sum(len(texts[file]) + 1 for file in stale), 0
    for file in stale:
        parts[before * len(parts) // whole].append(file)
        before += len(texts[file]) + 1
    return [part for part in parts if part]


def run(root: Path, command: Sequence[str], parts: Sequence[Sequence[str]]) -> list[int]:
    """Run the checker on each part, side by side, print what they found, and return their exit codes."""
    environment = {"NODE_OPTIONS": NODE, **os.environ}
    running = [
        subprocess.Popen(
            [*command, *part], cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for part in parts
    ]
    for one in running:
        print(one.communicate()[0], end="", flush=True)
    return [one.returncode for one in running]


def check(root: Path, folders: Sequence[str], command: Sequence[str], processes: int = 1) -> int:
    """Check the files whose result may have changed, note those that passed, and return the exit code."""
    texts, kept = files(root, folders), _kept(root / PASSED)
    earlier: dict[str, list[str]] = kept["imports"]
    known = {one: earlier.get(one) or imports(text) for text in texts.values() for one in [digest(text)]}
    settings = digest(sys.version, *command, *(_text(root / name) for name in SETTINGS))
    wanted = keys(texts, dependencies(texts, known), settings)
    stale = [file for file, key in wanted.items() if kept["passed"].get(file) != key]
    parts = divided(texts, stale, processes) if stale else []
    codes = run(root, command, parts)
    failed = {file for part, code in zip(parts, codes, strict=True) if code for file in part}
    passed = {file: key for file, key in wanted.items() if file not in failed}
    (root / PASSED).parent.mkdir(exist_ok=True)
    (root / PASSED).write_text(json.dumps({"passed": passed, "imports": known}), encoding="utf-8")
    return max(codes, default=0)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _kept(path: Path) -> dict[str, Any]:
    """Return what the last check noted; nothing, if there was none or its note can't be read."""
    try:
        return {"passed": {}, "imports": {}, **json.loads(_text(path) or "{}")}
    except (TypeError, ValueError):
        return {"passed": {}, "imports": {}}


if __name__ == "__main__":
    included = tomllib.loads(_text(ROOT / "pyproject.toml"))["tool"]["basedpyright"]["include"]
    # Processes of our own need a fifth less than its `--threads`, which give each file to an idle one.
    checker = (f"{Path(sys.executable).parent}/basedpyright",)
    sys.exit(check(ROOT, included, checker, min(os.cpu_count() or 1, 4)))
