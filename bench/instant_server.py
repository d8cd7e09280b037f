"""A chat server on loopback that answers at once: `python -m bench.instant_server` prints its port and serves.

It runs in its own process, so that the CPU time of the process that is measured has none of it. Replies are prepared
bytes: the whole answer as one JSON body, or as a stream of as many chunks as the name of the model says.
"""

import asyncio
import json
import re
from collections.abc import Callable, Sequence

ANSWER = "Wild yeast and bacteria raise the dough slowly and give the loaf its taste. " * 5
USAGE = {"prompt_tokens": 700, "completion_tokens": 90, "total_tokens": 790}
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
STREAM = re.compile(rb'"model": ?"chunks-(\d+)"')


def whole() -> bytes:
    """The answer as one body."""
    message = {"role": "assistant", "content": ANSWER, "refusal": None, "annotations": []}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return respond({**body, "usage": USAGE})


def respond(body: dict[str, object]) -> bytes:
    """Return the response with this body."""
    data = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)


def stream(chunks: int) -> bytes:
    """The answer in this many chunks."""
    size = -(-len(ANSWER) // chunks)
    deltas = [{"role": "assistant", "content": ""}] + [
        {"content": ANSWER[start : start + size]} for start in range(0, len(ANSWER), size)
    ]
    events = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    return respond_in_chunks([*events, _chunk([{"index": 0, "delta": {}, "finish_reason": "stop"}]), _chunk([], USAGE)])


def respond_in_chunks(events: Sequence[dict[str, object]]) -> bytes:
    """Return the response that streams these events."""
    body = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in events) + b"data: [DONE]\n\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def _chunk(choices: list[dict[str, object]], usage: dict[str, int] | None = None) -> dict[str, object]:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
    return {**chunk, "usage": usage}


def answer(body: bytes) -> bytes:
    """Answer a request with this body."""
    asked = STREAM.search(body) if b'"stream":true' in body or b'"stream": true' in body else None
    return stream(int(asked[1])) if asked else whole()


class Chat(asyncio.Protocol):
    """One connection. `answer` makes a response of the body of a request."""

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer, self._received = answer, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for the answers."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request as soon as it is whole."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self._received[:end])
            size = end + 4 + (int(length[1]) if length else 0)
            if len(self._received) < size:
                return
            body, self._received = self._received[end + 4 : size], self._received[size:]
            self._transport.write(self._answer(body))


async def main() -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(lambda: Chat(answer), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
