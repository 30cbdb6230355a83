"""A server on loopback that answers as registries and repositories of skills do, and nothing else."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Reply = bytes | dict[str, Any] | list[Any] | Callable[[BaseHTTPRequestHandler], None]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has had enough."""


@dataclass
class HubServer:
    """What is served, by path with query, and what was asked."""

    url: str
    routes: dict[str, Reply] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@contextmanager
def hub_server(routes: Mapping[str, Reply] | None = None) -> Iterator[HubServer]:
    """Serve until the block ends. A path that is not listed is 404."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            hub.asked.append(self.path)
            hub.headers.append({name.lower(): value for name, value in self.headers.items()})
            reply = hub.routes.get(self.path)
            if reply is None:
                answer(self, b"{}", status=404)
            elif callable(reply):
                reply(self)
            else:
                answer(self, reply if isinstance(reply, bytes) else json.dumps(reply).encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub = HubServer(f"http://127.0.0.1:{server.server_address[1]}", dict(routes or {}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answer(
    handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole answer; `headers` replace the usual ones."""
    handler.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | dict(headers or {})).items():
        handler.send_header(name, value)
    handler.end_headers()
    try:
        handler.wfile.write(body)
    except OSError:  # the other side has had enough
        handler.close_connection = True


def skill_md(name: str, body: str = "Do it.", head: str = "") -> bytes:
    """A SKILL.md."""
    return f"---\nname: {name}\ndescription: About {name}.\n{head}---\n{body}\n".encode()


def zipped(files: Mapping[str, bytes], mode: int = 0o100644) -> bytes:
    """A zip with these files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return stream.getvalue()


def tarred(files: Mapping[str, bytes], kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    """A .tar.gz with these files; `kind` and `target` make links or devices of them."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            member.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def digest(content: bytes) -> str:
    """As an index writes it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def github(
    repository: str, files: Mapping[str, bytes], modes: Mapping[str, str] | None = None
) -> dict[str, Reply]:
    """The answers of GitHub's interface for one repository with one commit on `main`."""
    commit = hashlib.sha1(repository.encode(), usedforsecurity=False).hexdigest()
    base = f"/repos/{repository}"
    routes: dict[str, Reply] = {
        base: {"full_name": repository, "default_branch": "main", "private": False},
        f"{base}/commits/main": {"sha": commit, "commit": {"message": "One"}},
    }
    rows: list[dict[str, Any]] = [{"path": "skills", "mode": "040000", "type": "tree", "sha": "0" * 40}]
    for path, content in files.items():
        sha = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        mode = (modes or {}).get(path, "100644")
        kind = "commit" if mode == "160000" else "blob"
        rows.append({"path": path, "mode": mode, "type": kind, "sha": sha, "size": len(content)})
        text = base64.encodebytes(content).decode()
        routes[f"{base}/git/blobs/{sha}"] = {
            "sha": sha,
            "size": len(content),
            "content": text,
            "encoding": "base64",
        }
    routes[f"{base}/git/trees/{commit}?recursive=1"] = {"sha": commit, "tree": rows, "truncated": False}
    return routes


def git_repository(
    folder: Path, files: Mapping[str, bytes], *, links: Mapping[str, str] | None = None
) -> str:
    """A real repository with one commit; its commit."""
    for path, content in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for path, target in (links or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).symlink_to(target)
    if not (folder / ".git").exists():
        run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "-m", "One")
    return run_git(folder, "rev-parse", "HEAD")


def run_git(folder: Path, *arguments: str) -> str:
    """The real program, without the settings of this machine."""
    environ = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=Ana", "-c", "user.email=ana@example.org", "-c", "protocol.file.allow=always")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
