"""The form of signals between processes: JSON, with the name of who sent it. Names of channels show nothing of a run.

What arrives was written by anyone who may write to the server: it is data, bounded in size, and dropped if it is
invalid.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from teamwright.transports.protocol import LiveSignal

LARGEST_MESSAGE: Final = 64 * 1024
"""Bytes of one message; a larger one is neither sent nor read."""
PREFIX: Final = "teamwright:"


class WireMessage(Struct, frozen=True):
    """A signal and its sender, a random name for each transport."""

    sender: Annotated[str, Meta(max_length=64)]
    signal: LiveSignal


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(WireMessage)


def encode_message(sender: str, signal: LiveSignal) -> bytes | None:
    """Return a message as JSON; `None` if it is too large."""
    data = _ENCODER.encode(WireMessage(sender, signal))
    return data if len(data) <= LARGEST_MESSAGE else None


def decode_message(data: object) -> WireMessage | None:
    """Return what arrived as a message; `None` if it is none."""
    if not isinstance(data, bytes) or len(data) > LARGEST_MESSAGE:
        return None
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def wire_channel(namespace: str, channel: str) -> str:
    """Return the name of a channel on the server: a digest, which has the same length for every name."""
    name = blake2b(f"{namespace}\0{channel}".encode("utf-8", "surrogatepass"), digest_size=16)
    return PREFIX + name.hexdigest()
