"""Runs the steps of `make check` side by side, and shows what each found as soon as it has ended.

Types take most of the time, so they are checked first, and everything else meanwhile. A failed step stops no other.
"""

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

BIN = Path(sys.executable).parent


class Step(NamedTuple):
    """One step: its command, and what to do if it fails, where the command does not say it."""

    name: str
    command: Sequence[str]
    hint: str = ""


STEPS = (
    Step("types", (sys.executable, "tools/type_check.py")),
    Step("format", (f"{BIN}/ruff", "format", "--check", "--quiet"), "some files are not formatted; run  make format"),
    Step("lint", (f"{BIN}/ruff", "check", "--quiet")),
    Step("layers", (f"{BIN}/lint-imports", "--no-logo")),
    Step("tree", (sys.executable, "tools/tree.py")),
    Step("words", (sys.executable, "tools/words.py")),
    Step("page", (sys.executable, "tools/page.py", "types")),
)


def run(steps: Sequence[Step]) -> list[str]:
    """Run the steps, the first beside the others, print their output, and return the names of those that failed."""
    failed: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        running = {pool.submit(_output, step): step for step in steps}
        for done in as_completed(running):
            step, (output, code) = running[done], done.result()
            for said in (output.strip(), step.hint if code else ""):
                if said:
                    print(said, flush=True)
            if code:
                failed.append(step.name)
    return failed


def _output(step: Step) -> tuple[str, int]:
    """Run one step; returns its output and exit code."""
    done = subprocess.run(step.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.stdout, done.returncode


if __name__ == "__main__":
    if wrong := run(STEPS):
        sys.exit(f"make check failed: {', '.join(wrong)}")
