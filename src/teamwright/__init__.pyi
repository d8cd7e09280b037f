from teamwright.agents.agent import (
    Agent as Agent,
    Context as Context,
    Policy as Policy,
)
from teamwright.agents.functions.agent import FunctionAgent as FunctionAgent
from teamwright.agents.model.agent import ModelAgent as ModelAgent
from teamwright.agents.scripted import (
    Rule as Rule,
    ScriptedAgent as ScriptedAgent,
)
from teamwright.errors import TeamwrightError as TeamwrightError
from teamwright.runtime.engine import Engine as Engine
from teamwright.runtime.sync import run_sync as run_sync
from teamwright.strategies.protocol import Strategy as Strategy
from teamwright.teams.team import Team as Team
from teamwright.teams.team_loader import load_team as load_team
from teamwright.values.events.event import Event as Event
from teamwright.values.limits import Limits as Limits
from teamwright.values.people import (
    Answer as Answer,
    Confirm as Confirm,
)
from teamwright.values.retries import RetryPolicy as RetryPolicy
from teamwright.values.specs.plan import (
    Plan as Plan,
    Step as Step,
)
from teamwright.values.turns.messages import Message as Message
from teamwright.values.turns.results import RunResult as RunResult
from teamwright.values.turns.turn import (
    Failure as Failure,
    Reply as Reply,
    Turn as Turn,
)
