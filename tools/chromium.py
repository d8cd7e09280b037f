"""Finds the chromium that the tests of the page use, and installs Debian's where it is missing and may be installed.

It imports the standard library alone. Without a browser those tests are skipped, and the run ends with a line on it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "build" / "set-up-chromium.log"
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Best first: the one without windows needs half the time of the others."""
PACKAGES = ("chromium-headless-shell", "chromium")
MISSING = "no chromium was found; install Debian's package chromium-headless-shell, or set CHROMIUM to a program"


def path() -> str | None:
    """Return the program of a chromium, if there is one."""
    names = (os.environ.get("CHROMIUM", ""), *PROGRAMS)
    return next((found for name in names if name and (found := shutil.which(name))), None)


def may_install() -> bool:
    """Whether this process may install Debian's packages."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install() -> bool:
    """Install Debian's chromium, and return whether one is there now; what apt prints goes to a log."""
    LOG.parent.mkdir(exist_ok=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with LOG.open("w", encoding="utf-8") as log:

        def apt(*arguments: str) -> bool:
            command = ["apt-get", "--quiet", *arguments]
            return subprocess.run(command, stdout=log, stderr=log, env=environment, check=False).returncode == 0

        apt("update")
        return any(apt("install", "--yes", "--no-install-recommends", package) for package in PACKAGES)


def main() -> int:
    """Install a browser where that is possible; a missing one fails nothing."""
    if path() is not None:
        return 0
    if may_install():
        print("installing chromium for the tests of the page (once)", flush=True)
        if install() and path() is not None:
            return 0
        print(f"chromium can't be installed here ({LOG.relative_to(ROOT)} says why)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
