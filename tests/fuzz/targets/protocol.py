"""The protocol of fuzz targets, and the checks that they share."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import ClassVar, Protocol

from pydantic import JsonValue

from tests.fuzz.case import Outcome, Violation

CORPUS = Path(__file__).parents[1] / "corpus"
LIBRARY_WORDS = re.compile(
    r"json-or-python|function-(?:before|after|wrap|plain)\[|Input should|Field required|For further information"
    r"|validation errors? for|pydantic|msgspec|<class '|object at 0x|Traceback \(most recent"
    r"|unexpected \w*(?:Error|Exception)|NoneType|sqlite3\.[A-Z]|yaml\.[a-z]+\.[A-Z]|jinja2"
)
"""Words of libraries, which no message for a user may hold."""
MOST_OUTPUT = 8 << 20


class Target(Protocol):
    """Draws inputs and runs the product on them.

    `run` says what the product made of the input, and raises `Violation` where it broke a promise. Any other exception
    is a finding as well. A target is made once per process, with a folder of its own to write to.
    """

    name: ClassVar[str]
    weight: ClassVar[float]
    """The share of the time of a campaign, beside the other targets' weights."""
    seconds: ClassVar[float]
    """How long one case may take, in wall time."""
    load: ClassVar[float]
    """The share of a core that it keeps busy; what mostly waits for a network runs beside others."""
    heavy: ClassVar[str]
    """A module that takes seconds to import: it is imported once, before children are forked."""

    def __init__(self, folder: Path) -> None: ...

    def corpus(self) -> list[JsonValue]:
        """Inputs that are run as they are, before any other is drawn."""
        ...

    def draw(self, random: Random) -> JsonValue:
        """An input that is generated or mutated; it depends on nothing but `random`."""
        ...

    def run(self, payload: JsonValue) -> Outcome: ...

    def close(self) -> None: ...


def check_words(message: str, given: str = "") -> None:
    """Refuse a message for a user that holds words of a library which are not of the input itself."""
    if not message.strip():
        raise Violation("silent", "it was refused without a word")
    for found in LIBRARY_WORDS.finditer(message):
        if found[0] not in given:
            near = message[max(0, found.start() - 200) : found.end() + 300]
            raise Violation("wording", f"a message has the words {found[0]!r}", near)


def check_size(*texts: str) -> None:
    """Refuse output that is out of all proportion."""
    if (size := sum(map(len, texts))) > MOST_OUTPUT:
        raise Violation("output", "it wrote too much", size)
