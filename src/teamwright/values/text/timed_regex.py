"""Regular expressions that others wrote, searched within a time limit: a search that takes too long is an error.

The only place that imports `regex`, at the first use: `re` has neither time limits nor Unicode properties.
"""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from teamwright.errors import PatternTooSlow

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CHARACTERS = 10_000
"""The longest expression that is read."""
SECONDS = 1.0
"""CPU time that all searches of one question may take together; an ordinary search takes microseconds."""
LEAST_SECONDS = 0.001


def pattern_problem(pattern: str) -> str | None:
    """What keeps an expression from being searched for; asked before anything is searched."""
    if len(pattern) > MOST_CHARACTERS:
        return f"it has {len(pattern)} characters, and at most {MOST_CHARACTERS} are read"
    try:
        re.compile(pattern)
        _search_of(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    except _regex_error() as error:
        return str(error)
    return None


class PatternSearch:
    """The searches of one question, which share a time limit."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds

    def found(self, pattern: str, text: str) -> bool:
        """Whether the expression is found in the text; raises `PatternTooSlow` where that takes too long to say."""
        search, begun = _search_of(pattern), time.process_time()
        try:
            return search(text, timeout=max(self._left, LEAST_SECONDS)) is not None
        except TimeoutError as error:
            raise PatternTooSlow(pattern) from error
        finally:
            self._left -= time.process_time() - begun


def unicode_pattern(pattern: str) -> re.Pattern[str]:
    """Compile an expression of our own that names Unicode properties; the result has the interface of `re`."""
    import regex

    return cast("re.Pattern[str]", regex.compile(pattern, regex.VERSION1))


@lru_cache(maxsize=1024)
def _search_of(pattern: str) -> Callable[..., object]:
    import regex

    return cast("Any", regex).compile(pattern, regex.VERSION0).search


def _regex_error() -> type[Exception]:
    import regex

    return regex.error
