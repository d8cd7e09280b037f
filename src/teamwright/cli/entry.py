"""The program's entry point: Ctrl-C ends it without a traceback, even while it loads. It imports nothing heavy.

Warnings of libraries are hidden because a server's reply can provoke them; those of the user's code are shown.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from teamwright.cli.terminal.interrupts import exit_on_interrupt

if TYPE_CHECKING:
    from teamwright.wings import ServerOption

LIBRARIES = r"(anthropic|genai_prices|google|httpcore2?|httpx2?|mcp|openai|pydantic|pydantic_ai|pydantic_graph)(\.|$)"


def hide_passwords() -> None:
    """Start the program again without the passwords in its arguments: every user can read the list of processes.

    They move to the environment, which only this user can read. Other programs are not started twice.
    """
    given = sys.argv[1:]
    kept, moved = take_passwords(given)
    start = len(sys.orig_argv) - len(given)
    if moved and os.name == "posix" and sys.orig_argv[start:] == given:
        os.execve(sys.executable, [*sys.orig_argv[:start], *kept], {**os.environ, **moved})


def server_options() -> dict[str, ServerOption]:
    """Return the options that name servers, that of the journal and those of wings."""
    from teamwright.wings import ServerOption, find_wings

    journal = ServerOption(
        "TEAMWRIGHT_JOURNAL", "The journal: a Postgres URL, or a file. Goes before or after the command."
    )
    otlp = ServerOption(
        "OTEL_EXPORTER_OTLP_ENDPOINT", "A receiver of telemetry: the runs as traces. Goes before or after the command."
    )
    of_wings = {option: server for wing in find_wings() for option, server in wing.servers.items()}
    return {"--journal": journal, "--otlp": otlp} | of_wings


def take_passwords(given: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the arguments without addresses that contain a password, and these as environment variables."""
    kept, moved = list(given), dict[str, str]()
    servers = server_options()
    if any(one.startswith(tuple(servers)) for one in given):
        from teamwright.values.text.secrets import has_password

        for option, server in servers.items():
            without = list(kept)
            if (value := take_option(without, option)) is not None and has_password(value):
                kept, moved[server.variable] = without, value
    return kept, moved


def take_option(given: list[str], name: str) -> str | None:
    """Remove an option and its value from the arguments before `--`, and return the value."""
    end = given.index("--") if "--" in given else len(given)
    for index, one in enumerate(given[:end]):
        if one.startswith(f"{name}="):
            del given[index]
            return one.removeprefix(f"{name}=")
        if one == name and index + 1 < end:
            del given[index]
            return given.pop(index)
    return None


def main() -> int:
    """Load the command line, run one command and return its exit code."""
    if not sys.warnoptions and not os.environ.get("TEAMWRIGHT_DEBUG"):
        warnings.filterwarnings("ignore", module=LIBRARIES)
    with exit_on_interrupt():
        hide_passwords()
        from teamwright.cli.main import main as run

        return run()


if __name__ == "__main__":
    sys.exit(main())
