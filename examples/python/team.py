"""A team: two members check a text concurrently, and a third combines their notes.

It prints:

    completed
    counter: 5 words; critic: Leave out 'very'.
"""

from teamwright import FunctionAgent, Rule, ScriptedAgent, Team, Turn, run_sync


def count_words(text: str) -> str:
    """Count the words; a plain function can be a member."""
    return f"{len(text.split())} words"


def combine(turn: Turn) -> str:
    """Join the replies of the previous steps."""
    return "; ".join(f"{message.name}: {message.content}" for message in turn.history)


# With a provider:  ModelAgent("critic", model="openai:gpt-5-mini", instructions="Criticise the text in one sentence.")
critic = ScriptedAgent("critic", [Rule(match="(?i)very", reply="Leave out 'very'.")])

review = Team(
    "review",
    members=[FunctionAgent("counter", count_words), critic, FunctionAgent("editor", combine)],
    strategy="dag",
    options={"steps": [{"id": "counter"}, {"id": "critic"}, {"id": "editor", "needs": ["counter", "critic"]}]},
)

if __name__ == "__main__":
    result = run_sync(review, "The sea was very calm.", journal="memory")
    print(result.status)
    print(result.output)
