"""The service killed at any moment while people write on every messenger."""

from __future__ import annotations

import random
import time

from tests.support.chat_platform import until
from tests.support.chat_stage import ChatStage
from tests.support.loop_platforms import (
    DiscordPlatform,
    MailPlatform,
    MatrixPlatform,
    SlackPlatform,
    WhatsAppPlatform,
)
from tests.support.signal_server import SignalServer
from tests.support.telegram_server import TelegramServer
from tests.support.webhook_server import WebhookServer

ALL_PLATFORMS = (
    TelegramServer,
    SignalServer,
    WebhookServer,
    SlackPlatform,
    DiscordPlatform,
    MatrixPlatform,
    WhatsAppPlatform,
    MailPlatform,
)
CALLING = ("webhook", "whatsapp")
"""They bring a message only while the service listens."""
ONCE = ("matrix", "discord", "webhook", "email")
"""They know a message again that is sent a second time; mail by its Message-ID."""
PATIENCE = 60.0
"""Seconds within which an answer comes."""
LOOK = 10
"""Kills after which everything is looked at."""


def kill_at_any_moment(stage: ChatStage, restarts: int) -> None:
    """Each message is one turn, and its answer comes once after the last kill that left it to be sent."""
    chance = random.Random(restarts)
    wanted: dict[str, list[str]] = {name: [] for name in stage.platforms}
    before: dict[str, int] = {}
    """How often an answer was seen up to the last kill after which the store had it waiting."""

    def write(name: str, number: int) -> None:
        words = f"kill{restarts}-{number}-{name}"
        stage.platforms[name].write(words)
        wanted[name].append(words)

    for name in stage.platforms:
        # Discord tells later what was missed only in channels that were heard of before.
        write(name, -1)
    _answered(stage, wanted)
    for number in range(restarts):
        later = [name for name in stage.platforms if name not in CALLING and chance.random() < 0.3]
        seen = _message_count(stage)
        for name in stage.platforms:
            if name not in later:
                write(name, number)
        if chance.random() < 0.3:
            # Else hardly any kill meets a service that has begun to send.
            until(lambda seen=seen: _message_count(stage) > seen, "something to see", PATIENCE)
            time.sleep(chance.uniform(0, 0.1))
        else:
            time.sleep(chance.uniform(0, 0.5))
        stage.service.kill()
        waiting = stage.left_waiting()
        for name in later:
            write(name, number)
        stage.start()
        for name, messages in wanted.items():
            before |= {words: _times(stage, name, words) for words in messages if words in waiting}
        if number % LOOK == LOOK - 1:
            _answered(stage, wanted)
    _answered(stage, wanted)
    stage.settled()
    said = stage.user_messages()
    for name, messages in wanted.items():
        for words in messages:
            assert said.count(words) == 1, words
            times = _times(stage, name, words)
            once = 0 if name in ONCE else before.get(words, 0)
            assert times and times - once <= 1, f"{words}: {times} times, {once} of them cut off"


def _answered(stage: ChatStage, wanted: dict[str, list[str]]) -> None:
    for name, messages in wanted.items():
        for words in messages:
            try:
                until(lambda n=name, w=words: _times(stage, n, w), f"an answer to {words}", PATIENCE)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{stage.story(words)}") from None


def _message_count(stage: ChatStage) -> int:
    return sum(len(each.shown) for each in stage.platforms.values())


def _times(stage: ChatStage, name: str, words: str) -> int:
    """How often an answer is seen; one that a kill cut in two comes as two messages."""
    found = [(each.id, each.text) for each in list(stage.platforms[name].shown)]
    # Programs of mail show two of one Message-ID as one.
    texts = [text for _, text in (dict.fromkeys(found) if name == "email" else found)]
    return "".join("".join(texts).split()).count(f"Echo:{words}")
