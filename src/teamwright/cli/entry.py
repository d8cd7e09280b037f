"""Where the program begins: Ctrl-C ends it without a traceback, also while it loads. Nothing heavy is imported here.

Warnings of libraries are hidden, since a server's reply can provoke them; those of the user's own code are shown.
"""

from __future__ import annotations

import os
import sys
import warnings

from teamwright.cli.terminal.interrupts import interrupts_end_at_once

LIBRARIES = r"(anthropic|genai_prices|google|httpcore2?|httpx2?|mcp|openai|pydantic|pydantic_ai|pydantic_graph)(\.|$)"


def main() -> int:
    """Load the command line and run one command; the exit code."""
    if not sys.warnoptions and not os.environ.get("TEAMWRIGHT_DEBUG"):
        warnings.filterwarnings("ignore", module=LIBRARIES)
    with interrupts_end_at_once():
        from teamwright.cli.main import main as run

        return run()


if __name__ == "__main__":
    sys.exit(main())
