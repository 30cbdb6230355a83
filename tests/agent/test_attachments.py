"""Images that come with messages: what is taken, kept, sent and said in their place."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.attachments import (
    LIMIT,
    AttachmentError,
    AttachmentStore,
    NotAnImageError,
    attachments_of,
    display_text,
    label,
    records,
    size_text,
    sniff,
)
from agent.core.home import Home
from agent.core.messages import Attachment
from agent.core.store.export import trajectory
from agent.errors import ExitCode
from agent.events import Noticed, PrefixBroken, QueueChanged, TurnEnded, UsageChanged, UserMessageAdded
from agent.model.transport.failures import Complaint, kind_of
from tests.support.engines import Bench, bench
from tests.support.images import GIF, JPEG, WEBP, png, write
from tests.support.replies import by_step, call, say
from tests.support.wire_rules import Rules

CHART = Attachment("chart.png", "image/png", 120_000, "ab" * 32, "@chart.png")


@pytest.fixture
def store(tmp_path: Path) -> AttachmentStore:
    return AttachmentStore(tmp_path / "home" / "attachments")


@pytest.mark.parametrize(
    ("data", "media"),
    [(png(), "image/png"), (JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")],
)
def test_what_a_file_is_its_first_bytes_tell(
    tmp_path: Path, store: AttachmentStore, data: bytes, media: str
) -> None:
    taken = store.take(write(tmp_path / "picture.bin", data))
    assert (taken.media_type, taken.size) == (media, len(data))
    assert store.read(taken) == data


@given(st.binary(max_size=40))
def test_any_bytes_are_an_image_or_not(data: bytes) -> None:
    assert sniff(data) in {None, "image/png", "image/jpeg", "image/gif", "image/webp"}


@pytest.mark.parametrize(
    "data", [b"", b"hello", b"RIFF\0\0\0\0WAVE", b"\x89PNG", b"<svg/>", b"BM" + b"\0" * 60]
)
def test_what_is_no_image_is_refused_whatever_its_name(
    tmp_path: Path, store: AttachmentStore, data: bytes
) -> None:
    with pytest.raises(NotAnImageError, match=r"chart\.png is not a png"):
        store.take(write(tmp_path / "chart.png", data))
    assert not (tmp_path / "home").exists()


def test_folders_pipes_and_missing_files_are_refused_at_once(tmp_path: Path, store: AttachmentStore) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for path in (tmp_path, tmp_path / "pipe.png", tmp_path / "gone.png", Path("a\0b.png")):
        with pytest.raises(AttachmentError) as caught:
            store.take(path)
        assert caught.value.exit_code is ExitCode.USAGE
        assert "\n" not in str(caught.value)


def test_an_image_above_the_limit_is_refused_with_both_sizes(tmp_path: Path, store: AttachmentStore) -> None:
    large = write(tmp_path / "large.png", png(padding=LIMIT))
    with pytest.raises(AttachmentError, match=r"large\.png has 10\.0 MB, more than the 10\.0 MB"):
        store.take(large)
    exact = write(tmp_path / "exact.png", png(padding=LIMIT - len(png())))
    assert store.take(exact).size == LIMIT


def test_the_bytes_lie_once_and_privately_under_their_hash(tmp_path: Path, store: AttachmentStore) -> None:
    one = store.take(write(tmp_path / "one.png"), "@one.png")
    two = store.take(write(tmp_path / "two.png"))
    folder = tmp_path / "home" / "attachments"
    assert [path.name for path in folder.iterdir()] == [one.sha256] == [two.sha256]
    assert stat.S_IMODE((folder / one.sha256).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_changed_bytes_count_as_gone_and_are_replaced(tmp_path: Path, store: AttachmentStore) -> None:
    source = write(tmp_path / "one.png")
    taken = store.take(source)
    kept = tmp_path / "home" / "attachments" / taken.sha256
    kept.write_bytes(b"something else")
    assert store.read(taken) == b""
    store.take(source)
    assert store.read(taken) == png()


def test_a_hash_that_is_a_path_reads_nothing(tmp_path: Path, store: AttachmentStore) -> None:
    write(tmp_path / "home" / "secret")
    assert store.read(Attachment("a", "image/png", 1, "../secret")) == b""


def test_a_name_steers_no_terminal_and_stays_short(tmp_path: Path, store: AttachmentStore) -> None:
    taken = store.take(write(tmp_path / ("\x1b[2Jx\n]" + "y" * 120 + ".png")))
    assert len(taken.name) <= 40
    assert taken.name.isprintable() and "]" not in taken.name
    assert taken.name.endswith(".png")


@pytest.mark.thorough
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["name", "media_type", "bytes", "sha256", "mention"]),
            st.one_of(
                st.none(), st.integers(), st.text(max_size=8), st.just("image/png"), st.just("ab" * 32)
            ),
        ),
        max_size=3,
    )
)
def test_damaged_records_are_left_out(damaged: list[dict[str, Any]]) -> None:
    found = attachments_of({"attachments": [*damaged, *records([CHART])]})
    assert found[-1] == CHART
    assert attachments_of({"attachments": records(found)}) == found


def test_a_message_is_shown_with_name_and_size() -> None:
    assert label(CHART) == "[image: chart.png 120 KB]"
    assert display_text("see @chart.png, please", [CHART]) == "see [image: chart.png 120 KB], please"
    assert display_text("no mention", [CHART]) == "no mention\n[image: chart.png 120 KB]"
    assert display_text("", [CHART]) == "[image: chart.png 120 KB]"
    assert [size_text(size) for size in (0, 999, 1_000, 999_499, 999_500)] == [
        "0 B",
        "999 B",
        "1 KB",
        "999 KB",
        "1.0 MB",
    ]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Invalid content type. image_url is only supported by certain models."),
        (500, "image input is not supported - hint: you may need to provide the mmproj"),
        (404, "No endpoints found that support image input"),
        (400, "scripted is not a multimodal model"),
        (400, "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"),
        (400, "You uploaded an unsupported image. Please make sure your image is valid."),
        (400, "Could not process image"),
        (422, "Failed to deserialize: unknown variant `image_url`, expected `text`"),
        (400, "messages[1].content must be a string"),
        (400, "This model does not support images."),
    ],
)
def test_what_servers_say_about_images_is_understood(status: int, text: str) -> None:
    assert kind_of(Complaint(text), status) == "images"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "Unsupported parameter: 'max_tokens' is not supported with this model."),
        (400, "tools is not supported"),
        (500, "The docker image could not be started"),
        (401, "No key for image input"),
        (429, "Too many images per minute"),
        (400, "maximum context length is 8192 tokens, however you requested 9000 tokens"),
    ],
)
def test_other_complaints_are_not_about_images(status: int, text: str) -> None:
    assert kind_of(Complaint(text), status) != "images"


# Whole turns


def taken(bench_: Bench, name: str = "chart.png", data: bytes | None = None) -> Attachment:
    """An image of the workspace, attached by its mention."""
    kept = AttachmentStore(Home(bench_.home).attachments)
    return kept.take(write(bench_.workspace / name, data), f"@{name}")


def contents(bench_: Bench, request: int = -1) -> list[Any]:
    return [
        message["content"]
        for message in bench_.server.requests[request].messages
        if message["role"] == "user"
    ]


@pytest.mark.thorough
async def test_an_image_is_sent_as_a_content_part_and_stays_the_same_bytes(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("a chart"), say("blue"), say("still")])) as b:
        image = taken(b)
        async with b.engine() as engine:
            await engine.run("what is @chart.png", [image])
            await engine.run("which colour")
        async with b.engine(resume_last=True) as engine:
            await engine.run("sure?")
        url = f"data:image/png;base64,{base64.b64encode(png()).decode()}"
        assert contents(b, 0) == [
            [{"type": "text", "text": "what is @chart.png"}, {"type": "image_url", "image_url": {"url": url}}]
        ]
        for earlier, later in ((0, 1), (1, 2)):
            before = b.server.requests[earlier].messages
            assert b.server.requests[later].messages[: len(before)] == before
        assert not b.server.refusals and not b.seen(PrefixBroken)
        added = b.seen(UserMessageAdded)[0]
        assert (added.text, added.attachments) == ("what is @chart.png", (image,))
        assert json.loads(json.dumps(added.to_json()))["attachments"][0]["sha256"] == image.sha256


async def test_an_image_needs_no_words(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("a chart")])) as b:
        async with b.engine() as engine:
            await engine.run("", [taken(b)])
        assert [part["type"] for part in contents(b)[0]] == ["image_url"]
        assert not b.server.refusals


@pytest.mark.thorough
async def test_queued_and_steering_messages_keep_their_images(tmp_path: Path) -> None:
    script = by_step([call("terminal", command="sleep 1"), say("one"), say("two")])
    async with bench(tmp_path, script) as b:
        async with b.engine() as engine:
            engine.submit("first")
            engine.submit("drop me", [taken(b, "other.png", JPEG)])
            engine.submit("later @chart.png", [taken(b)])
            engine.set_queue(["later @chart.png"])
            engine.steer("now @gif.png", [taken(b, "gif.png", GIF)])
            await engine.idle()
        sent = [
            part["image_url"]["url"][:15]
            for content in contents(b)
            for part in content[1:]
            if isinstance(content, list)
        ]
        assert sent == ["data:image/gif;", "data:image/png;"]
        assert b.seen(QueueChanged)[-1].queued == ()


@pytest.mark.thorough
async def test_an_image_whose_file_is_gone_becomes_a_sentence_on_resume(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("a chart"), say("gone")])) as b:
        image = taken(b)
        async with b.engine() as engine:
            await engine.run("what is @chart.png", [image])
        (b.home / "attachments" / image.sha256).unlink()
        async with b.engine(resume_last=True) as engine:
            ended = await engine.run("again")
        assert ended.outcome == "done"
        assert contents(b)[0] == "what is @chart.png\n[image: chart.png, not sent: its file is gone]"


async def test_a_model_known_not_to_read_images_is_told_of_them(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("I see none")])) as b:
        b.config(
            f"providers:\n  own:\n    base_url: {b.server.base_url}\n"
            "    models:\n      scripted:\n        images: false\n"
        )
        b.environ = {"HERMES_MODEL": "own/scripted"}
        async with b.engine() as engine:
            await engine.run("what is @chart.png", [taken(b)])
        assert contents(b) == [
            "what is @chart.png\n[image: chart.png, not sent: this model does not read images]"
        ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("resumes", [False, True])
async def test_a_server_that_refuses_images_is_asked_again_without_them(
    tmp_path: Path, resumes: bool
) -> None:
    script = by_step([say("no image here"), say("on we go")])
    async with bench(tmp_path, script, rules=Rules(images=False)) as b:
        async with b.engine() as engine:
            ended = await engine.run("what is @chart.png", [taken(b)])
            assert (ended.outcome, ended.text) == ("done", "no image here")
            if not resumes:
                assert (await engine.run("go on")).text == "on we go"
        if resumes:
            async with b.engine(resume_last=True) as engine:
                assert (await engine.run("go on")).text == "on we go"
        warning = next(event.text for event in b.seen(Noticed) if event.kind == "warning")
        assert warning.startswith("custom/scripted is sent no images from now on, as it refused ")
        assert all(event.declared for event in b.seen(PrefixBroken))


async def test_an_image_counts_by_a_fixed_size_not_by_its_bytes(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("large"), say("small")])) as b:
        async with b.engine() as engine:
            await engine.run("x", [taken(b, "large.png", png(padding=2_000_000))])
        assert b.seen(UsageChanged)[-1].context_used < 30_000


async def test_an_export_keeps_mention_and_hash(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("a chart")])) as b:
        image = taken(b)
        async with b.engine() as engine:
            await engine.run("what is @chart.png", [image])
            record, path = engine.session.record, engine.session.path
            said = trajectory(record, path)["conversations"]
        human = next(turn["value"] for turn in said if turn["from"] == "human")
        assert "@chart.png" in human and image.sha256 in human
        node = next(node for node in path if node.kind == "user")
        assert node.data["attachments"] == records([image])


@pytest.mark.thorough
async def test_text_and_schema_modes_name_the_image_instead(tmp_path: Path) -> None:
    for mode in ("text", "schema"):
        folder = tmp_path / mode
        folder.mkdir()
        answer = "fine" if mode == "text" else '{"name": "final_answer", "arguments": {"text": "fine"}}'
        async with bench(folder, by_step([say(answer)])) as b:
            b.config(
                f"model:\n  name: own/scripted\nproviders:\n  own:\n    base_url: {b.server.base_url}\n"
                f"    tool_mode: {mode}\n"
            )
            b.environ = {"HERMES_MODEL": "own/scripted"}
            async with b.engine() as engine:
                ended: TurnEnded = await engine.run("look", [taken(b)])
            assert ended.text == "fine"
            assert contents(b)[0].startswith(
                "look\n[image: chart.png, not sent: this model does not read images]"
            )
