"""A server of ours in a process of its own, which is started again whenever a suite has killed it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

TOKENS = (
    "import sys, json; from teamwright.server.credentials import Tokens, tokens_file;"
    "t = Tokens(tokens_file()); print(json.dumps([t.create(f'k{i}', 'run') for i in range(int(sys.argv[1]))]))"
)


class RestartedServer:
    """Serves folders of teams from a data folder; `file` has its process id, and `kills` how often it was killed."""

    def __init__(self, data: Path, teams: Sequence[Path], tokens: int = 1) -> None:
        self.environment = {
            **os.environ,
            "TEAMWRIGHT_HOME": str(data),
            "TEAMWRIGHT_ALLOW_PRIVATE_WEBHOOK": "1",
        }
        self.file, self._teams = data / "server.pid", teams
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        command = [sys.executable, "-c", TOKENS, str(tokens)]
        found = subprocess.run(command, env=self.environment, check=True, stdout=subprocess.PIPE, text=True)
        self.tokens: list[str] = json.loads(found.stdout)
        self._stopping = threading.Event()
        self.kills = 0
        self._process = self._start()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def _start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "teamwright", "serve", *self._teams, "--port", str(self._port), "--json"]
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        self.file.write_text(str(process.pid))
        return process

    def _watch(self) -> None:
        while not self._stopping.is_set():
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            if not self._stopping.is_set():
                self.kills += 1
                self._process = self._start()

    def stop(self) -> None:
        """End the server."""
        self._stopping.set()
        self._process.terminate()
        self._thread.join()
