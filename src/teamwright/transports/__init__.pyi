from teamwright.transports.in_process import InProcessTransport as InProcessTransport
from teamwright.transports.protocol import (
    LiveSignal as LiveSignal,
    SignalHandler as SignalHandler,
    Traffic as Traffic,
    Transport as Transport,
)
