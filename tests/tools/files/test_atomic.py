"""Old or new content, nothing in between, and nothing left behind."""

import errno
import os
import resource
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.files.conftest import names
from tools.kit.files import NotAFileError, make_folders, open_file, open_folder, read_bytes, write_atomically

ROOT = Path(__file__).parents[3]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_follows_the_umask(work: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(work / "a", b"x")
    finally:
        os.umask(before)
    assert (work / "a").read_bytes() == b"x"
    assert mode(work / "a") == 0o640
    assert names(work) == ["a"]


@pytest.mark.parametrize("bits", [0o600, 0o755, 0o666, 0o4755])
def test_an_existing_file_keeps_its_mode(work: Path, bits: int) -> None:
    (work / "a").write_bytes(b"old")
    (work / "a").chmod(bits)
    write_atomically(work / "a", b"new")
    assert (work / "a").read_bytes() == b"new"
    assert mode(work / "a") == bits


def test_a_given_mode_wins(work: Path) -> None:
    write_atomically(work / "a", b"x", mode=0o600)
    assert mode(work / "a") == 0o600


def test_extended_attributes_are_kept(work: Path) -> None:
    (work / "a").write_bytes(b"old")
    os.setxattr(work / "a", "user.note", b"mine")
    write_atomically(work / "a", b"new")
    assert os.getxattr(work / "a", "user.note") == b"mine"


@pytest.mark.skipif(not shutil.which("bwrap"), reason="nothing here mounts files")
def test_a_file_that_is_mounted_by_itself_is_written_in_place(work: Path, tmp_path: Path) -> None:
    (work / "a").write_bytes(b"below")
    outside = tmp_path / "outside"
    outside.write_bytes(b"a longer old text")
    outside.chmod(0o640)
    code = f"from tools.kit.files import *; write_atomically(Path({str(work / 'a')!r}), b'new')"
    mounted = ["bwrap", "--dev-bind", "/", "/", "--bind", outside, work / "a"]
    subprocess.run([*mounted, sys.executable, "-c", code], cwd=ROOT, check=True)
    assert (outside.read_bytes(), mode(outside)) == (b"new", 0o640)
    assert (work / "a").read_bytes() == b"below" and names(work) == ["a"]


def test_a_link_leads_to_its_target_and_stays_a_link(work: Path) -> None:
    (work / "target").write_bytes(b"old")
    (work / "link").symlink_to("target")
    write_atomically(work / "link", b"new")
    assert (work / "link").is_symlink()
    assert (work / "target").read_bytes() == b"new"


def test_without_following_a_link_is_an_error(work: Path) -> None:
    (work / "target").write_bytes(b"old")
    (work / "link").symlink_to("target")
    with pytest.raises(OSError) as caught:
        write_atomically(work / "link", b"new", follow_links=False)
    assert caught.value.errno == errno.ELOOP
    assert (work / "target").read_bytes() == b"old"
    assert names(work) == ["link", "target"]


def test_a_folder_swapped_for_a_link_is_not_entered(work: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (work / "folder").symlink_to(tmp_path / "other")
    with pytest.raises(OSError):
        write_atomically(work / "folder" / "a", b"x", follow_links=False)
    assert names(tmp_path / "other") == []


def test_a_folder_or_fifo_is_not_replaced(work: Path) -> None:
    (work / "folder").mkdir()
    os.mkfifo(work / "fifo")
    for name in ("folder", "fifo"):
        with pytest.raises(NotAFileError):
            write_atomically(work / name, b"x")
    assert names(work) == ["fifo", "folder"]


def test_a_full_disk_leaves_the_old_file_and_no_other(work: Path) -> None:
    (work / "a").write_bytes(b"old")
    # A limit on the size of files fails in the middle of a write as a full disk does.
    script = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from tools.kit.files import write_atomically\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (1000, {resource.RLIM_INFINITY}))\n"
        "try: write_atomically(Path(sys.argv[1]), b'x' * 100_000)\n"
        "except OSError as error: print(error.errno)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(work / "a")], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(errno.EFBIG)
    assert (work / "a").read_bytes() == b"old"
    assert names(work) == ["a"]


def test_a_file_its_owner_made_read_only_is_not_replaced(tmp_path: Path) -> None:
    # An ordinary user, because root may write everything.
    script = (
        "import os, sys, tempfile; from pathlib import Path\n"
        "from tools.kit.files import write_atomically\n"
        "if os.getuid() == 0: os.setgid(65534); os.setuid(65534)\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    path = Path(folder) / 'a'; path.write_bytes(b'old'); path.chmod(0o444)\n"
        "    try: write_atomically(path, b'new')\n"
        "    except PermissionError: print(path.read_bytes(), os.listdir(folder))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True,
        env={"PATH": os.defpath, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.stdout.strip() == "b'old' ['a']"


def test_folders_are_made_and_named(work: Path) -> None:
    (work / "a").mkdir()
    assert make_folders(work / "a" / "b" / "c") == [work / "a" / "b", work / "a" / "b" / "c"]
    assert make_folders(work / "a" / "b" / "c") == []


def test_folders_made_before_a_failure_are_taken_back(work: Path) -> None:
    with pytest.raises(OSError):
        make_folders(work / "new" / ("x" * 300))
    assert names(work) == []


def test_opening_refuses_links_and_devices_and_does_not_wait(work: Path) -> None:
    (work / "a").write_bytes(b"x")
    (work / "link").symlink_to("a")
    os.mkfifo(work / "fifo")
    with pytest.raises(OSError):
        open_file(work / "link")
    for path in (work / "fifo", Path("/dev/null"), work):
        with pytest.raises(NotAFileError):
            open_file(path)
    assert read_bytes(work / "a")[0] == b"x"


def test_a_file_above_the_limit_is_not_read_whole(work: Path) -> None:
    (work / "a").write_bytes(b"12345")
    assert read_bytes(work / "a", 5)[0] == b"12345"
    with pytest.raises(OSError) as caught:
        read_bytes(work / "a", 4)
    assert caught.value.errno == errno.EFBIG


def test_no_descriptor_is_left_open(work: Path) -> None:
    (work / "a").write_bytes(b"x")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        read_bytes(work / "a")
        write_atomically(work / "a", b"y")
        make_folders(work / "b" / "c")
        for missing in (work / "nothing" / "a", work / "a" / "b"):
            with pytest.raises(OSError), open_folder(missing):
                pass
    assert len(os.listdir("/proc/self/fd")) == before
