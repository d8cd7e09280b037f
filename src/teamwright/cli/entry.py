"""Where the program begins: whoever stops it while it still loads gets no traceback. Nothing heavy is imported here.

Warnings of libraries are hidden, since a server's reply can provoke them; those of the user's own code are shown.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings

INTERRUPTED = 130
LIBRARIES = r"(anthropic|genai_prices|google|httpcore2?|httpx2?|mcp|openai|pydantic|pydantic_ai|pydantic_graph)(\.|$)"


def main() -> int:
    """Load the command line and run one command; the exit code."""
    if not sys.warnoptions and not os.environ.get("TEAMWRIGHT_DEBUG"):
        warnings.filterwarnings("ignore", module=LIBRARIES)
    usual = signal.default_int_handler
    listens = signal.getsignal(signal.SIGINT) is usual  # else the caller wants it ignored
    if listens:
        signal.signal(signal.SIGINT, _leave)
    from teamwright.cli.main import main as run

    try:
        if listens:
            signal.signal(signal.SIGINT, usual)
        return run()
    except KeyboardInterrupt:
        return INTERRUPTED


def _leave(*_: object) -> None:
    """End at once: an interrupt that is raised inside of an import may come out as any error."""
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
