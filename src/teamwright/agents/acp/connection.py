"""Messages of JSON-RPC, one on each line, from and to a coding agent. What it prints is read as an attacker's.

Nothing reads ahead: an agent whose messages are not waited for is held up by its own output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.agents.acp.process import AgentProcess
from teamwright.errors import AgentError
from teamwright.values.text.display import cut, size_text

Json = dict[str, JsonValue]
Id = int | str | None

LONGEST_LINE = 16 << 20
"""How long a message may be, in bytes."""
MOST_STRAY_LINES = 100
"""How many lines may be no messages: some programs greet before they speak the protocol."""
MOST_UNREAD = 64 << 20
"""How much of what is sent to an agent may wait until it reads it, in bytes."""
LONGEST_QUOTE = 200
METHOD_NOT_FOUND, INVALID_PARAMS, AUTH_REQUIRED = -32601, -32602, -32000


class ProtocolViolation(AgentError):
    """What an agent sends is no message of the protocol."""

    unknown_cost = True


class AgentEnded(AgentError):
    """The process of an agent has ended before it has answered."""

    kind, unknown_cost = "server", True


class RequestRefused(AgentError):
    """An agent has answered a request with an error."""

    unknown_cost = True

    def __init__(self, label: str, method: str, error: Mapping[str, JsonValue]) -> None:
        self.code = error.get("code")
        said = cut(str(error.get("message") or "an error without words"), LONGEST_QUOTE)
        details = error.get("data")
        if details is not None:
            said += f" ({cut(details if isinstance(details, str) else to_json(details).decode(), LONGEST_QUOTE)})"
        super().__init__(f"The coding agent {label!r} refused {method!r}: {said}")


class Incoming(NamedTuple):
    """A message of an agent: a request or a notification has a method, and a response has none."""

    id: Id
    method: str
    params: Json
    result: JsonValue = None
    error: Json | None = None

    @property
    def is_request(self) -> bool:
        return bool(self.method) and self.id is not None


class Connection:
    """The two ways of one agent."""

    def __init__(self, label: str, process: AgentProcess) -> None:
        self.label, self.process = label, process
        self._buffer = bytearray()
        self._searched = self._strays = self._number = 0
        self._stray = b""
        """The last line that was no message."""
        self.has_spoken = False
        """Whether it has sent any message of the protocol."""

    def request(self, method: str, params: Json) -> int:
        """Send a request; returns its id."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        return self._number

    def notify(self, method: str, params: Json) -> None:
        self._send({"method": method, "params": params})

    def answer(self, asked: Incoming, result: JsonValue) -> None:
        self._send({"id": asked.id, "result": result})

    def refuse(self, asked: Incoming, code: int, text: str) -> None:
        self._send({"id": asked.id, "error": {"code": code, "message": text}})

    def _send(self, message: Json) -> None:
        if self.process.unread > MOST_UNREAD:
            raise ProtocolViolation(f"The coding agent {self.label!r} asks on and on, and reads no answers.")
        self.process.write(to_json({"jsonrpc": "2.0", **message}) + b"\n")

    async def receive(self) -> Incoming:
        """Return the next message; raises `AgentEnded`, or `ProtocolViolation` for a program that sends none."""
        while True:
            line = await self._line()
            if (message := read_message(line)) is not None:
                self.has_spoken = True
                return message
            if line.strip():
                self._strays, self._stray = self._strays + 1, line[:LONGEST_QUOTE]
            if self._strays > MOST_STRAY_LINES:
                raise self._no_protocol(line)

    async def result(self, number: int, method: str) -> JsonValue:
        """Return the result of a request that is made before a session; everything else meanwhile is refused."""
        while True:
            message = await self.receive()
            if message.is_request:
                self.refuse(message, METHOD_NOT_FOUND, f"{message.method!r} is not offered here")
            elif not message.method and message.id == number:
                return self.checked(message, method)

    def checked(self, response: Incoming, method: str) -> JsonValue:
        """Return the result of a response; raises `RequestRefused`."""
        if response.error is not None:
            raise RequestRefused(self.label, method, response.error)
        return response.result

    async def _line(self) -> bytes:
        while (at := self._buffer.find(b"\n", self._searched)) < 0:
            self._searched = len(self._buffer)
            if self._searched > LONGEST_LINE:
                start = bytes(self._buffer[:LONGEST_QUOTE])
                raise self._no_protocol(start, f" on a line of more than {size_text(LONGEST_LINE)}")
            if not (chunk := await self.process.read()):
                raise self._ended()
            self._buffer += chunk
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        self._searched = 0
        return line

    def _no_protocol(self, line: bytes, where: str = "") -> ProtocolViolation:
        said = cut(line.decode("utf-8", "replace").strip(), LONGEST_QUOTE)
        return ProtocolViolation(
            f"The coding agent {self.label!r} does not speak the Agent Client Protocol: it printed {said!r}{where}."
        )

    def _ended(self) -> AgentEnded:
        words = self.process.last_words or (bytes(self._buffer) or self._stray).decode("utf-8", "replace").strip()
        why = f" ({cut(words, LONGEST_QUOTE)})" if words else ""
        when = "before it had answered" if self.has_spoken else "without a word of the Agent Client Protocol"
        return AgentEnded(f"The coding agent {self.label!r} ended {when}{why}.")


def read_message(line: bytes) -> Incoming | None:
    """Return the message on a line; `None` if it is none."""
    try:
        found: object = from_json(line, allow_inf_nan=False)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    fields = cast("dict[str, object]", found)
    number, method, params = fields.get("id"), fields.get("method", ""), fields.get("params")
    if not isinstance(number, int | str | None) or isinstance(number, bool) or not isinstance(method, str):
        return None
    if not method and number is None:
        return None
    error = fields.get("error")
    return Incoming(
        number,
        method,
        cast("Json", params) if isinstance(params, dict) else {},
        cast("JsonValue", fields.get("result")),
        cast("Json", error) if isinstance(error, dict) else {"message": str(error)} if error else None,
    )


def text_at(data: JsonValue, *path: str) -> str:
    """Return the text at a path in JSON data; an empty one where there is none."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, str) else ""


def part_at(data: JsonValue, *path: str) -> Json:
    """Return the object at a path in JSON data; an empty one where there is none."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def items_at(data: JsonValue, *path: str) -> list[Json]:
    """Return the objects of the list at a path in JSON data."""
    *outer, last = path
    found = part_at(data, *outer).get(last)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
