"""A team of the crash matrix whose task has an image, and whose model gets another one from a tool."""

from __future__ import annotations

from teamwright.agents.attachments import Attachment
from teamwright.agents.model.agent import ModelAgent
from teamwright.teams.team import Team
from teamwright.testing.model_server import CallTools, ChatAnswer, ChatRequest, Say, ToolCall
from teamwright.values.specs.models import ServerModel
from tests.laws.crash.http_members import http_member, post

SEES = "sees"
"""The model that sees images."""
PNG = b"\x89PNG\r\n\x1a\n"
PHOTO = Attachment(PNG + b"photo", "photo.png")


def image_team(url: str) -> Team:
    """A model agent that sees the image of the task, lets a tool draw another, and sees both."""

    async def draw(word: str, *, idempotency_key: str) -> Attachment:
        """Draw a word."""
        drawn = await post(url, f"tool-{word}", word, idempotency_key)
        return Attachment(PNG + drawn.encode(), f"{word}.png")

    model = ServerModel(url=f"{url.removesuffix('/call')}/v1", name=SEES)
    agent = ModelAgent("modeller", model=model, tools=[draw])
    return Team("with-tools", members=[http_member(url, "a"), agent, http_member(url, "z")])


def draw_and_say(request: ChatRequest) -> ChatAnswer:
    """Call the tool twice at once, then answer with a hash of all that was received, images included."""
    if not any(one.tool_calls for one in request.messages):
        return CallTools(calls=tuple(ToolCall(name="draw", args={"word": word}) for word in ("one", "two")))
    images = str(request.body).count("data:image/png;base64,")
    return Say(text=f"the model saw {images} images in {request.digest}")
