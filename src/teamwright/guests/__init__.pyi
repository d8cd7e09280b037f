from teamwright.guests.guest import (
    AgentFrameworkGuest as AgentFrameworkGuest,
    CrewAIGuest as CrewAIGuest,
    Guest as Guest,
    LangGraphGuest as LangGraphGuest,
    OpenAIAgentsGuest as OpenAIAgentsGuest,
    PydanticAIGuest as PydanticAIGuest,
    chat_client as chat_client,
    chat_model as chat_model,
)
from teamwright.guests.turn import recorded as recorded
