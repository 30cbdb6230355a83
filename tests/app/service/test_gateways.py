"""Messengers: what people write becomes turns, once, and what comes of them is seen there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api.remote import move_session
from tests.support import command, slack_server
from tests.support.chat_abilities import ABILITIES, KILLS
from tests.support.chat_kills import ALL_PLATFORMS, kill_at_any_moment
from tests.support.chat_platform import OWNER, until
from tests.support.chat_stage import ChatStage, shown
from tests.support.images import png
from tests.support.telegram_server import TelegramServer

TESTS = {each.test: each for each in ABILITIES}
REPORT = "Zahlen für Ana\r\n\n.\n".encode() * 40
PLATFORMS = tuple(each.name for each in ALL_PLATFORMS)

pytestmark = pytest.mark.thorough
"""They start services and wait for them: too much for every run."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChatStage]:
    folder = tmp_path_factory.mktemp("messengers")
    with ChatStage(folder, *(each() for each in ALL_PLATFORMS)) as stage:
        yield stage


@pytest.fixture(params=PLATFORMS)
def platform(stage: ChatStage, request: pytest.FixtureRequest) -> Any:
    found = stage.platforms[request.param]
    ability = TESTS.get(request.function.__name__)
    if ability is not None and not ability.how(type(found)):
        pytest.skip("that cannot be done there")
    yield found
    assert found.refusals == []


def test_a_text_is_answered_and_typing_is_shown(platform: Any) -> None:
    platform.write("first-words")
    shown(platform, "first-words")
    if platform.types:
        until(lambda: platform.actions, "typing")


def test_an_image_is_seen_by_the_model(stage: ChatStage, platform: Any) -> None:
    platform.photo(png(), "look-at-this")
    shown(platform, "look-at-this")
    assert any("image_url" in str(each["body"]) for each in stage.model.requests()[-2:])


def test_a_voice_message_is_written_down(stage: ChatStage, platform: Any) -> None:
    before = len(platform.shown)
    platform.voice(b"OggS-sound-" + platform.name.encode())
    shown(platform, "what was spoken", after=before)
    assert any(platform.name.encode() in each for each in stage.heard)


def test_a_file_is_kept_in_the_workspace_under_a_harmless_name(stage: ChatStage, platform: Any) -> None:
    platform.document(b"%PDF-" + platform.name.encode(), f"../../{platform.name}.pdf")
    shown(platform, "received")
    kept = stage.folder / "here" / "received" / f"{platform.name}.pdf"
    assert kept.read_bytes() == b"%PDF-" + platform.name.encode()


def test_files_of_the_workspace_come_byte_for_byte_after_a_yes(stage: ChatStage, platform: Any) -> None:
    begun = ready_to_send(stage, platform)
    for data in (REPORT, png(30, 20)):
        assert sum(each.file == data for each in platform.shown[begun:]) == 1
    stage.settled()
    assert not list(stage.home.glob("gateways/*/outgoing/*"))


def ready_to_send(stage: ChatStage, platform: Any, wait: bool = True) -> int:
    """Let two files be sent to the very chat; how much was shown before."""
    (stage.folder / "here" / "report.txt").write_bytes(REPORT)
    (stage.folder / "here" / "chart.png").write_bytes(png(30, 20))
    platform.write("/new")
    begun = len(platform.shown)
    platform.write("send-the-files")
    asked = shown(platform, "May I?", after=begun)
    assert f"report.txt ({len(REPORT)} B), chart.png (" in asked.text and "Here-they-are" in asked.text
    if not wait:
        platform.limit(20, 2)
    platform.choose(asked, "Yes, once")
    if wait:
        until(lambda: sum(bool(each.file) for each in platform.shown[begun:]) == 2, "two files")
    return begun


def test_a_file_that_waits_over_a_kill_comes_once(stage: ChatStage) -> None:
    telegram = stage.platforms["telegram"]
    begun = ready_to_send(stage, telegram, wait=False)
    until(lambda: stage.rows("SELECT 1 FROM deliveries WHERE kind = 'file' AND state = 'waiting'"), "a file")
    stage.service.kill()
    telegram.limit(0, 0)
    stage.start()
    until(lambda: any(each.file == REPORT for each in telegram.shown[begun:]), "the file")
    stage.settled()
    stage.service.kill()
    stage.start()
    telegram.write("behind-the-files")
    shown(telegram, "behind-the-files", after=begun)
    stage.settled()
    assert sum(each.file == REPORT for each in telegram.shown[begun:]) == 1
    assert sum(each.file == png(30, 20) for each in telegram.shown[begun:]) == 1
    # After a kill an edit whose answer was lost is sent again.
    assert [each for each in telegram.refusals if "not modified" not in each] == []
    telegram.refusals.clear()


def test_an_approval_is_asked_and_taken_once(stage: ChatStage, platform: Any) -> None:
    before = len(platform.shown)
    platform.write("push")
    asked = shown(platform, "May I?", after=before)
    assert "git push origin main" in asked.text
    has_buttons = bool(asked.buttons)
    assert has_buttons or "Reply with the number" in asked.text
    platform.choose(asked, "No")
    if has_buttons and platform.edits:
        platform.choose(asked, "Yes, once")
    shown(platform, "Pushed or not.", after=before)
    if platform.edits:
        until(lambda: "⊘ no" in asked.text, "the decision")
        assert asked.buttons == []
    else:
        shown(platform, "⊘ no", after=before)
    stage.settled()
    decided = stage.rows("SELECT content FROM nodes WHERE kind = 'tool' ORDER BY id DESC LIMIT 1")
    assert "denied" in decided[0][0].lower() or "not" in decided[0][0].lower()


def test_a_question_of_the_model_is_answered_by_its_choice(platform: Any) -> None:
    before = len(platform.shown)
    platform.write("which")
    asked = shown(platform, "Which?", after=before)
    platform.choose(asked, "blue")
    shown(platform, "Thanks.", after=before)


def test_a_message_that_comes_twice_is_one_turn(stage: ChatStage, platform: Any) -> None:
    words = f"only-once-{platform.name}"
    platform.write(words)
    platform.again()
    shown(platform, words)
    platform.again()
    platform.write(f"then-{platform.name}")
    shown(platform, f"then-{platform.name}")
    assert stage.user_messages().count(words) == 1
    assert sum(words in each.text for each in platform.shown) == 1


def test_a_long_answer_comes_in_parts_with_whole_fences(platform: Any) -> None:
    before = len(platform.shown)
    platform.write("long")
    shown(platform, "line = 11", after=before)
    parts = platform.shown[before:]
    assert sum(each.text.count("x = 1") for each in parts) == 12 * 90
    assert len(parts) >= 1
    if platform.name == "telegram":
        assert all(each.form["text"].count("<pre>") == each.form["text"].count("</pre>") for each in parts)


def test_a_slow_answer_is_one_message_that_grows(platform: Any) -> None:
    before = len(platform.shown)
    platform.write("slow")
    message = shown(platform, "word END", after=before)
    if platform.edits and platform.name != "signal":
        assert len(message.versions) >= 2
        assert message.versions[0].endswith("…")
    assert len(platform.shown) == before + 1


def test_an_edit_changes_a_message_that_still_waits(stage: ChatStage, platform: Any) -> None:
    before = len(platform.shown)
    platform.write("slow")
    waits = platform.write(f"befor-{platform.name}")
    until(lambda: stage.rows("SELECT 1 FROM received WHERE data LIKE ?", f"%befor-{platform.name}%"))
    platform.change(waits, f"after-{platform.name}")
    shown(platform, f"after-{platform.name}", after=before)
    assert f"befor-{platform.name}" not in stage.user_messages()


def test_a_turn_is_stopped_and_one_that_waits_goes_on(stage: ChatStage, platform: Any) -> None:
    before = len(platform.shown)
    platform.write("slow")
    until(lambda: stage.rows("SELECT 1 FROM received WHERE state = 'taken'"), "the turn")
    platform.write(f"waits-{platform.name}")
    platform.write("/stop")
    shown(platform, "Stopped.", after=before)
    shown(platform, f"waits-{platform.name}", after=before)


@pytest.mark.parametrize(
    ("subject", "text"), [("Stop", ""), ("", "stop.\n\n-- \nAlice"), ("/stop", "Thanks")]
)
def test_a_new_mail_that_says_stop_ends_what_runs(stage: ChatStage, subject: str, text: str) -> None:
    mail = stage.platforms["email"]
    before = len(mail.shown)
    mail.write("slow")
    until(lambda: stage.rows("SELECT 1 FROM received WHERE state = 'taken'"), "the turn")
    mail.begin(subject, text)
    shown(mail, "Stopped.", after=before)


def test_a_new_mail_steers_what_runs(stage: ChatStage) -> None:
    mail = stage.platforms["email"]
    before = len(mail.shown)
    mail.write("slow")
    until(lambda: stage.rows("SELECT 1 FROM received WHERE state = 'taken'"), "the turn")
    mail.begin("/steer mind-the-gap", "")
    shown(mail, "mind-the-gap", after=before)
    assert "/steer mind-the-gap" not in stage.user_messages()


def test_a_rate_limit_is_waited_out_and_nothing_is_lost(platform: Any) -> None:
    platform.limit(2, 1)
    platform.write(f"limited-{platform.name}")
    message = shown(platform, f"limited-{platform.name}")
    assert sum(message.text in each.text for each in platform.shown) == 1


def test_a_lost_connection_is_made_again(stage: ChatStage, platform: Any) -> None:
    platform.cut(2)
    platform.write(f"again-{platform.name}")
    shown(platform, f"again-{platform.name}")
    assert stage.user_messages().count(f"again-{platform.name}") == 1


def test_a_stranger_is_told_a_code_and_nothing_else_until_paired(stage: ChatStage, platform: Any) -> None:
    stranger, chat = platform.stranger, platform.chat(platform.stranger)
    platform.write("let-me-in", stranger)
    told = shown(platform, "hermes gateway pair", chat)
    platform.write("hello?", stranger)
    platform.write("/sessions", stranger)
    code = told.text.split("pair ")[1].split()[0].strip("`")
    platform.write(f"between-{platform.name}")
    shown(platform, f"between-{platform.name}")
    assert [each.text for each in platform.shown if each.chat == chat] == [told.text]
    done = command.run("gateway", "pair", code, env=stage.service.env, cwd=stage.folder)
    assert done.returncode == 0, done.stderr
    platform.write("now-i-may", stranger)
    shown(platform, "now-i-may", chat)
    assert "let-me-in" not in str(stage.user_messages())
    # Somebody who may talk approves nothing.
    platform.write("push", stranger)
    asked = shown(platform, "May I?", chat)
    platform.choose(asked, "Yes, once", stranger)
    if not asked.buttons:
        shown(platform, "You may not answer this.", chat)
    platform.write("/stop", stranger)
    shown(platform, "■ Stopped.", chat)
    assert not any("✓" in each.text for each in platform.shown if each.chat == chat)


def test_commands_begin_show_and_take_back(stage: ChatStage, platform: Any) -> None:
    before = len(platform.shown)
    platform.write("/new")
    shown(platform, "A new session", after=before)
    platform.write("take-me-back")
    shown(platform, "take-me-back", after=before)
    platform.write("/undo")
    shown(platform, "Undone", after=before)
    platform.write("/status")
    shown(platform, "scripted · waits for you", after=before)
    platform.write("/model")
    shown(platform, "The model is", after=before)
    platform.write("/id")
    shown(platform, platform.owner, after=before)


def test_in_groups_only_what_speaks_to_it_counts_and_strangers_hear_nothing(stage: ChatStage) -> None:
    telegram = stage.platforms["telegram"]
    group: dict[str, Any] = {"chat": "-1001234", "group": True}
    telegram.write("not for you", **group)
    telegram.write("@hermes_bot stranger-in-group", "3333333", **group)
    telegram.write("@hermes_bot group-words", **group)
    shown(telegram, "group-words", "-1001234")
    telegram.write("topic-words @hermes_bot", message_thread_id=77, is_topic_message=True, **group)
    topic = shown(telegram, "topic-words", "-1001234")
    assert topic.form["message_thread_id"] == "77"
    assert "not for you" not in stage.user_messages()
    assert "stranger-in-group" not in str(stage.user_messages())
    places = stage.rows("SELECT DISTINCT session FROM gateway_places WHERE chat = '-1001234'")
    assert len(places) == 2


def test_an_encrypted_room_is_refused_in_one_sentence_and_only_to_who_may_talk(stage: ChatStage) -> None:
    matrix = stage.platforms["matrix"]
    before = len(matrix.shown)
    matrix.server.direct.add("!secret:example.org")
    for sender in ("@nobody:example.org", matrix.owner, matrix.owner):
        content = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgAEnACgAkLmt6qF84IK++J7UDH2Za1YVch"}
        matrix.call(matrix.server.event, "!secret:example.org", sender, content, "m.room.encrypted")
    matrix.write("behind-the-secret")
    shown(matrix, "behind-the-secret", after=before)
    stage.settled()
    said = [each.text for each in matrix.shown[before:] if each.chat == "!secret:example.org"]
    assert said == ["I cannot read encrypted rooms; write to me in a room without encryption."]


def test_threads_are_sessions_of_their_own(stage: ChatStage) -> None:
    slack = stage.platforms["slack"]
    root = slack.write(f"<@{slack_server.ME}> thread-one", chat=slack_server.CHANNEL)
    first = shown(slack, "thread-one", slack_server.CHANNEL)
    slack.write(f"<@{slack_server.ME}> thread-two", chat=slack_server.CHANNEL)
    shown(slack, "thread-two", slack_server.CHANNEL)
    more = {"thread_ts": root, "parent_user_id": slack_server.ME}
    slack.write("thread-one-again", chat=slack_server.CHANNEL, **more)
    again = shown(slack, "thread-one-again", slack_server.CHANNEL)
    assert first.form["thread_ts"] == again.form["thread_ts"] == root
    places = stage.rows("SELECT DISTINCT session FROM gateway_places WHERE chat = ?", slack_server.CHANNEL)
    assert len(places) == 2


def test_only_signed_fresh_and_new_requests_count(stage: ChatStage) -> None:
    webhook = stage.platforms["webhook"]
    body = {"id": "forged", "chat": OWNER, "from": {"id": OWNER}, "text": "forged-words"}
    assert webhook.post(body, secret="another") == 401
    assert webhook.post(body, at=time.time() - 1_000) == 401
    assert webhook.post(body, at=time.time() + 1_000) == 401
    assert webhook.post({**body, "from": "me"}) == 400
    assert webhook.post([1]) == 400
    webhook.write("the-end-of-it")
    shown(webhook, "the-end-of-it")
    assert "forged-words" not in stage.user_messages()


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("restarts", KILLS)
def test_over_kills_each_message_is_exactly_one_turn(stage: ChatStage, restarts: int) -> None:
    kill_at_any_moment(stage, restarts)


def test_an_answer_that_was_cut_by_a_kill_comes_whole(stage: ChatStage) -> None:
    telegram = stage.platforms["telegram"]
    before = len(telegram.shown)
    telegram.write("slow")
    until(lambda: stage.rows("SELECT 1 FROM drafts WHERE length(content) > 40"), "half an answer")
    stage.service.kill()
    stage.start()
    shown(telegram, "END", after=before)
    said = "".join(each.text for each in telegram.shown[before:])
    assert said.count("word") == 120
    assert "…" not in said


@pytest.mark.parametrize("name", ["telegram", "webhook"])
def test_a_job_reaches_a_chat_once_also_while_no_service_runs(stage: ChatStage, name: str) -> None:
    platform = stage.platforms[name]
    for running in (True, False):
        if not running:
            stage.service.kill()
        title = f"job-{name}-{running}"
        target = name if running else f"{name}:{OWNER}"
        done = stage.run(
            *("cron", "add", "every 24h", f"words-of-{title}", "--name", title, "--deliver", target)
        )
        assert f"its runs are allowed: message({target})" in done and "nowhere" not in done
        stage.run("cron", "run", title)
        if not running:
            assert stage.rows("SELECT count(*) FROM deliveries WHERE state = 'waiting'") == [(1,)]
            stage.start()
        shown(platform, f"words-of-{title}")
        stage.settled()
        # A service that is killed and starts again sends nothing a second time.
        stage.service.kill()
        stage.start()
        platform.write(f"behind-{title}")
        shown(platform, f"behind-{title}")
        stage.settled()
        assert sum(f"Echo: words-of-{title}" in each.text for each in platform.shown) == 1


def test_send_message_goes_into_another_messenger_after_a_yes(stage: ChatStage) -> None:
    telegram, webhook = stage.platforms["telegram"], stage.platforms["webhook"]
    before = len(telegram.shown)
    telegram.write("tell-the-others")
    asked = shown(telegram, "May I?", after=before)
    assert "from-the-tool" in asked.text
    telegram.press(asked, "Yes, once")
    shown(telegram, "Told.", after=before)
    assert shown(webhook, "from-the-tool").text == "**News**\nfrom-the-tool"


def test_a_session_moves_from_terminal_and_page_into_a_chat_and_back(stage: ChatStage) -> None:
    telegram, webhook = stage.platforms["telegram"], stage.platforms["webhook"]
    device = stage.service.device("talk", "page")
    session = device.session(stage.folder / "here")
    device.say(session, "begun-elsewhere")
    device.until(session, "turn_ended")
    socket = stage.home / "run" / "service.sock"

    before = len(telegram.shown)
    # By name: without one it is the chat of whoever was paired last.
    assert "telegram too" in asyncio.run(move_session(socket, session, f"telegram:{OWNER}"))
    assert "begun-elsewhere" in shown(telegram, "Continuing here", after=before).text
    telegram.write("in-the-chat")
    shown(telegram, "Echo: in-the-chat", after=before)
    assert stage.rows("SELECT session FROM received WHERE data LIKE '%in-the-chat%'") == [(session,)]
    device.say(session, "on-the-page")
    shown(telegram, "Echo: on-the-page", after=before)

    code, told = device.post(f"/api/sessions/{session}/move", {"to": f"webhook:{OWNER}"})
    assert code == 200 and "webhook too" in told["told"]
    shown(telegram, "Continuing at webhook.", after=before)
    shown(webhook, "Continuing here")
    webhook.write("/move terminal")
    assert f"hermes --attach {session}" in shown(webhook, "The session continues in the terminal").text
    assert stage.rows("SELECT 1 FROM gateway_places WHERE session = ?", session) == []

    assert device.post(f"/api/sessions/{session}/move", {"to": "pigeon"})[0] == 409
    assert device.post(f"/api/sessions/{session}/move", {"to": "telegram:999"})[0] == 409
    assert device.post(f"/api/sessions/{session}/move", {})[0] == 400
    looks = stage.service.device("look", "window")
    assert looks.post(f"/api/sessions/{session}/move", {"to": "telegram"})[0] == 403


def test_status_tells_how_each_stands(stage: ChatStage, tmp_path: Path) -> None:
    done = command.run("gateway", "status", env=stage.service.env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "running" in lines["telegram"]
    assert "@hermes_bot" in lines["telegram"]
    assert "running" in lines["signal"]


def test_a_wrong_token_is_one_sentence_and_no_answer_of_it_is_told(tmp_path: Path) -> None:
    with TelegramServer() as telegram, ChatStage(tmp_path / "stage") as stage:
        env = {**stage.service.env, "TELEGRAM_BOT_TOKEN": "999:wrong"}
        stage.service.stop()
        stage.service.env = env
        (stage.home / "config.yaml").write_text(f"gateways: {{telegram: {telegram.settings()}}}")
        stage.start()

        def told() -> Any:
            return stage.rows(
                "SELECT problem FROM gateway_states WHERE gateway = 'telegram' AND problem != ''"
            )

        assert until(told)[0][0].startswith("Telegram does not take the token; run `hermes gateway setup")
