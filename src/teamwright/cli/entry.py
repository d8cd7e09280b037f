"""Where the program begins: whoever stops it while it still loads gets no traceback. Nothing heavy is imported here."""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130


def main() -> int:
    """Load the command line and run one command; the exit code."""
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
