"""Searches for untrusted regular expressions within a time limit; a timeout is an error, never a match.

The only module that imports `regex`, at the first use: `re` has neither timeouts nor Unicode properties.
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
"""The longest pattern that is accepted."""
SECONDS = 1.0
"""The CPU time of all searches of one turn together; an ordinary search takes microseconds."""
LEAST_SECONDS = 0.001


def pattern_problem(pattern: str) -> str | None:
    """Return why a pattern is invalid, or None; called before any search."""
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
    """The searches of one turn, which share a time limit."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._left = seconds

    def found(self, pattern: str, text: str) -> bool:
        """Return whether the pattern matches in the text; raise `PatternTooSlow` on a timeout."""
        search, begun = _search_of(pattern), time.process_time()
        try:
            return search(text, timeout=max(self._left, LEAST_SECONDS)) is not None
        except TimeoutError as error:
            raise PatternTooSlow(pattern) from error
        finally:
            self._left -= time.process_time() - begun


def unicode_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a trusted pattern with Unicode properties; the result has the interface of `re`."""
    import regex

    return cast("re.Pattern[str]", regex.compile(pattern, regex.VERSION1))


@lru_cache(maxsize=1024)
def _search_of(pattern: str) -> Callable[..., object]:
    import regex

    return cast("Any", regex).compile(pattern, regex.VERSION0).search


def _regex_error() -> type[Exception]:
    import regex

    return regex.error
