"""Pauses of Python's garbage collector, where its scans would find nothing and take much of the time."""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType


@contextmanager
def collection_paused() -> Generator[None]:
    """Disable the cyclic garbage collector in a block that allocates in bulk; its scans would double the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def import_uncollected(name: str) -> ModuleType:
    """Import a module without collecting garbage, which takes a tenth of the time: what an import creates stays.

    Afterwards all of it counts as old, else the next collection, of what is young, would look through it once more.
    """
    if name in sys.modules or not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        if not gc.get_freeze_count():  # else the program has frozen what it forks with
            gc.freeze()
            gc.unfreeze()  # what was frozen is now in the oldest generation
        gc.enable()
