"""The program's entry point: Ctrl-C ends it without a traceback, even while it loads. It imports nothing heavy.

Warnings of libraries are hidden because a server's reply can provoke them; those of the user's code are shown.
"""

from __future__ import annotations

import os
import sys
import warnings

from teamwright.cli.terminal.interrupts import exit_on_interrupt

LIBRARIES = r"(anthropic|genai_prices|google|httpcore2?|httpx2?|mcp|openai|pydantic|pydantic_ai|pydantic_graph)(\.|$)"


def main() -> int:
    """Load the command line, run one command and return its exit code."""
    if not sys.warnoptions and not os.environ.get("TEAMWRIGHT_DEBUG"):
        warnings.filterwarnings("ignore", module=LIBRARIES)
    with exit_on_interrupt():
        from teamwright.cli.main import main as run

        return run()


if __name__ == "__main__":
    sys.exit(main())
