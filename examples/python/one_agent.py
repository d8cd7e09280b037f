"""One agent with a tool and a typed answer.

It prints:

    Take an umbrella to Bergen
    2 model requests, 1 tool call
"""

from pydantic import BaseModel

from teamwright import Rule, ScriptedAgent, run_sync
from teamwright.agents import ToolRule


class Advice(BaseModel):
    city: str
    umbrella: bool


def forecast(city: str) -> str:
    """Return tomorrow's weather in a city."""
    return {"Bergen": "rain", "Rome": "sun"}[city]


# With a provider:  ModelAgent("guide", model="openai:gpt-5-mini", tools=[forecast], output_schema=Advice)
guide = ScriptedAgent(
    "guide",
    [
        Rule(tool=ToolRule(name="forecast", args={"city": "Bergen"}), times=1),
        Rule(match="tool forecast:\nrain", reply='{"city": "Bergen", "umbrella": true}'),
    ],
    tools=[forecast],
    output_schema=Advice.model_json_schema(),
)

if __name__ == "__main__":
    result = run_sync(guide, "Do I need an umbrella in Bergen tomorrow?", journal="memory")
    advice = result.data_as(Advice)
    print("Take an umbrella" if advice.umbrella else "No umbrella", "to", advice.city)
    print(result.usage.requests, "model requests,", result.usage.tool_calls, "tool call")
