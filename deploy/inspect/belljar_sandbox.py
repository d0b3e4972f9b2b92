"""A sandbox for inspect_ai whose commands run in sessions of a belljar sidecar.

Import this module in a task, and use sandbox="belljar". BELLJAR_HOST is the sidecar's
address (unix:///PATH, http://HOST:PORT or https://HOST:PORT), and BELLJAR_TOKEN its token.
Each sample has a session of its own. Commands never run as root.
"""

import base64
import contextlib
import http.client
import json
import os
import posixpath
import shlex
import socket
import uuid
from urllib.parse import quote, urlsplit

import anyio.to_thread
from inspect_ai.util import ExecResult, OutputLimitExceededError, SandboxEnvironment, SandboxUnavailableError, sandboxenv
from inspect_ai.util import SandboxEnvironmentLimits as Limits

WORKDIR = "/work"  # of the profile
PIECE = 8 << 20  # bytes of stdin in one request

# What the shell says of a path, before its file is read or written: the exit status is an
# errno, and for a file that can be read the output is its size.
READABLE = 'test -e "$1" || exit 2; test -d "$1" && exit 21; test -r "$1" || exit 13; wc -c <"$1"'
WRITABLE = 'mkdir -p -- "$(dirname -- "$1")" || exit 13; test -d "$1" && exit 21; test ! -e "$1" || test -w "$1" || exit 13'


class Problem(Exception):
    def __init__(self, status: int, body: bytes) -> None:
        told = json.loads(body) if body.startswith(b"{") else {"code": "", "detail": f"HTTP status {status}"}
        self.code = told["code"]
        super().__init__(told["detail"] + (f" ({told['hint']})" if "hint" in told else ""))


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self.path)


def connection() -> http.client.HTTPConnection:
    at = urlsplit(os.environ.get("BELLJAR_HOST", "unix:///run/belljar/belljar.sock"))
    if at.scheme == "unix":
        return UnixConnection(at.path)
    return (http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection)(at.netloc)


def call(method: str, path: str, body: bytes | dict | None = None) -> bytes:
    headers = {"Content-Type": "application/octet-stream"}
    if isinstance(body, dict):
        body, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    if token := os.environ.get("BELLJAR_TOKEN"):
        headers["Authorization"] = "Bearer " + token
    c = connection()
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may answer before it has read all
            c.request(method, path, body, headers)
        answer = c.getresponse()
        text = answer.read()  # raises IncompleteRead for a body that was cut
    except OSError as e:
        raise SandboxUnavailableError(f"the belljar sidecar does not answer: {e}") from e
    finally:
        c.close()
    if answer.status >= 300:
        raise Problem(answer.status, text)
    return text


@sandboxenv(name="belljar")
class BelljarSandbox(SandboxEnvironment):
    def __init__(self, session: str) -> None:
        super().__init__()
        self.session = session

    @classmethod
    async def sample_init(cls, task_name, config, metadata):
        session = "inspect-" + uuid.uuid4().hex
        await anyio.to_thread.run_sync(call, "POST", "/v1/sessions", {"name": session})
        return {"default": cls(session)}

    @classmethod
    async def sample_cleanup(cls, task_name, config, environments, interrupted):
        for environment in environments.values():
            await anyio.to_thread.run_sync(call, "DELETE", "/v1/sessions/" + environment.session)

    async def exec(self, cmd, input=None, cwd=None, env=None, user=None, timeout=None, timeout_retry=True, concurrency=True):
        most = Limits.MAX_EXEC_OUTPUT_SIZE
        request = {"command": shlex.join(cmd), "session": self.session, "parallel": True, "on_timeout": "command", "idle_timeout_seconds": 0}
        request |= {"stdin_open": input is not None, "env": env or {}, "limits": {"output_bytes": 2 * most, "result_bytes": 2 * most}}
        request |= {k: v for k, v in {"dir": cwd, "user": user, "timeout_seconds": timeout}.items() if v is not None}
        data = input.encode() if isinstance(input, str) else input
        try:
            r = await anyio.to_thread.run_sync(self._run, request, data)
        except Problem as e:
            if e.code != "invalid_command":
                raise SandboxUnavailableError(str(e)) from e
            r = {"status": "error", "exit_code": 126, "stdout": "", "stderr": str(e), "cause": e.code}
        out = {name: decoded(r, name) for name in ("stdout", "stderr")}
        if r["status"] == "timeout":
            raise TimeoutError(r["message"])
        if r["status"] == "fatal" and r["cause"] != "invalid_command":
            raise SandboxUnavailableError(r["message"])
        for text in out.values():
            if r.get("truncated") or len(text) > most:
                raise OutputLimitExceededError(Limits.MAX_EXEC_OUTPUT_SIZE_STR, text[:most])
        if r["exit_code"] < 0:  # it did not run, or a limit ended it
            out["stderr"] += r["message"]
        if r["exit_code"] == 126 and "permission denied" in out["stderr"].lower():
            raise PermissionError(out["stderr"])
        return ExecResult(r["exit_code"] == 0, r["exit_code"], out["stdout"], out["stderr"])

    def _run(self, request: dict, data: bytes | None) -> dict:
        if data is None:
            return json.loads(call("POST", "/v1/executions", request))
        at = "/v1/executions/" + json.loads(call("POST", "/v1/executions?wait=0", request))["id"]
        try:
            for i in range(0, max(len(data), 1), PIECE):
                call("POST", f"{at}/stdin?offset={i}&eof={'true' if i + PIECE >= len(data) else 'false'}", data[i : i + PIECE])
        except Problem as e:
            if e.code != "conflict":  # else it ended without reading all of it
                raise
        while (answer := json.loads(call("GET", at + "?wait=60")))["state"] != "ended":
            pass
        return answer["result"]

    async def _check(self, file: str, script: str) -> str:
        r = await self.exec(["sh", "-c", script, "sh", file])
        if r.returncode in (2, 13, 21):
            raise OSError(r.returncode, os.strerror(r.returncode), file)  # FileNotFoundError, PermissionError, IsADirectoryError
        if not r.success:
            raise OSError(f"{file}: {r.stderr}")
        return r.stdout

    def _url(self, file: str) -> str | None:
        path = posixpath.normpath(posixpath.join(WORKDIR, file))
        if not path.startswith(WORKDIR + "/"):
            return None  # the files API is for the workspace
        return f"/v1/sessions/{self.session}/files/" + quote(path, safe="").replace(".", "%2E")

    async def write_file(self, file, contents):
        data = contents.encode() if isinstance(contents, str) else contents
        await self._check(file, WRITABLE)
        if url := self._url(file):
            await anyio.to_thread.run_sync(call, "PUT", url, data)
        elif not (r := await self.exec(["sh", "-c", 'cat >"$1"', "sh", file], input=data)).success:
            raise OSError(f"{file}: {r.stderr}")

    async def read_file(self, file, text=True):
        size = int(await self._check(file, READABLE))
        if size > Limits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(Limits.MAX_READ_FILE_SIZE_STR, None)
        if url := self._url(file):
            data = await anyio.to_thread.run_sync(call, "GET", url)
        else:
            data = base64.b64decode((await self.exec(["base64", file])).stdout)
        return data.decode() if text else data


def decoded(result: dict, name: str) -> str:
    if result.get(name + "_encoding") == "base64":
        return base64.b64decode(result[name]).decode(errors="replace")
    return result[name]
