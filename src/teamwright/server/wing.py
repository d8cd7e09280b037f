"""The wing of the server: runs over HTTP and sockets, and the page; teams in editors."""

from teamwright.wings import Wing

WING = Wing(
    name="server",
    libraries=("fastapi", "starlette", "uvicorn", "websockets"),
    commands={
        "serve": "teamwright.server.commands:app",
    },
    first_day={"serve": "the page: watch, answer and steer runs in a browser"},
    hooks={"export_page": "teamwright.server.page.export:export_html"},
)
