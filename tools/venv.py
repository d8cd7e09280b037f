"""Sets up a virtual environment from the hashed requirement files and installs this project in it, editable.

Runs on a bare Python 3.11 with pip: it imports the standard library alone, and works where `ensurepip` is missing.
"""

import argparse
import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def create(folder: Path) -> None:
    """Create the environment, unless it exists and its interpreter starts."""
    python = folder / "bin" / "python"
    if python.exists() and subprocess.run([python, "-c", ""], check=False).returncode == 0:
        return
    # Debian splits ensurepip off; the pip of the outer interpreter can fill the environment then.
    without_pip = [] if importlib.util.find_spec("ensurepip") else ["--without-pip"]
    subprocess.run([sys.executable, "-m", "venv", "--clear", *without_pip, folder], check=True)


def pip_of(folder: Path) -> list[str]:
    """Return the command that starts pip for the environment."""
    python = str(folder / "bin" / "python")
    if subprocess.run([python, "-c", "import pip"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
        return [python, "-m", "pip"]
    return [sys.executable, "-m", "pip", "--python", python]


def install(folder: Path, *arguments: str) -> None:
    """Run `pip install --quiet` in the environment."""
    command = [*pip_of(folder), "install", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, cwd=ROOT)


def main() -> int:
    """Set up the environment and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the environment is")
    parser.add_argument("requirements", nargs="+", help="hashed requirement files")
    parser.add_argument(
        "--no-deps", action="append", default=[], metavar="FILE", help="a file to install without what it needs"
    )
    parser.add_argument("--no-project", action="store_true", help="leave this project out")
    options = parser.parse_args()
    try:
        create(options.folder)
        for file in options.requirements:
            install(options.folder, "--require-hashes", "--no-deps", "-r", file)
        for file in options.no_deps:
            install(options.folder, "--require-hashes", "--no-deps", "-r", file)
        if not options.no_project:
            install(options.folder, "--no-deps", "--no-build-isolation", "--editable", ".")
    except subprocess.CalledProcessError as error:
        print(
            f"setting up {str(options.folder)!r} failed (the lines above say why); run the command again",
            file=sys.stderr,
        )
        return error.returncode or 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
