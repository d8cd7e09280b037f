"""Does jobs of the server in a process of its own: `python -m teamwright.server.job_process FOLDER…`.

It reads one request per line and answers each with a line, both JSON. It ends with its server, which also ends it where
a request takes too long or its client has left. What loaded code prints goes nowhere.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from pydantic import JsonValue

from teamwright.errors import TeamwrightError
from teamwright.server.catalogue import Catalogue
from teamwright.server.refusals import RefusedRequest, refusal_of

Options = dict[str, Any]
Job = Callable[[Catalogue, Options], JsonValue]
PARENT_SECONDS = 1.0
"""How often a process looks whether its server is still there."""
NICENESS = 3
"""The server comes first, but a busy machine must not starve the jobs."""


def answer(catalogue: Catalogue, line: str) -> dict[str, JsonValue]:
    """Return the result of a request, or why it is refused."""
    request = json.loads(line)
    try:
        job = cast("Job", resolve_name(request["job"]))
        return {"result": job(catalogue, request["options"])}
    except RefusedRequest as refusal:
        return {"refused": [refusal.status, refusal.code, str(refusal)]}
    except TeamwrightError as error:
        refusal = refusal_of(error)
        return {"refused": [refusal.status, refusal.code, str(refusal)]}


def main() -> None:
    """Answer requests until there are no more."""
    with suppress(OSError):
        os.nice(NICENESS)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    catalogue = Catalogue([Path(one) for one in sys.argv[1:]])
    for line in sys.stdin:
        answers.write(json.dumps(answer(catalogue, line)) + "\n")
        answers.flush()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main()
