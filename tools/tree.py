"""Checks the tree of files: sizes, names, what an `__init__` may hold, and traces of one machine.

`make check` runs it as a program and `tests/test_tree.py` as a test. It only reads, and reports every problem at once.
"""

import ast
import gc
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("src/teamwright")
PACKAGE_ROOT = Path("src/teamwright/__init__.pyi")
"""The stub that says which names the root has."""
MAX_FILE_LINES = 600
MIN_FILE_LINES = 60
MAX_FUNCTION_LINES = 60
MAX_CLASS_LINES = 300
MAX_METHODS = 25
MAX_PARAMETERS = 12
"""The most parameters of a constructor, besides `self`."""
MAX_ROOT_NAMES = 25
MAX_ENTRIES = 25
"""Most files and folders in a folder of the package; from fifteen on, look for families."""
MIN_ENTRIES = 4
SMALL = {
    "_lazy.py": "every facade begins with it, so it imports nothing else",
    "__main__.py": "what `python -m teamwright` starts",
    "experts/team_templates.py": "imports the command `new`, which alone reads it",
    "collector_pauses.py": "all layers use it, and importing a facade must stay cheap",
    "lab/jobs.py": "runs in other processes of a server, which import nothing of HTTP",
    "server/error_statuses.py": "runs in other processes of a server, which import nothing of HTTP",
}
"""Files of the package that are short for a reason, besides facades and the `wing.py` of each wing."""
LARGE = {
    "Account": "a ledger's account: each of its moves reads and writes all of its sums",
    "OrderedDelivery": "the order of delivery: its methods share all of its state",
}
"""Classes that are large for a reason; besides, a conformance suite is one class, the list of what is tested."""
SUITES = "testing"
NOT_COUNTED = {"__init__.py", "__main__.py", "py.typed"}
EMPTY_NAMES = {"base", "common", "helpers", "impl", "manager", "utils"}
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")
"""The attributes of a statement that hold others."""
MACHINE_PATH = re.compile(r"(?<![\w.~<}])/(?:home|opt|root|Users)/\w|\b[A-Z]:\\+Users\\")
REGISTRY = re.compile(r"(?:https?|file)://[^\s\"'>]*(?:pypi|pythonhosted|npmjs|/simple\b)")
SUSPECT = ("/home/", "/opt/", "/root/", "/Users/", "\\Users\\", "://", str(ROOT))
"""One of these is in every text that has a path of one machine or a host; they are found far faster than patterns."""


def tracked(root: Path) -> list[Path]:
    """List the files that git knows or would add; outside a checkout, all but hidden ones."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        names = [
            str(path.relative_to(root)) for path in root.rglob("*") if "/." not in str(path.relative_to(root.parent))
        ]
    return sorted(root / name for name in names if name and (root / name).is_file())


def check_text(path: Path, text: str) -> Iterator[str]:
    """Find paths and package hosts of the machine where a file was written."""
    if not any(part in text for part in SUSPECT):
        return
    is_pinned = path.parts[0] == "requirements" and "://" in text
    if not (is_pinned or MACHINE_PATH.search(text) or str(ROOT) in text or REGISTRY.search(text)):
        return  # nearly every file, and searching it line by line takes longer
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line) or str(ROOT) in line:
            yield f"{path}:{number}: shows a path of one machine"
        if REGISTRY.search(line) or (path.parts[0] == "requirements" and "://" in line):
            yield f"{path}:{number}: names the host of a package registry"


def check_name(path: Path) -> Iterator[str]:
    """Refuse file and folder names without meaning, such as `utils`."""
    for part in path.with_suffix("").parts:
        if empty := EMPTY_NAMES & set(part.split("_")):
            yield f"{path}: {min(empty)!r} says nothing about what is inside; name the file after its noun"


def check_sizes(path: Path, text: str, module: ast.Module) -> Iterator[str]:
    """Refuse files and functions that are too long."""
    if (lines := len(text.splitlines())) > MAX_FILE_LINES:
        yield f"{path}: {lines} lines; split it (at most {MAX_FILE_LINES})"
    for node in statements(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name}() has {lines} lines; split it (at most {MAX_FUNCTION_LINES})"


def check_classes(path: Path, module: ast.Module) -> Iterator[str]:
    """Refuse classes and constructors that hold more than one idea."""
    for node in statements(module):
        if not isinstance(node, ast.ClassDef) or node.name in LARGE:
            continue
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if len(methods) > MAX_METHODS or lines > MAX_CLASS_LINES:
            most = f"(at most {MAX_METHODS} and {MAX_CLASS_LINES})"
            yield f"{path}:{node.lineno}: {node.name} has {len(methods)} methods in {lines} lines; divide it {most}"
        for one in methods:
            count = len(one.args.posonlyargs) + len(one.args.args) + len(one.args.kwonlyargs) - 1
            if one.name == "__init__" and count > MAX_PARAMETERS:
                yield f"{path}:{one.lineno}: {node.name} takes {count} arguments; group them (at most {MAX_PARAMETERS})"


def check_small(path: Path, text: str) -> Iterator[str]:
    """Refuse files of the package that are too short to be an idea, but for those that have a reason."""
    lines = len(text.splitlines())
    has_reason = path.name in ("__init__.py", "wing.py") or (ROOT / path).with_suffix(".pyi").exists()
    if lines < MIN_FILE_LINES and not has_reason and path.relative_to(PACKAGE).as_posix() not in SMALL:
        yield f"{path}: {lines} lines; merge it with what changes with it (at least {MIN_FILE_LINES})"


def statements(module: ast.Module) -> list[ast.AST]:
    """Return the statements of a module, however nested. Walking the expressions too would take five times as long."""
    found: list[ast.AST] = [module]
    for node in found:  # which grows meanwhile
        for block in BLOCKS:
            found.extend(getattr(node, block, ()))
    return found


def check_init(path: Path, module: ast.Module) -> Iterator[str]:
    """Refuse code in an `__init__` other than imports, constants and what makes a facade lazy."""
    for node in module.body:
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()) | ast.Assign() | ast.AnnAssign():
                continue
            case _:
                yield f"{path}:{node.lineno}: an __init__ only re-exports; move this to a module"


def check_root(path: Path, module: ast.Module) -> Iterator[str]:
    """Refuse too many names at the package's root."""
    names = sum(len(node.names) for node in module.body if isinstance(node, ast.ImportFrom))
    if names > MAX_ROOT_NAMES:
        yield f"{path}: {names} names (at most {MAX_ROOT_NAMES})"


def check_folders(paths: Iterable[Path]) -> Iterator[str]:
    """Refuse folders of the package with too many entries or too few."""
    entries: defaultdict[Path, set[str]] = defaultdict(set)
    for path in paths:
        if path.parts[0] == "src" and path.suffix != ".pyi" and path.name not in NOT_COUNTED:
            for folder in list(path.parents)[:-1]:
                entries[folder].add(path.relative_to(folder).parts[0])
    for folder, names in sorted(entries.items()):
        if len(names) > MAX_ENTRIES:
            yield f"{folder}: {len(names)} entries; give families a folder (at most {MAX_ENTRIES})"
        if len(names) < MIN_ENTRIES and PACKAGE in folder.parents and (ROOT / folder / "__init__.py").exists():
            yield f"{folder}: {len(names)} entries; move them up (at least {MIN_ENTRIES})"


def problems(root: Path = ROOT) -> list[str]:
    """Return every problem of the tree, one line each."""
    files = tracked(root)
    found = list(check_folders(file.relative_to(root) for file in files))
    for file in files:
        path = file.relative_to(root)
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += check_text(path, text)
        if path == PACKAGE_ROOT:
            found += check_root(path, ast.parse(text))
        if path.suffix == ".py":
            found += check_name(path)
            try:
                module = ast.parse(text)
            except SyntaxError as error:
                found.append(f"{path}:{error.lineno}: {error.msg}")
                continue
            found += check_sizes(path, text, module)
            if path.is_relative_to(PACKAGE):
                found += check_small(path, text)
                if path.relative_to(PACKAGE).parts[0] != SUITES:
                    found += check_classes(path, module)
            if path.name == "__init__.py":
                found += check_init(path, module)
    return found


if __name__ == "__main__":
    gc.disable()  # the trees of all files are many objects and no garbage
    lines = problems()
    print("\n".join(lines), file=sys.stderr, end="\n" if lines else "")
    sys.exit(bool(lines))
