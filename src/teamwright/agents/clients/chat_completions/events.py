"""Server-sent events: divides a body that arrives in pieces into the data of its events.

The work is linear in the size of the body, however small its pieces are.
"""

from __future__ import annotations

from collections.abc import Iterator

BEFORE = b" \t\r\n\xef\xbb\xbf"
"""What may come before an event or a document: blanks, by which servers keep a connection, and a byte order mark."""
DOCUMENTS = (b"{", b"[", b"<")
"""The first bytes of JSON and of HTML. No event begins so."""
FIELDS = (b"data:", b"error:", b"event:")


class EventReader:
    """Collects the pieces of a body, which is a stream of events or one document.

    Some servers answer a request for a stream with a document, and not all name its type.
    """

    def __init__(self) -> None:
        self.is_document = False
        self._has_begun = self._ends_in_cr = False
        self._rest = bytearray()
        self._lines: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Add a piece; yield the data of each event that it completes."""
        if not self._has_begun:
            piece = self._begin(piece)
        if self.is_document:
            self._rest += piece
            return
        if self._ends_in_cr:
            piece = piece.removeprefix(b"\n")  # the other half of a line end
        self._ends_in_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in piece:
            self._rest += piece
            return
        if self._rest:
            piece = bytes(self._rest) + piece
            self._rest.clear()
        *lines, rest = piece.split(b"\n")
        self._rest += rest
        for line in lines:
            if line.startswith(FIELDS):
                self._lines.append(line)
            elif not line and self._lines:
                yield self._event()

    def _begin(self, piece: bytes) -> bytes:
        piece = piece.lstrip(BEFORE)
        self._has_begun, self.is_document = bool(piece), piece.startswith(DOCUMENTS)
        return piece

    def end(self) -> bytes:
        """Return the document, or the data of an event whose blank line a server left out."""
        rest = bytes(self._rest)
        if self.is_document:
            return rest
        if rest.startswith(FIELDS):
            self._lines.append(rest)
        return self._event()

    def _event(self) -> bytes:
        """Return the data of an event. Servers mark an error by the name of the event, llama.cpp by that of a line."""
        lines, self._lines = self._lines, []
        if len(lines) == 1 and lines[0].startswith(b"data:"):
            return lines[0][5:].strip()
        data = b"\n".join(line.partition(b":")[2].strip() for line in lines if not line.startswith(b"event:"))
        is_error = any(line.startswith(b"error:") or line.replace(b" ", b"") == b"event:error" for line in lines)
        return b'{"error":' + data + b"}" if data and is_error else data
