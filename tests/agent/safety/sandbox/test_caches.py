"""Caches of package managers inside the boundary: private to a workspace, never the person's own."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest

from agent.safety.sandbox.caches import WorkspaceCaches, sweep
from tests.agent.safety.sandbox.cell import Cell

DEPENDENCY = """
mkdir dep; echo '{"name":"dep","version":"1.0.0"}' > dep/package.json; cd dep; npm pack -s; cd ..
echo '{"name":"top","version":"1.0.0"}' > package.json
"""


@pytest.fixture
def cached(cell: Cell) -> Cell:
    (cell.user / ".npmrc").write_text("//registry.example.org/:_authToken=npm_SECRETWORD\n")
    (own := cell.user / ".cargo" / "registry" / "cache" / "index").mkdir(parents=True)
    (own / "seen-1.0.0.crate").write_text("crate of the person")
    (cell.user / ".cargo" / "config.toml").write_text("# theirs\n")
    (cell.user / ".cargo" / "credentials.toml").write_text("SECRETWORD")
    (cell.user / ".cache" / "models").mkdir(parents=True)
    (cell.user / ".cache" / "models" / "weights").write_text("installed")
    (cell.user / ".local/share/uv/python/3.13").mkdir(parents=True)
    (cell.user / ".local/share/keyrings").mkdir()
    (cell.user / ".local/share/keyrings/login.keyring").write_text("SECRETWORD")
    (cell.workspace / "Cargo.toml").touch()
    prepare(cell)
    return cell


def prepare(cell: Cell) -> WorkspaceCaches:
    caches = WorkspaceCaches(cell.user / ".hermes/cache/sandbox", cell.workspace, os.environ, cell.user)
    cell.boundary._caches = caches
    cell.boundary.prepare()
    return caches


@pytest.mark.thorough
@pytest.mark.skipif(not shutil.which("npm"), reason="npm is not installed")
def test_npm_installs_a_local_package(cached: Cell):
    ended = cached.shell(
        f"{DEPENDENCY} npm install --no-audit --no-fund ./dep/dep-1.0.0.tgz && ls node_modules"
    )
    assert ended.code == 0 and ended.output.split()[-1] == "dep", ended.output
    assert not (cached.user / ".npm").exists()


@pytest.mark.sample(2)
def test_the_persons_caches_are_seen_and_stay_as_they_are(cached: Cell):
    ended = cached.shell(
        'cat "$CARGO_HOME/registry/cache/index/seen-1.0.0.crate" "$XDG_CACHE_HOME/models/weights"; '
        'cat "$CARGO_HOME/config.toml"; echo evil > "$CARGO_HOME/registry/cache/index/seen-1.0.0.crate"; '
        'echo evil > "$XDG_CACHE_HOME/models/weights"; echo evil >> "$CARGO_HOME/config.toml"; '
        'cat "$CARGO_HOME/credentials.toml" ~/.cargo/credentials.toml ~/.npmrc; '
        'cat "$XDG_DATA_HOME/keyrings/login.keyring"; mkdir "$XDG_DATA_HOME/uv/python/3.14"; '
        'ls "$XDG_DATA_HOME/uv/python"; '
        'mkdir -p "$XDG_CACHE_HOME/new/tool" && echo mine > "$CARGO_HOME/registry/cache/index/new.crate"'
    )
    assert ended.code == 0, ended.output
    assert "crate of the person" in ended.output and "installed" in ended.output
    assert "SECRETWORD" not in ended.output and ended.output.endswith("3.13\n3.14\n")
    assert os.listdir(cached.user / ".local/share/uv/python") == ["3.13"]
    assert (cached.user / ".cache" / "models" / "weights").read_text() == "installed"
    assert (cached.user / ".cargo" / "config.toml").read_text() == "# theirs\n"
    assert os.listdir(cached.user / ".cargo" / "registry" / "cache" / "index") == ["seen-1.0.0.crate"]


@pytest.mark.sample(1)
def test_what_is_planted_inside_leads_nobody_outside(cached: Cell):
    """Links that a command leaves in its caches are not followed when the next session fills them."""
    ended = cached.shell(
        'rm -r "$CARGO_HOME/registry"; ln -s ~/.ssh "$CARGO_HOME/registry"; rm -rf "$XDG_CACHE_HOME"; '
        f'ln -s {cached.outside} "$XDG_CACHE_HOME"'
    )
    assert ended.code == 0, ended.output
    before = sorted(map(str, cached.outside.rglob("*"))), sorted(map(str, (cached.user / ".ssh").rglob("*")))
    prepare(cached)
    assert before == (
        sorted(map(str, cached.outside.rglob("*"))),
        sorted(map(str, (cached.user / ".ssh").rglob("*"))),
    )
    assert "PRIVATE KEY" not in cached.shell('cat "$CARGO_HOME"/registry/id_ed25519').output


@pytest.mark.sample(1)
def test_a_project_that_begins_to_need_a_cache_gets_it_before_the_next_command(cell: Cell):
    (own := cell.user / ".cargo" / "registry" / "cache" / "index").mkdir(parents=True)
    (own / "seen-1.0.0.crate").write_text("crate")
    caches = prepare(cell)
    look = 'cat "$CARGO_HOME"/registry/cache/index/*.crate'
    assert cell.shell(look).code != 0 and caches.is_ready
    (cell.workspace / "Cargo.toml").touch()
    assert not cell.boundary.is_ready
    cell.boundary.prepare()
    assert cell.shell(look).output == "crate"
    (own / "later-1.0.0.crate").write_text("+")
    cell.boundary.recheck()
    cell.boundary.prepare()
    assert sorted(cell.shell(look).output) == sorted("crate+")


def test_a_cache_that_the_person_put_where_it_can_be_written_stays(tmp_path: Path):
    inside, elsewhere = tmp_path / "project" / "npm", tmp_path / "elsewhere"
    environ = {"npm_config_cache": str(inside), "GOMODCACHE": str(elsewhere), "MAVEN_OPTS": "-Xmx1g"}
    caches = WorkspaceCaches(
        tmp_path / "c",
        tmp_path / "project",
        environ,
        tmp_path,
        lambda path: path.is_relative_to(inside.parent),
    )
    led = caches.variables(proxied=True)
    assert "npm_config_cache" not in led
    assert led["GOMODCACHE"].startswith(str(tmp_path / "c"))
    assert (
        led["MAVEN_OPTS"].startswith("-Xmx1g -Dmaven.repo.local=") and "proxyPort=3128" in led["MAVEN_OPTS"]
    )
    assert "WORKON_HOME" not in led and led["HATCH_CONFIG"].endswith("/nothing")
    (tmp_path / ".config/hatch").mkdir(parents=True)
    (tmp_path / ".config/hatch/config.toml").touch()
    assert "HATCH_CONFIG" not in caches.variables(proxied=True)


def test_old_and_large_caches_go_unless_somebody_uses_them(tmp_path: Path):
    def made(name: str, size: int, used: float) -> WorkspaceCaches:
        caches = WorkspaceCaches(tmp_path / "c", tmp_path / name, {}, tmp_path)
        caches.prepare()
        (caches.folder / "npm" / "data").write_bytes(b"x" * size)
        os.utime(f"{caches.folder}.lock", (used, used))
        return caches

    kinds = {name: made(name, size, used) for name, size, used in (
        ("old", 10, 100.0), ("used", 10, 100.0), ("large", 500, 900.0), ("new", 20, 950.0)
    )}  # fmt: skip
    for name in ("old", "large", "new"):
        kinds[name].close()
    swept = sweep(tmp_path / "c", max_bytes=100, max_age=500.0, now=1_000.0)
    assert (swept.removed, swept.freed, swept.size) == (2, 510, 30)
    assert {name: each.folder.exists() for name, each in kinds.items()} == {
        "old": False, "used": True, "large": False, "new": True
    }  # fmt: skip
    assert stat.S_IMODE(kinds["new"].folder.stat().st_mode) == 0o700
    assert sweep(tmp_path / "nothing", max_bytes=1, max_age=1.0).size == 0
