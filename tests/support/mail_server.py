"""A strict mail server on loopback: IMAP (RFC 3501, IDLE of RFC 2177) and SMTP, as we speak them."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any, Self

from tests.support.chat_platform import ShownMessage

ADDRESS, PASSWORD, OWNER = "hermes@example.org", "app-password", "alice@example.net"


class MailServer:
    """One mailbox of ours."""

    def __init__(self) -> None:
        self.mails: list[bytes] = []
        self.seen: set[int] = set()
        self.sent: list[EmailMessage] = []
        self.refusals: list[str] = []
        self.shown: list[ShownMessage] = []
        self.refuse_recipient = 0
        """The code with which the next recipient is refused."""
        self.idling = 0
        self.beside: dict[str, Callable[[], object]] = {}
        """What happens just when a command comes, by its beginning."""
        self._news: dict[asyncio.StreamWriter, asyncio.Event] = {}
        self._told: dict[asyncio.StreamWriter, int] = {}
        """How many mails a session was told of: a number is told once, with the next answer."""
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._imap = await asyncio.start_server(self._imap_session, "127.0.0.1", 0)
        self._smtp = await asyncio.start_server(self._smtp_session, "127.0.0.1", 0)
        self.imap_port = self._imap.sockets[0].getsockname()[1]
        self.smtp_port = self._smtp.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cut()
        for server in (self._imap, self._smtp):
            server.close()
            await server.wait_closed()

    def cut(self) -> None:
        """Break every connection."""
        for writer in list(self._writers):
            writer.close()

    def write(self, text: str, sender: str = OWNER, checked: bool = True, **headers: str) -> str:
        """A mail that our own server has checked, or not; its Message-ID."""
        mail = EmailMessage()
        number = len(self.mails) + 1
        result = (
            f"mail.example.org; dmarc={'pass' if checked else 'fail'} header.from={sender.partition('@')[2]}"
        )
        mail["Authentication-Results"] = result
        mail["From"], mail["To"], mail["Subject"] = f"Alice <{sender}>", ADDRESS, "Tests"
        mail["Message-ID"] = f"<{number}@example.net>"
        for name, value in headers.items():
            del mail[name.replace("_", "-")]
            mail[name.replace("_", "-")] = value
        mail.set_content(text)
        return self.put(mail)

    def put(self, mail: EmailMessage) -> str:
        self.mails.append(mail.as_bytes())
        for news in self._news.values():
            news.set()
        return str(mail["Message-ID"])

    def _show(self, mail: EmailMessage) -> None:
        body = mail.get_body(("plain",))
        text = str(body.get_content()).replace("\r\n", "\n").rstrip("\n") if body is not None else ""
        parts: list[Any] = [each.get_payload(decode=True) for each in mail.iter_attachments()]
        file = b"".join(parts)
        self.shown.append(ShownMessage(str(mail["Message-ID"]), str(mail["To"]), text, [], [text], file))

    async def _imap_session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            writer.write(b"* OK IMAP4rev1 ready\r\n")
            while line := (await reader.readline()).decode().rstrip("\r\n"):
                tag, _, command = line.partition(" ")
                name = command.split(" ")[0].upper()
                for beginning in [each for each in self.beside if command.startswith(each)]:
                    self.beside.pop(beginning)()
                if name == "IDLE":
                    await self._idle(reader, writer, tag)
                    continue
                if answer := self._imap_answer(command):
                    writer.write(answer)
                if command == "SELECT INBOX":
                    self._told[writer] = len(self.mails)
                elif writer in self._told:
                    writer.write(self._exists(writer))
                good = b"OK" if answer is not None else b"NO"
                writer.write(tag.encode() + b" " + good + b" " + name.encode() + b" completed\r\n")
                await writer.drain()
                if name == "LOGOUT":
                    break
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            self._told.pop(writer, None)
            self._news.pop(writer, None)
            writer.close()

    def _exists(self, writer: asyncio.StreamWriter) -> bytes:
        """What a session has not been told yet."""
        if self._told[writer] == len(self.mails):
            return b""
        self._told[writer] = len(self.mails)
        return b"* %d EXISTS\r\n" % len(self.mails)

    def _imap_answer(self, command: str) -> bytes | None:
        """What comes before the end of a command; None refuses it."""
        if command == "CAPABILITY":
            return b"* CAPABILITY IMAP4rev1 IDLE\r\n"
        if command in ("NOOP", "LOGOUT"):
            return b"* BYE\r\n" if command == "LOGOUT" else b""
        if command.startswith("LOGIN "):
            return b"" if command == f'LOGIN {ADDRESS} "{PASSWORD}"' else None
        if command == "SELECT INBOX":
            return b"* %d EXISTS\r\n* OK [UIDVALIDITY 3857529045]\r\n" % len(self.mails)
        if command == "UID SEARCH UNSEEN":
            found = [str(each + 1) for each in range(len(self.mails)) if each + 1 not in self.seen]
            return f"* SEARCH {' '.join(found)}".rstrip().encode() + b"\r\n"
        if found := re.fullmatch(r"UID FETCH (\d+) \(BODY\.PEEK\[\]<0\.\d+>\)", command):
            number = int(found[1])
            data = self.mails[number - 1]
            head = b"* %d FETCH (UID %d BODY[]<0> {%d}\r\n" % (number, number, len(data))
            return head + data + b")\r\n"
        if found := re.fullmatch(r"UID STORE (\d+) \+FLAGS\.SILENT \(\\Seen\)", command):
            self.seen.add(int(found[1]))
            return b""
        self.refusals.append(command)
        return None

    async def _idle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tag: str) -> None:
        self.idling += 1
        # In one piece, as it arrives on a busy machine.
        writer.write(b"+ idling\r\n" + self._exists(writer))
        news = self._news[writer] = asyncio.Event()
        await writer.drain()
        done = asyncio.create_task(reader.readline())
        while not done.done():
            coming = asyncio.create_task(news.wait())
            await asyncio.wait([done, coming], return_when=asyncio.FIRST_COMPLETED)
            coming.cancel()
            news.clear()
            writer.write(self._exists(writer))
        del self._news[writer]
        if (said := done.result()) not in (b"DONE\r\n", b""):
            self.refusals.append(f"within IDLE: {said!r}")
        writer.write(tag.encode() + b" OK IDLE terminated\r\n")
        await writer.drain()

    async def _smtp_session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        entered = False

        def say(text: str) -> None:
            writer.write(f"{text}\r\n".encode())

        try:
            say("220 mail.example.org ESMTP")
            while line := (await reader.readline()).decode().rstrip("\r\n"):
                command = line.upper()
                if command.startswith("EHLO"):
                    say("250-mail.example.org\r\n250 AUTH PLAIN")
                elif command.startswith("AUTH PLAIN "):
                    given = base64.b64decode(line.split(" ")[2]).decode()
                    entered = given == f"\0{ADDRESS}\0{PASSWORD}"
                    say("235 ok" if entered else "535 5.7.8 wrong")
                elif not entered and not command.startswith("QUIT"):
                    say("530 5.7.0 who are you")
                elif command.startswith("RCPT") and self.refuse_recipient:
                    say(f"{self.refuse_recipient} no such mailbox")
                    self.refuse_recipient = 0
                elif command.startswith("DATA"):
                    say("354 go on")
                    await writer.drain()
                    raw = await reader.readuntil(b"\r\n.\r\n")
                    mail = BytesParser(policy=default).parsebytes(raw[:-3])
                    assert isinstance(mail, EmailMessage)
                    self.sent.append(mail)
                    self._show(mail)
                    say("250 taken")
                elif command.startswith("QUIT"):
                    say("221 bye")
                    break
                elif command.startswith(("MAIL FROM:", "RCPT TO:", "RSET", "NOOP")):
                    say("250 ok")
                else:
                    self.refusals.append(line)
                    say("500 unknown")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
