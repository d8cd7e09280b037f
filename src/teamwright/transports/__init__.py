"""Transports, which carry wake-ups and live text of runs: the contract, and the transport of one process.

Names load on first use, so that importing the package is cheap.
"""

from typing import TYPE_CHECKING

from teamwright._lazy import lazy_names

if TYPE_CHECKING:
    from teamwright.transports.in_process import InProcessTransport
    from teamwright.transports.protocol import LiveSignal, SignalHandler, Traffic, Transport

__all__ = ["InProcessTransport", "LiveSignal", "SignalHandler", "Traffic", "Transport"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "teamwright.transports.in_process": "InProcessTransport",
        "teamwright.transports.protocol": "LiveSignal SignalHandler Traffic Transport",
    },
)
