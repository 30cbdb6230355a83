"""Text that travels to the far side, and the markers that come back."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.results import ToolError
from tools.terminal.backends.channel import mount_parts
from tools.terminal.backends.opening import _mount as docker_mount
from tools.terminal.backends.remote_backend import MarkerSplitter, OutputMarker
from tools.terminal.backends.scripts import anchor_script, quoted

TOKEN = b"abcabd"
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        TEXT | st.sampled_from(["$(id)", "`id`", "'", '"', "\\", "-n", "!", "~", "*", "\n", "a\r"]),
        max_size=8,
    )
)
def test_any_text_is_one_word_of_a_shell(words: list[str]):
    script = f"printf '%s\\0' x {' '.join(map(quoted, words))}"
    out = subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout
    assert out == b"".join(word.encode() + b"\0" for word in ["x", *words])


def test_a_nul_is_refused_because_a_shell_would_drop_it():
    with pytest.raises(ValueError, match="NUL"):
        quoted("a\0b")


def test_the_command_line_at_the_far_side_survives_every_login_shell():
    line = anchor_script("owner").command()[2]
    assert not set(line) & set("'\\!\n")


pieces = st.lists(
    st.binary(max_size=12)
    | st.just(TOKEN[:4])
    | st.builds(OutputMarker, st.sampled_from("rsxe"), st.binary(max_size=6)),
    max_size=8,
)


@pytest.mark.thorough
@given(pieces, st.data())
def test_output_and_markers_are_parted_wherever_the_stream_is_cut(
    wanted: list[bytes | OutputMarker], data: st.DataObject
):
    clean = [piece for piece in wanted if TOKEN not in (piece if isinstance(piece, bytes) else piece.payload)]
    stream = b"".join(
        piece if isinstance(piece, bytes) else TOKEN + piece.kind.encode() + piece.payload + TOKEN + b"."
        for piece in clean
    )
    if stream.count(TOKEN) != 2 * sum(isinstance(piece, OutputMarker) for piece in clean):
        return
    splitter, at = MarkerSplitter(TOKEN), 0
    got: list[bytes | OutputMarker] = []
    while at < len(stream):
        size = data.draw(st.integers(1, 9))
        got += splitter.feed(stream[at : at + size])
        at += size
    got.append(splitter.rest())
    assert _joined(got) == _joined(clean)


def _joined(pieces: list[bytes | OutputMarker]) -> list[bytes | OutputMarker]:
    joined: list[bytes | OutputMarker] = []
    for piece in pieces:
        if isinstance(piece, bytes) and joined and isinstance(joined[-1], bytes):
            joined[-1] += piece
        elif piece != b"":
            joined.append(piece)
    return joined


def test_output_is_not_held_back_longer_than_needed():
    splitter = MarkerSplitter(TOKEN)
    assert list(splitter.feed(b"hello abc")) == [b"hello "]
    assert list(splitter.feed(b"x")) == [b"abcx"]


def test_mounts_are_read_and_written():
    source, target, read_only = mount_parts("/data/a,b:/data:ro")
    assert (str(source), target, read_only) == ("/data/a,b", "/data", True)
    assert (
        docker_mount(source, target, read_only)
        == '--mount=type=bind,"source=/data/a,b",target=/data,readonly'
    )
    for wrong in ("/data", "/a:/b:rx", "/a:b", "/a:/b:ro:x"):
        with pytest.raises(ToolError, match="source:target"):
            mount_parts(wrong)
