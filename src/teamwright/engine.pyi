from teamwright.agents.clients.client_pool import Models as Models
from teamwright.runtime.handle import Handle as Handle
from teamwright.runtime.recorded.rebuilt_prompts import rebuild_prompt as rebuild_prompt
from teamwright.runtime.recorded.runs import Runs as Runs
from teamwright.runtime.sync import resume_sync as resume_sync
from teamwright.runtime.transport import (
    InProcessTransport as InProcessTransport,
    LiveSignal as LiveSignal,
    SignalHandler as SignalHandler,
    Traffic as Traffic,
    Transport as Transport,
)
from teamwright.values.turns.results import (
    RunSummary as RunSummary,
)
