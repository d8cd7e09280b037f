"""Transports, which carry wake-ups and live text of runs: in one process, or between processes over Redis.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.transports.in_process import InProcessTransport
    from teamwright.transports.protocol import LiveSignal, SignalHandler, Traffic, Transport
    from teamwright.transports.redis import RedisTransport

__all__ = ["InProcessTransport", "LiveSignal", "RedisTransport", "SignalHandler", "Traffic", "Transport"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.transports.in_process": "InProcessTransport",
        "teamwright.transports.protocol": "LiveSignal SignalHandler Traffic Transport",
        "teamwright.transports.redis": "RedisTransport",
    },
)
