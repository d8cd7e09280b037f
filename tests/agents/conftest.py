"""A coding agent that obeys its prompt, and the repository that its team works on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.agents import AcpAgent, AcpCommand
from tests.kit.coders import repository

__all__ = ["coder", "repository"]

PLAIN = Path(__file__).with_name("plain_agent.py")
COMMAND = shlex.join([sys.executable, "-I", "-S", str(PLAIN)])


@pytest.fixture
def coder(tmp_path: Path) -> Callable[..., AcpAgent]:
    """Make a coding agent that counts its prompts in `count` and leaves process ids in `pids`."""

    def make(
        name: str = "coder", command: str = COMMAND, env: dict[str, str] | None = None, **more: object
    ) -> AcpAgent:
        own = {one: more.pop(one) for one in ("idempotent",) if one in more}
        variables = {"COUNT": str(tmp_path / "count"), "PIDS": str(tmp_path / "pids"), **(env or {})}
        return AcpAgent(name, AcpCommand(command=command, env=variables, **own), **more)  # pyright: ignore[reportArgumentType]

    return make
