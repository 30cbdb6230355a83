"""Sources that lie, stall, lead elsewhere or hand out what would break out of its folder."""

from __future__ import annotations

import gzip
import io
import socket
import stat
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler

import pytest

from agent.knowledge.skills.hub.bundle import (
    STRICT,
    WIDE,
    HubError,
    HubRefusedError,
    HubUnreachableError,
    Limits,
    SkillFile,
    checked,
    safe_path,
    tree_digest,
    unpack,
)
from agent.knowledge.skills.hub.http import HubHttp
from tests.support.skill_hub import answer, hub_server, skill_md, tarred, zipped

SKILL = {"SKILL.md": skill_md("x")}
QUICK = HubHttp(connect=2, read=0.3, whole=0.6)


def hang(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.settimeout(5)
    handler.rfile.read(1)


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(200):
        try:
            handler.wfile.write(b"x")
        except OSError:
            break
        threading.Event().wait(0.05)
    handler.close_connection = True


def sends(body: bytes, **headers: str) -> object:
    return lambda handler: answer(
        handler, body, 200, {key.replace("_", "-"): value for key, value in headers.items()}
    )


def close(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nhalf")
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


@pytest.mark.sample(11)
@pytest.mark.parametrize(
    ("reply", "says", "kind"),
    [
        (sends(b"x" * 2_000), "sends more than 1,000 bytes", HubRefusedError),
        (sends(b"x", Content_Length="99999999999"), "sends more than 1,000 bytes", HubRefusedError),
        (sends(b"x" * 5_000, Content_Length="10"), "", None),
        (sends(gzip.compress(b"x" * 90), Content_Encoding="gzip"), "packed its answer", HubRefusedError),
        (hang, "did not answer in time", HubUnreachableError),
        (drip, "takes too long", HubUnreachableError),
        (close, "cannot be reached", HubUnreachableError),
        (
            lambda handler: answer(handler, b"", 429, {"Retry-After": "34"}),
            "in 34 seconds",
            HubUnreachableError,
        ),
        (lambda handler: answer(handler, b"", 503), "busy or broken", HubUnreachableError),
        (lambda handler: answer(handler, b"", 403), "refuses access", HubError),
        (lambda handler: answer(handler, b"", 204), "status 204", HubError),
        (lambda handler: answer(handler, b"", 302, {"Location": "/x"}), "in a circle", HubRefusedError),
        (
            lambda handler: answer(handler, b"", 302, {"Location": "file:///etc/passwd"}),
            "not an http",
            HubRefusedError,
        ),
        (lambda handler: handler.wfile.write(b"rubbish\r\n\r\n"), "cannot be reached", HubUnreachableError),
    ],
)
def test_an_answer_that_lies_stalls_or_leads_elsewhere_is_one_sentence(
    reply: object, says: str, kind: type[HubError] | None
) -> None:
    with hub_server() as hub:
        hub.routes["/x"] = reply  # type: ignore[assignment]
        if kind is None:
            assert QUICK.get(f"{hub.url}/x", limit=1_000).content == b"x" * 10
            return
        with pytest.raises(kind, match=says) as caught:
            QUICK.get(f"{hub.url}/x", limit=1_000)
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:9/x", "https://127.0.0.1:{port}/x", "http://localhost:{port}/x"]
)
def test_a_redirect_to_another_origin_is_not_followed(target: str) -> None:
    with hub_server({"/x": b"secret"}) as other, hub_server() as hub:
        place = target.format(port=other.url.rpartition(":")[2])
        hub.routes["/x"] = lambda handler: answer(handler, b"", 302, {"Location": place})
        with pytest.raises(HubRefusedError, match="which is not followed"):
            QUICK.get(f"{hub.url}/x")
        assert other.asked == []


def test_a_redirect_within_an_origin_is_followed() -> None:
    with hub_server({"/y": b"there"}) as hub:
        hub.routes["/x"] = lambda handler: answer(handler, b"", 301, {"Location": "/y"})
        assert QUICK.get(f"{hub.url}/x").content == b"there"


def test_nobody_at_an_address_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(HubUnreachableError, match="cannot be reached"):
            QUICK.get(f"http://127.0.0.1:{taken.getsockname()[1]}/x")


def raw_zip(name: str, content: bytes = b"x", *, encrypted: bool = False, method: int = 0) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr("SKILL.md", skill_md("x"))
        archive.writestr(name, content)
    data = bytearray(stream.getvalue())
    if encrypted:
        at = data.rindex(b"PK\x01\x02")
        data[at + 8] |= 1
    return bytes(data)


def bomb(size: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        member = tarfile.TarInfo("SKILL.md")
        member.size = size
        archive.addfile(member, io.BytesIO(bytes(size)))
    return stream.getvalue()


ARCHIVES = {
    "a path above": raw_zip("../../evil"),
    "an absolute path": raw_zip("/etc/cron.d/evil"),
    "a drive": raw_zip("C:/evil"),
    "backslashes": raw_zip("..\\evil"),
    "a path with a control byte": raw_zip("a\x1b[2Jb"),
    "a path with a turned direction": raw_zip("txt\u202egpj.exe"),
    "a folder of git": raw_zip(".git/hooks/post-checkout"),
    "an empty part": raw_zip("a//b"),
    "a very long path": raw_zip("a/" * 300 + "b"),
    "two files of one name": raw_zip("skill.MD"),
    "a file below a file": raw_zip("SKILL.md/x"),
    "a zip inside": raw_zip("more.md", zipped(SKILL)),
    "a packed file inside": raw_zip("more.md", gzip.compress(b"x" * 900)),
    "a program": raw_zip("run", b"\x7fELF" + bytes(90)),
    "a binary": raw_zip("x.md", b"a\0b"),
    "an encrypted member": raw_zip("x.md", encrypted=True),
    "a rare packing": raw_zip("x.md", b"x" * 900, method=zipfile.ZIP_LZMA),
    "a link in a zip": zipped({"SKILL.md": b"/etc/passwd"}, mode=stat.S_IFLNK | 0o777),
    "a zip bomb": zipped({"SKILL.md": bytes(60_000_000)}),
    "many bombs": zipped({f"{n}.md": b"x" * 250_000 for n in range(5)} | SKILL),
    "many files": zipped({f"{n}.md": b"" for n in range(60)} | SKILL),
    "many folders": zipped({f"{n}/": b"" for n in range(5_001)} | SKILL),
    "a torn zip": zipped(SKILL)[:-30],
    "no skill": zipped({"README.md": b"x"}),
    "two wrappers": zipped({"a/SKILL.md": skill_md("a"), "b/SKILL.md": skill_md("b")}),
    "a link in a tar": tarred({"SKILL.md": b""}, tarfile.SYMTYPE, "/etc/passwd"),
    "a hard link in a tar": tarred({"SKILL.md": b""}, tarfile.LNKTYPE, "/etc/passwd"),
    "a device in a tar": tarred({"SKILL.md": b""}, tarfile.CHRTYPE),
    "a pipe in a tar": tarred({"SKILL.md": b""}, tarfile.FIFOTYPE),
    "a path above in a tar": tarred(SKILL | {"../../evil": b""}),
    "a path that looks like one above": tarred(SKILL | {"\u2024\u2024/evil": b""}),
    "a slash that looks like one": tarred(SKILL | {"a\uff0fevil": b""}),
    "an absolute path in a tar": tarred(SKILL | {"/evil": b""}),
    "a tar bomb": bomb(60_000_000),
    "a torn tar": tarred(SKILL)[:-12],
    "no archive": b"<html>",
    "nothing": b"",
}


@pytest.mark.parametrize("what", ARCHIVES)
def test_an_archive_that_would_do_harm_is_refused(what: str) -> None:
    with pytest.raises(HubRefusedError) as caught:
        checked(unpack(ARCHIVES[what]))
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_a_plain_archive_is_read_with_and_without_a_folder_around_it() -> None:
    files = SKILL | {"scripts/run.sh": b"#!/bin/sh\n"}
    wrapped = {f"./top/{name}": content for name, content in files.items()}
    for data in (
        zipped(files),
        tarred(files),
        tarred(wrapped),
        zipped({k[2:]: v for k, v in wrapped.items()}),
    ):
        assert [file.path for file in checked(unpack(data))] == ["SKILL.md", "scripts/run.sh"]


def test_pictures_pass_only_where_the_limits_are_wide() -> None:
    files = (SkillFile("SKILL.md", skill_md("x")), SkillFile("logo.png", b"\x89PNG\0"))
    assert len(checked(files, WIDE)) == 2
    with pytest.raises(HubRefusedError, match="is not text"):
        checked(files, STRICT)
    with pytest.raises(HubRefusedError, match="compiled program"):
        checked((*files, SkillFile("run", b"\x7fELF\0")), WIDE)


def test_sizes_are_judged_at_the_byte() -> None:
    skill = SkillFile("SKILL.md", b"x" * 10)
    assert checked((skill,), Limits(1, 10, 10))
    for limits in (Limits(0, 10, 10), Limits(1, 9, 10), Limits(1, 10, 9)):
        with pytest.raises(HubRefusedError):
            checked((skill,), limits)


@pytest.mark.parametrize(
    "path", ["SKILL.md", "a/b/c.md", "ünïcode/文.md", "with space.md", ".hidden", "a..b"]
)
def test_ordinary_paths_are_taken(path: str) -> None:
    assert safe_path(path) == path


def test_the_digest_of_a_tree_is_that_of_the_published_example() -> None:
    hashes = {
        "scripts/run.sh": "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf",
        "SKILL.md": "90f8ec5669cd34183b9b0fdf8b94f5efb4c3672876330f4aa76088c2b4ad17be",
    }
    assert tree_digest(hashes) == "34f7a8c484e9991f3e71a309f31332d6335efc01f544105c4185a7c4ab12eb1e"
