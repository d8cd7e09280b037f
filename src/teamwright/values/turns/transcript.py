"""Messages as text under headers, `# name:`, in which nobody can write a header but the one who composes the text.

A line in the text of a message that looks like a header gets a backslash before its `#`; one that has backslashes there
already gets one more, so that the quoting can be undone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Literal

from teamwright.values.turns.messages import Message

Quoting = Literal["all", "history", "none"]
"""Which texts of a prompt are quoted: all; the history alone, where the task holds a transcript that was quoted when it
was made; none, in runs that began before texts were quoted."""

LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""What `str.splitlines` breaks lines at; a reader may take any of them for the end of a line."""
MOST_NAME = 120
"""Characters of a line that are looked at for a name."""
ROLES = frozenset(("user", "system", "assistant", "human", "developer"))
"""Names that stand for somebody in every conversation."""

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


def under_name(name: str, text: str, speakers: Collection[str] = ()) -> str:
    """A text under the header of who said it, with lines in it quoted that look like the header of anybody else."""
    return f"# {header_name(name)}:\n{quoted(text, speakers)}"


def quoted(text: str, speakers: Collection[str] = ()) -> str:
    """The text with every line quoted that looks like a header.

    Such a line consists of one `#` and something that ends in a colon; or it begins with the name of a speaker behind
    up to six `#`. Other lines, Markdown headings and comments in code among them, stay as they are.
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
    """A name as it stands in a header: on one line, and without a mark that would end it."""
    plain = "".join(one if one.isprintable() and one not in _HASHES + _COLONS else " " for one in name)
    return folded(plain)[:MOST_NAME].rstrip() or "unnamed"


def transcript(messages: Iterable[Message], *, quote: bool = True) -> str:
    """All messages under their headers, with an empty line between two."""
    if not quote:
        return "\n\n".join(f"# {message.name}:\n{message.content}" for message in messages)
    said = list(messages)
    speakers = {message.name for message in said}
    return "\n\n".join(under_name(message.name, message.content, speakers) for message in said)


def folded(text: str) -> str:
    """A text on one line, for a place that has room for one only."""
    return " ".join(text.split())
