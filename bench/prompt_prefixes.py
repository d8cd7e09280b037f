"""How much of the prompts of a round robin a provider's cache can hold: what begins like the member's prompt before.

Four members speak five times each about a document in the task. `task last` has the task after the conversation, as
other frameworks do, `order of time` is the order of our prompts. A token is four characters.
"""

from itertools import takewhile

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart

from bench.workload import texts
from teamwright.agents.model.conversation import ModelConversation
from teamwright.values.turns.messages import History, Message, with_header
from teamwright.values.turns.turn import Turn

MEMBERS, ROUNDS = ("ann", "bob", "cy", "dee"), 5
TASK = "\n".join(texts(16))
INSTRUCTIONS = texts(4)
CHARACTERS_PER_TOKEN = 4

ORDERS = ("task last", "order of time")


def cacheable(order: str) -> tuple[int, int]:
    """Return the tokens of all prompts, and of those how many begin like the prompt of the member's turn before."""
    said: list[Message] = []
    before: dict[str, list[str]] = {}
    whole = shared = 0
    for number, reply in enumerate(texts(len(MEMBERS) * ROUNDS)):
        place = number % len(MEMBERS)
        name = MEMBERS[place]
        prompt = [INSTRUCTIONS[place], *_prompt(order, name, said)]
        pairs = zip(prompt, before.get(name, []), strict=False)
        shared += sum(len(one) for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        whole += sum(map(len, prompt))
        before[name] = prompt
        said.append(Message(name=name, content=reply))
    return whole // CHARACTERS_PER_TOKEN, shared // CHARACTERS_PER_TOKEN


def share(order: str) -> float:
    """Return the cacheable share of the prompts in percent."""
    whole, shared = cacheable(order)
    return 100 * shared / whole


def _prompt(order: str, name: str, said: list[Message]) -> list[str]:
    turn = Turn(TASK, history=History.of(said), since=0 if said else None)
    if order == "task last":
        messages = [*_conversation(name, said), ModelRequest(parts=[UserPromptPart(TASK)])]
    else:
        messages = ModelConversation.of_turn(turn, name).messages
    return [_text(message) for message in messages]


def _conversation(name: str, said: list[Message]) -> list[ModelMessage]:
    return [
        ModelResponse(parts=[TextPart(one.content)])
        if one.name == name
        else ModelRequest(parts=[UserPromptPart(with_header(one.name, one.content, MEMBERS))])
        for one in said
    ]


def _text(message: ModelMessage) -> str:
    role = "assistant: " if isinstance(message, ModelResponse) else "user: "
    return role + "".join(str(part.content) for part in message.parts if isinstance(part, UserPromptPart | TextPart))
