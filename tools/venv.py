"""Sets up a virtual environment from the hashed requirement files and installs this project in it, editable.

Runs on a bare Python 3.11 with pip: it imports the standard library alone, and works where `ensurepip` is missing. What
pip prints goes to a log beside the environment, and to the terminal only after a failure.
"""

import argparse
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
PINNED = re.compile(r"^[A-Za-z0-9][\w.-]*==", re.MULTILINE)
"""The first line of a package in a lock file."""
HANDLED = re.compile(r"(?:Collecting|Ignoring|Requirement already satisfied:?) ")
"""A line of pip about one package of the file."""
SHOWN_ON_FAILURE = 40
"""Lines of the log that a failure prints."""
NOISE = "is ignored: it is neither a file nor a directory"
"""A warning of pip about a configured folder without the package, once for each package."""


class Progress:
    """One line on a terminal that is written over; elsewhere a line for each stage."""

    def __init__(self, label: str, output: TextIO) -> None:
        self._label = label
        self._output = output
        self._rewrites = output.isatty()

    def show(self, text: str, *, stage: bool = False) -> None:
        """Show what is being done; without a terminal only the beginning of a stage."""
        if self._rewrites:
            self._output.write(f"\r\x1b[K{self._label}: {text}")
        elif stage:
            self._output.write(f"{self._label}: {text}\n")
        self._output.flush()

    def end(self) -> None:
        """Leave the line."""
        if self._rewrites:
            self._output.write("\n")


def create(folder: Path, log: TextIO) -> None:
    """Create the environment, unless it exists and its interpreter starts."""
    python = folder / "bin" / "python"
    if python.exists() and subprocess.run([python, "-c", ""], check=False).returncode == 0:
        return
    # Debian splits ensurepip off; the pip of the outer interpreter can fill the environment then.
    without_pip = [] if importlib.util.find_spec("ensurepip") else ["--without-pip"]
    command = [sys.executable, "-m", "venv", "--clear", *without_pip, folder]
    subprocess.run(command, check=True, stdout=log, stderr=log)


def pip_of(folder: Path) -> list[str]:
    """Return the command that starts pip for the environment."""
    python = str(folder / "bin" / "python")
    if subprocess.run([python, "-c", "import pip"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
        return [python, "-m", "pip"]
    return [sys.executable, "-m", "pip", "--python", python]


def install(folder: Path, log: TextIO, progress: Progress, *arguments: str, packages: int = 1) -> None:
    """Run `pip install` in the environment, with a count of the packages that it has handled."""
    flags = ("--disable-pip-version-check", "--no-input", "--no-color", "--progress-bar", "off", "--no-deps")
    command = [*pip_of(folder), "install", *flags, *arguments]
    log.write(f"$ {' '.join(command)}\n")
    handled = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            log.write(line)
            if HANDLED.match(line):
                handled += 1
                progress.show(f"fetching {min(handled, packages)} of {packages} packages")
            elif line.startswith("Installing collected packages"):
                progress.show(f"installing {packages} packages")
    if pip.returncode:
        raise subprocess.CalledProcessError(pip.returncode, command)


def fill(options: argparse.Namespace, log: TextIO, progress: Progress) -> None:
    """Create the environment and install the packages of each file, then the project.

    The files name every package that is needed, so pip resolves nothing: older versions of it refuse a lock file once a
    newer release of one of its packages is out.
    """
    progress.show("creating the environment", stage=True)
    create(options.folder, log)
    for file in options.requirements:
        packages = len(PINNED.findall((ROOT / file).read_text(encoding="utf-8")))
        number = "1 package" if packages == 1 else f"{packages} packages"
        progress.show(f"installing {number} of {file}", stage=True)
        install(options.folder, log, progress, "--require-hashes", "-r", file, packages=packages)
    if not options.no_project:
        progress.show("installing Teamwright", stage=True)
        install(options.folder, log, progress, "--no-build-isolation", "--editable", ".")
    progress.show("ready", stage=True)


def end_of(log: Path) -> str:
    """Return the last lines of the log, without pip's noise."""
    lines = log.read_text(encoding="utf-8").splitlines()
    return "\n".join([line for line in lines if NOISE not in line][-SHOWN_ON_FAILURE:])


def main() -> int:
    """Set up the environment and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the environment is")
    parser.add_argument("requirements", nargs="+", help="hashed requirement files, complete with what they need")
    parser.add_argument("--no-project", action="store_true", help="leave this project out")
    options = parser.parse_args()
    log = ROOT / "build" / f"set-up{options.folder.name}.log"
    log.parent.mkdir(exist_ok=True)
    progress = Progress(f"setting up {options.folder}", sys.stdout)
    try:
        with log.open("w", encoding="utf-8", buffering=1) as opened:
            fill(options, opened, progress)
    except subprocess.CalledProcessError as error:
        progress.end()
        print(end_of(log), file=sys.stderr)
        rest = f"the lines above say why, and {log.relative_to(ROOT)} has the rest"
        print(f"setting up {str(options.folder)!r} failed: {rest}; run the command again", file=sys.stderr)
        return error.returncode or 1
    progress.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
