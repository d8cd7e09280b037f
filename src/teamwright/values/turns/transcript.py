"""Renders messages as text under headers, `# name:`, so that no message can forge a header.

A line of a message that looks like a header gets a backslash before its `#`; a line that has backslashes there already
gets one more, so that the quoting is reversible.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache

from teamwright.values.turns.messages import Message

LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The line breaks of `str.splitlines`, any of which a reader may take for the end of a line."""
MOST_NAME = 120
"""The most characters of a line that are searched for a name."""
ROLES = frozenset(("user", "system", "assistant", "human", "developer"))
"""Names that every reader takes for a speaker."""

_BLANKS = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_UNSEEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_INVISIBLE = (
    "".join(map(chr, (*range(0x2000, 0x2010), *range(0x2060, 0x2065))))
    + " \t\u00a0\u1680\u202f\u205f\u3000\u00ad\ufeff"
)
_HASHES, _COLONS = "#\uff03", ":\uff1a"
# Every repetition is bounded or ends at the end of its line, so that a search takes linear time.
_LOOKALIKE = re.compile(
    rf"(?:^|(?<=[{LINE_BREAKS}]))"
    rf"([{_UNSEEN}]{{0,16}}+(?:[{_BLANKS}][{_UNSEEN}]{{0,16}}+){{0,3}}+)"
    rf"(?=\\*+([{_HASHES}]{{1,6}}+)([^{LINE_BREAKS}{_COLONS}]{{0,{MOST_NAME}}}+)[{_COLONS}]"
    rf"([^{LINE_BREAKS}]*+))"
)


def with_header(name: str, text: str, speakers: Collection[str] = ()) -> str:
    """Return a text under its author's header, with lines quoted that look like a header."""
    return f"# {header_name(name)}:\n{quote_headers(text, speakers)}"


def quote_headers(text: str, speakers: Collection[str] = ()) -> str:
    """Quote every line that looks like a header.

    Such a line consists of one `#` and text that ends in a colon, or begins with up to six `#` and the name of a
    speaker. Other lines, such as Markdown headings and comments in code, stay as they are.
    """
    if not any(mark in text for mark in _HASHES):
        return text
    known = ROLES.union(map(str.casefold, speakers))

    def quote(found: re.Match[str]) -> str:
        indent, hashes, name, rest = found.groups()
        bare = not (rest := rest.strip(_INVISIBLE)) or rest[-1] in _COLONS
        words = name.strip().strip("*_`").casefold().split()
        spoken = bool(words) and (words[0] == "tool" or (len(words) == 1 and words[0] in known))
        return f"{indent}\\" if spoken or (len(hashes) == 1 and bare) else indent

    return _LOOKALIKE.sub(quote, text)


@lru_cache(maxsize=1024)
def header_name(name: str) -> str:
    """Return a name as it is written in a header: on one line, without characters that would end the header."""
    plain = "".join(one if one.isprintable() and one not in _HASHES + _COLONS else " " for one in name)
    return single_line(plain)[:MOST_NAME].rstrip() or "unnamed"


def transcript(messages: Iterable[Message]) -> str:
    """Return all messages under their headers, separated by empty lines."""
    said = list(messages)
    speakers = {message.name for message in said}
    return "\n\n".join(with_header(message.name, message.content, speakers) for message in said)


def single_line(text: str) -> str:
    """Collapse all whitespace of a text, including line breaks, to single blanks."""
    return " ".join(text.split())
