"""The servers that live in an event loop, as messengers beside a service that is killed and started again."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Coroutine
from email.message import EmailMessage
from typing import Any, Self
from urllib.error import HTTPError

from tests.support import discord_server, mail_server, matrix_server, slack_server, whatsapp_server
from tests.support.chat_platform import LocalPlatform, ShownMessage
from tests.support.loop_thread import LoopThread


class LoopPlatform(LocalPlatform):
    """A server in a thread with a loop of its own; what people do is done there."""

    server: Any

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        self.do(self.server.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.do(self._closed())
        self._thread.close()

    async def _closed(self) -> None:
        await self.server.__aexit__(None, None, None)
        # Answers to a program that was killed in the middle of its request.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something in the loop of the server."""
        return self._thread.run(work, 30)

    def call(self, function: Any, *arguments: Any, **more: Any) -> Any:
        """Call something in the loop of the server."""

        async def called() -> Any:
            return function(*arguments, **more)

        return self.do(called())

    @property
    def shown(self) -> list[ShownMessage]:
        return self.server.shown

    @property
    def refusals(self) -> list[str]:
        return self.server.refusals

    def settings(self) -> dict[str, Any]:
        return {"enabled": True, "api_url": self.server.url, "approve": [self.owner]}

    def file(self, data: bytes, name: str, media: str, text: str = "") -> str:
        """Let a person send a file."""
        raise NotImplementedError

    def photo(self, data: bytes, caption: str = "") -> str:
        """A picture."""
        return self.file(data, "image.png", "image/png", caption)

    def voice(self, data: bytes) -> str:
        """A voice message."""
        return self.file(data, "voice.ogg", "audio/ogg")

    def document(self, data: bytes, name: str) -> str:
        """A file."""
        return self.file(data, name, "application/pdf")


class SlackPlatform(LoopPlatform):
    """Slack."""

    name, owner, stranger = "slack", slack_server.OWNER, "U999STRANGER"
    types = False

    def __init__(self) -> None:
        self.server = slack_server.SlackServer()

    def chat(self, person: str) -> str:
        return slack_server.DIRECT if person == self.owner else f"D{person[1:]}"

    def secrets(self) -> dict[str, str]:
        return {"SLACK_BOT_TOKEN": slack_server.BOT, "SLACK_APP_TOKEN": slack_server.APP}

    def write(self, text: str, sender: str = "", chat: str = "", **more: Any) -> str:
        who = sender or self.owner
        return self.do(self.server.write(text, chat or self.chat(who), who, **more))

    def file(self, data: bytes, name: str, media: str, text: str = "") -> str:
        self.server.files[name.rpartition("/")[2]] = data
        host = self.server.url.removesuffix("/api")
        told = {"name": name, "mimetype": media, "size": len(data)}
        told["url_private"] = f"{host}/files/{name.rpartition('/')[2]}"
        return self.write(text, subtype="file_share", files=[told])

    def change(self, id: str, text: str) -> None:
        said = {"type": "message", "user": self.owner, "ts": id}
        changed = {**said, "text": text, "edited": {"user": self.owner, "ts": "1355517599.000001"}}
        event = {"type": "message", "subtype": "message_changed", "channel": slack_server.DIRECT}
        event |= {"channel_type": "im", "ts": "1355517599.000001", "message": changed}
        event["previous_message"] = {**said, "text": "before"}
        self.do(self.server.event(event))

    def press(self, message: ShownMessage, label: str, sender: str = "") -> None:
        value = dict(message.buttons)[label]
        self.do(self.server.press(message.id, value, message.chat, sender or self.owner))

    def again(self) -> None:
        self.do(self.server.again())

    def limit(self, count: int, seconds: int) -> None:
        self.server.retry_after, self.server.limited = seconds, count

    def cut(self, count: int) -> None:
        self.do(self.server.cut())

    @property
    def unconfirmed(self) -> int:
        return self.server.unacknowledged


class DiscordPlatform(LoopPlatform):
    """Discord."""

    name, owner, stranger = "discord", discord_server.OWNER, "80351110224678999"
    _strangers_channel = "319674150115610999"

    def __init__(self) -> None:
        self.server = discord_server.DiscordServer()
        self.server.history[self._strangers_channel] = []

    def chat(self, person: str) -> str:
        return discord_server.DIRECT if person == self.owner else self._strangers_channel

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "gateway_url": self.server.gateway}

    def secrets(self) -> dict[str, str]:
        return {"DISCORD_BOT_TOKEN": discord_server.TOKEN}

    @property
    def actions(self) -> int:
        return self.server.typing

    def write(self, text: str, sender: str = "", chat: str = "", **more: Any) -> str:
        who = sender or self.owner
        return self.do(self.server.write(text, chat or self.chat(who), who, **more))

    def file(self, data: bytes, name: str, media: str, text: str = "") -> str:
        plain = name.rpartition("/")[2]
        self.server.files[plain] = data
        url = f"{self.server.host}/attachments/{plain}"
        told = {"id": "1", "filename": name, "size": len(data), "url": url, "proxy_url": url}
        return self.write(text, attachments=[{**told, "content_type": media}])

    def change(self, id: str, text: str) -> None:
        self.do(self.server.change(id, text))

    def press(self, message: ShownMessage, label: str, sender: str = "") -> None:
        value = dict(message.buttons)[label]
        self.do(self.server.press(message.id, value, message.chat, sender or self.owner))

    def again(self) -> None:
        self.do(self.server.again())

    def limit(self, count: int, seconds: int) -> None:
        self.server.limited = count

    def cut(self, count: int) -> None:
        self.do(self.server.cut())


class MatrixPlatform(LoopPlatform):
    """Matrix."""

    name, owner, stranger = "matrix", matrix_server.OWNER, "@mallory:example.org"
    _strangers_room = "!strangers:example.org"

    def __init__(self) -> None:
        self.server = matrix_server.MatrixServer()
        self.server.direct.add(self._strangers_room)

    def chat(self, person: str) -> str:
        return matrix_server.DIRECT if person == self.owner else self._strangers_room

    def secrets(self) -> dict[str, str]:
        return {"MATRIX_ACCESS_TOKEN": matrix_server.TOKEN}

    @property
    def actions(self) -> int:
        return self.server.typing

    def write(self, text: str, sender: str = "", chat: str = "", **more: Any) -> str:
        who = sender or self.owner
        return self.call(self.server.write, text, chat or self.chat(who), who, **more)

    def file(self, data: bytes, name: str, media: str, text: str = "") -> str:
        self.server.media[f"m{len(self.server.media)}"] = data
        content = {"msgtype": f"m.{media.partition('/')[0].replace('application', 'file')}"}
        content |= {"body": text or name, "filename": name, "info": {"mimetype": media, "size": len(data)}}
        content["url"] = f"mxc://example.org/m{len(self.server.media) - 1}"
        return self.call(self.server.event, matrix_server.DIRECT, self.owner, content)

    def change(self, id: str, text: str) -> None:
        new = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": id}
        more: dict[str, Any] = {"m.new_content": new, "m.relates_to": relation}
        self.write(f"* {text}", **more)

    def again(self) -> None:
        self.call(self.server.again)

    def limit(self, count: int, seconds: int) -> None:
        self.server.retry_after_ms, self.server.limited = seconds * 1_000, count

    def cut(self, count: int) -> None:
        self.server.cut_next = count


class WhatsAppPlatform(LoopPlatform):
    """WhatsApp: it calls the service."""

    name, owner, stranger = "whatsapp", whatsapp_server.OWNER, "16505559999"
    edits = types = connects = False

    def __init__(self) -> None:
        self.server = whatsapp_server.WhatsAppServer()
        self.target = ""
        self._last: Any = None

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "phone_id": whatsapp_server.PHONE}

    def secrets(self) -> dict[str, str]:
        return {
            "WHATSAPP_TOKEN": whatsapp_server.TOKEN,
            "WHATSAPP_APP_SECRET": whatsapp_server.SECRET,
            "WHATSAPP_VERIFY_TOKEN": whatsapp_server.WORD,
        }

    def write(self, text: str, sender: str = "", chat: str = "", **more: Any) -> str:
        return self._bring({**self.server.said(text, **more), "from": sender or self.owner})

    def file(self, data: bytes, name: str, media: str, text: str = "") -> str:
        id = str(len(self.server.media) + 1)
        self.server.media[id] = (media, data)
        kind = {"image": "image", "audio": "audio"}.get(media.partition("/")[0], "document")
        held = {"id": id, "mime_type": media, "sha256": "SfInY0gGKTsJlUWbwxC1k+FAD0FZHvzwfpvO0zX0GUI="}
        if text:
            held["caption"] = text
        if kind == "document":
            held["filename"] = name
        return self._bring(self.server.message(kind, **{kind: held}))

    def press(self, message: ShownMessage, label: str, sender: str = "") -> None:
        pressed = self.server.pressed(message.id, dict(message.buttons)[label])
        self._bring({**pressed, "from": sender or self.owner})

    def again(self) -> None:
        self._post()

    def limit(self, count: int, seconds: int) -> None:
        self.server.limited = count

    def cut(self, count: int) -> None:
        """There is no lasting connection."""

    def _bring(self, message: dict[str, Any]) -> str:
        self._last = self.server.call(message)
        self._post()
        return message["id"]

    def _post(self) -> None:
        """As the platform does: again, until it hears 200."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            headers = {"Content-Type": "application/json", **self._last.headers}
            request = urllib.request.Request(f"{self.target}/gateways/whatsapp", self._last.body, headers)
            try:
                with urllib.request.urlopen(request, timeout=10) as response:
                    if response.status == 200:
                        return
            except HTTPError as error:
                error.close()
            except OSError:
                pass
            time.sleep(0.05)
        raise AssertionError("the service does not take it")


class MailPlatform(LoopPlatform):
    """E-mail. What one person writes continues in one conversation."""

    name, owner, stranger = "email", mail_server.OWNER, "mallory@example.net"
    edits = types = False

    def __init__(self) -> None:
        self.server = mail_server.MailServer()
        self._roots: dict[str, str] = {}
        self._number = 0

    def settings(self) -> dict[str, Any]:
        return {
            "enabled": True,
            "approve": [self.owner],
            "address": mail_server.ADDRESS,
            "imap_host": "127.0.0.1",
            "smtp_host": "127.0.0.1",
            "imap_port": self.server.imap_port,
            "smtp_port": self.server.smtp_port,
            "authserv": "mail.example.org",
            "tls": False,
        }

    def secrets(self) -> dict[str, str]:
        return {"EMAIL_PASSWORD": mail_server.PASSWORD}

    def write(self, text: str, sender: str = "", chat: str = "", **more: Any) -> str:
        return self._put(self._mail(text, sender or self.owner))

    def begin(self, subject: str, text: str) -> str:
        """Write a mail that is no reply."""
        mail = self._mail(text, self.owner)
        del mail["References"]
        mail["Subject"] = subject
        return self._put(mail)

    def file(self, data: bytes, name: str, media: str, text: str = "") -> str:
        mail = self._mail(text, self.owner)
        kind, _, form = media.partition("/")
        mail.add_attachment(data, maintype=kind, subtype=form, filename=name)
        return self._put(mail)

    def again(self) -> None:
        self.call(self.server.mails.append, self.server.mails[-1])
        self.call(self.server.cut)

    def limit(self, count: int, seconds: int) -> None:
        self.server.refuse_recipient = 450

    def cut(self, count: int) -> None:
        self.call(self.server.cut)

    def _mail(self, text: str, sender: str) -> EmailMessage:
        mail = EmailMessage()
        self._number += 1
        domain = sender.partition("@")[2]
        mail["Authentication-Results"] = f"mail.example.org; dmarc=pass header.from={domain}"
        mail["From"], mail["To"] = f"Alice <{sender}>", mail_server.ADDRESS
        mail["Message-ID"] = f"<w{self._number}@example.net>"
        if root := self._roots.setdefault(sender, ""):
            mail["References"] = root
        else:
            self._roots[sender] = str(mail["Message-ID"])
        mail.set_content(text)
        return mail

    def _put(self, mail: EmailMessage) -> str:
        return self.call(self.server.put, mail)
