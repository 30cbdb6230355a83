"""A disk without room, really: this exists where anybody may mount a file system of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
SCRIPT = Path(__file__).with_name("full_disk.py")
MOUNT = ["unshare", "--map-root-user", "--mount"]


def mounts() -> bool:
    """Whether a file system can be mounted in namespaces of one's own."""
    if shutil.which("unshare") is None:
        return False
    tried = [*MOUNT, "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


if mounts():

    def test_without_room_everything_is_as_before_or_as_after_and_goes_on_once_there_is_some(
        tmp_path: Path,
    ) -> None:
        done = subprocess.run(
            [*MOUNT, sys.executable, "-B", SCRIPT, ROOT, tmp_path],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert {name: each["wrong"] for name, each in found.items()} == {"both": [], "store": [], "tree": []}
        # The disk was full enough to fail, and free enough to succeed.
        assert {"no snapshot", "snapshot", "no restore", "restore", "no collection", "collection"} <= {
            *found["both"]["seen"]
        }
        assert {"no snapshot", "no restore", "no collection"} <= {*found["store"]["seen"]}
        assert {"part of a restore", "restore"} <= {*found["tree"]["seen"]}

    def test_a_disk_that_is_nearly_full_is_named_with_the_room_that_a_copy_leaves(tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"x" * 100_000)
        program = (
            "import sys; from pathlib import Path\n"
            "from agent.workspace.isolated_copies.copy_folders import too_much\n"
            "too_much(Path(sys.argv[1]), Path('/mnt/copies/one'), 1_000_000)"
        )
        inside = 'mount -t tmpfs -o size=3M tmpfs /mnt && mkdir -p /mnt/copies/one && exec "$@"'
        done = subprocess.run(
            [*MOUNT, "sh", "-c", inside, "sh", sys.executable, "-c", program, tmp_path],
            capture_output=True,
            text=True,
            check=False,
        )
        told = "the disk of /mnt/copies has 3.1 MB, and a copy leaves 500 MB free; free some room,"
        assert told in done.stderr
