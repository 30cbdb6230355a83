"""E-mail through IMAP and SMTP. A mail is marked as read once it is stored here.

The sender of a mail can be forged. A sender is accepted only if the user's own mail server has verified it
(`Authentication-Results`).
"""

from __future__ import annotations

import asyncio
import email.policy
import hashlib
import html
import imaplib
import mimetypes
import re
import smtplib
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import formatdate, getaddresses, parseaddr
from typing import Any

from agent.errors import ConfigError
from agent.integrations.gateways.adapter import (
    ODD,
    Adapter,
    BadCredentialsError,
    GatewayContext,
    GatewayError,
    GatewayKind,
    Incoming,
    IncomingFile,
    Outgoing,
    OutgoingFile,
    Place,
    PlatformLimits,
    Secret,
    Sender,
    Take,
    UndeliverableError,
    file_kind,
    odd_answer,
)
from agent.integrations.gateways.markup import translate_markdown
from tools.kit.descriptors import wait_until_ready

SECONDS = 30.0
"""The time limit for an answer of a server, in seconds."""
IDLE = 25 * 60.0
"""The length of one IDLE command in seconds, as servers may disconnect after 30 silent minutes."""
LARGEST = 25_000_000
"""The maximum number of bytes read of a mail."""
LONGEST_LINE = 1_000_000
"""The maximum number of bytes of a line of the protocol."""
LIMITS = PlatformLimits(text=100_000, form="html", send_file=15_000_000, fetch_file=LARGEST)
_ID = re.compile(r"<[^<>\s]{1,500}>")
_QUOTED = re.compile(r"^(>|On .{5,200} wrote:$|Am .{5,200} schrieb .{1,200}:$)")
_WRAPPED = re.compile(
    r"(?m)^(?:On .{5,200}\n.{0,200}wrote:|Am .{5,200}\n.{0,200}schrieb.{0,200}:)[ \t]*(?=\s*^>)"
)
"""The line above quoted lines, wrapped by a mail program onto two lines."""
_BELOW = re.compile(
    r"(?m)^(?:-{3,} ?Original Message ?-{3,}|(?:_{10,}\s*)?\*?(?:From|Von):\*? .+\n(?:.+\n){0,2}"
    r"\*?(?:Sent|Date|Gesendet|Datum):)"
)
"""The beginning of the answered mail, if it is repeated without quotation marks."""


class EmailAdapter(Adapter):
    """The mailbox of one address: its incoming and outgoing mail."""

    limits = LIMITS
    title = "E-mail"

    def __init__(self, context: GatewayContext) -> None:
        super().__init__(context)
        given: Any = context.settings
        self._address, self._password = str(given.address).lower(), context.secret("password_env")
        self._imap, self._smtp = (given.imap_host, given.imap_port), (given.smtp_host, given.smtp_port)
        self._tls, self._poll = bool(given.tls), float(given.poll)
        for name, value in (
            ("address", self._address),
            ("imap_host", given.imap_host),
            ("smtp_host", given.smtp_host),
        ):
            if not value:
                raise ConfigError(f"Set gateways.email.{name} with `hermes gateway setup email`.")
        if not self._tls and any(
            host not in ("localhost", "127.0.0.1", "::1") for host, _ in (self._imap, self._smtp)
        ):
            raise ConfigError("gateways.email.tls may be off only for servers on this machine.")
        self._authserv = str(given.authserv or given.imap_host).lower()
        self._subjects: dict[str, str] = {}

    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        folder = _ImapFolder(self._imap, self._tls)
        try:
            await asyncio.to_thread(folder.open, self._address, self._password)
            ready(self._address)
            while True:
                for uid in await asyncio.to_thread(folder.unseen):
                    raw = await asyncio.to_thread(folder.read, uid)
                    incoming = self._incoming(uid, raw)
                    if incoming is not None:
                        await take(incoming)
                    # Only now is it read; a mail that cannot be understood too.
                    await asyncio.to_thread(folder.mark, uid)
                await self._news(folder)
        finally:
            folder.stop()
            await asyncio.to_thread(folder.close)

    async def _news(self, folder: _ImapFolder) -> None:
        """Wait until the server reports new mail, or until the next regular check is due."""
        waiting = asyncio.create_task(asyncio.to_thread(folder.wait, self._poll))
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            # The thread would go on reading from a connection that is being closed.
            folder.stop()
            await asyncio.wait([waiting])
            raise

    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        mail = self._mail(place, message.reply_to, key)
        mail.set_content(message.text)
        mail.add_alternative(translate_markdown(message.text, "html"), subtype="html")
        return await asyncio.to_thread(self._post, mail)

    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        data = await asyncio.to_thread(file.path.read_bytes)
        mail = self._mail(place, "", key)
        mail.set_content(file.caption or file.name)
        media, _, kind = (mimetypes.guess_type(file.name)[0] or "application/octet-stream").partition("/")
        mail.add_attachment(data, maintype=media, subtype=kind, filename=file.name)
        return await asyncio.to_thread(self._post, mail)

    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        uid, _, number = file.id.partition(".")

        def fetch_attachment() -> bytes:
            folder = _ImapFolder(self._imap, self._tls)
            try:
                folder.open(self._address, self._password)
                mail = _parse(folder.read(uid))
            finally:
                folder.close()
            parts = list(mail.iter_attachments())
            if not number.isdigit() or int(number) >= len(parts):
                raise UndeliverableError("The file is no longer there.")
            data = parts[int(number)].get_payload(decode=True)
            if not isinstance(data, bytes) or len(data) > most:
                raise UndeliverableError(f"The file is larger than {most:,} bytes.")
            return data

        return await asyncio.to_thread(fetch_attachment)

    def _incoming(self, uid: str, raw: bytes) -> Incoming | None:
        """Return a mail in the common form; None for automatic mails, lists and mails from this address."""
        try:
            mail = _parse(raw)
            person = parseaddr(str(mail.get("From", "")))
            address = person[1].lower()
            automatic = str(mail.get("Auto-Submitted", "no")).lower() != "no"
            if not address or address == self._address or automatic or mail.get("List-Id"):
                return None
            if str(mail.get("Precedence", "")).lower() in ("bulk", "list", "junk", "auto_reply"):
                return None
            known = _is_verified(mail, address, self._authserv)
            files = tuple(_files(uid, mail))
            text = _text(mail)
            subject = " ".join(str(mail.get("Subject", "")).split())[:200]
            before = _ID.findall(str(mail.get("References", "")) + str(mail.get("In-Reply-To", "")))
            own = (
                _ID.findall(str(mail.get("Message-ID", ""))) or [f"<{hashlib.sha256(raw).hexdigest()}@none>"]
            )[0]
            others = [each for _, each in getaddresses([str(mail.get("To", "")), str(mail.get("Cc", ""))])]
        except (ValueError, LookupError, AttributeError, TypeError):
            return None
        root = before[0] if before else own
        self._subjects[root] = subject
        if not before and subject:
            text = f"{subject}\n\n{text}".strip()
        if not text and not files:
            return None
        return Incoming(
            id=own,
            place=Place(address, root),
            sender=Sender(address, person[0], vouched=known),
            text=text,
            files=files,
            # Answers go to the sender alone.
            group=False,
            mentioned=self._address in [each.lower() for each in others] or not others,
            message=before[-1] if before else "",
        )

    def _mail(self, place: Place, reply: str, key: str) -> EmailMessage:
        mail = EmailMessage(policy=email.policy.SMTP)
        if not re.fullmatch(r"[^\s<>,;:\"]+@[^\s<>,;:\"]+", place.chat):
            raise UndeliverableError("This is not a mail address.")
        mail["From"], mail["To"] = self._address, place.chat
        subject = self._subjects.get(place.thread, "")
        mail["Subject"] = f"Re: {subject.removeprefix('Re: ')}" if subject else "Hermes"
        mail["Date"] = formatdate()
        # The same one when it is tried again, by which programs of mail leave out the second.
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        mail["Message-ID"] = f"<{name}@{self._address.partition('@')[2] or 'localhost'}>"
        answered = [each for each in dict.fromkeys((place.thread, reply)) if _ID.fullmatch(each)]
        if answered:
            mail["In-Reply-To"], mail["References"] = answered[-1], " ".join(answered)
        mail["Auto-Submitted"] = "auto-replied"
        return mail

    def _post(self, mail: EmailMessage) -> str:
        host, port = self._smtp
        try:
            if self._tls and port == 465:
                server: smtplib.SMTP = smtplib.SMTP_SSL(
                    host, port, timeout=SECONDS, context=ssl.create_default_context()
                )
            else:
                server = smtplib.SMTP(host, port, timeout=SECONDS)
            with server:
                if self._tls and port != 465:
                    server.starttls(context=ssl.create_default_context())
                server.login(self._address, self._password)
                server.send_message(mail)
        except smtplib.SMTPAuthenticationError as error:
            raise BadCredentialsError("The mail server does not take the password; set it again.") from error
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            kind = UndeliverableError if all(code >= 500 for code in codes) else GatewayError
            raise kind(f"The mail server refuses the recipient with {codes}.") from error
        except smtplib.SMTPResponseException as error:
            # Only these are about the mail; others are about the server, such as a greeting with 554.
            is_about_it = isinstance(error, (smtplib.SMTPSenderRefused, smtplib.SMTPDataError))
            kind = UndeliverableError if is_about_it and error.smtp_code >= 500 else GatewayError
            raise kind(f"The mail server answers {error.smtp_code}.") from error
        except (smtplib.SMTPException, OSError) as error:
            raise GatewayError(f"The mail server cannot be reached ({type(error).__name__}).") from error
        except ODD as error:
            raise odd_answer("The mail server", error) from error
        return str(mail["Message-ID"])


class _ImapFolder:
    """The inbox, read over one connection. All methods block; connection errors become `GatewayError`."""

    def __init__(self, server: tuple[str, int], tls: bool) -> None:
        self._server = server
        self._tls = tls
        self._connection: _ImapConnection | None = None
        self._stopped = False

    def open(self, user: str, password: str) -> None:
        host, port = self._server
        with _imap_faults():
            self._connection = (
                _TlsImapConnection(host, port, ssl_context=ssl.create_default_context(), timeout=SECONDS)
                if self._tls
                else _ImapConnection(host, port, timeout=SECONDS)
            )
            try:
                self._connection.login(user, password)
            except imaplib.IMAP4.abort:
                raise
            except imaplib.IMAP4.error as error:
                raise BadCredentialsError(
                    "The mail server does not take the password; set it again."
                ) from error
            self._require_ok(self._connection.select("INBOX"))

    def unseen(self) -> list[str]:
        with _imap_faults():
            # What the server tells from here on may not be among what is found.
            self._imap.response("EXISTS")
            found = self._require_ok(self._imap.uid("SEARCH", "UNSEEN"))
            return [each.decode("ascii") for each in (found[0] or b"").split()]

    def read(self, uid: str) -> bytes:
        if not uid.isdigit():
            raise UndeliverableError("The mail is no longer there.")
        with _imap_faults():
            found = self._require_ok(self._imap.uid("FETCH", uid, f"(BODY.PEEK[]<0.{LARGEST}>)"))
        for each in found:
            if isinstance(each, tuple):
                return bytes(each[1])
        raise UndeliverableError("The mail is no longer there.")

    def mark(self, uid: str) -> None:
        with _imap_faults():
            self._require_ok(self._imap.uid("STORE", uid, "+FLAGS.SILENT", r"(\Seen)"))

    def wait(self, poll: float) -> None:
        """Wait for new mail, or until `stop` is called.

        A server without IDLE does not report new mail; the wait then lasts `poll` seconds.
        """
        with _imap_faults():
            connection = self._imap
            if connection.response("EXISTS")[1] != [None]:
                # It came with the end of another command, and a server tells it once.
                return
            if "IDLE" not in connection.capabilities:
                end = time.monotonic() + poll
                while not self._stopped and time.monotonic() < end:
                    time.sleep(min(0.25, poll))
                if not self._stopped:
                    self._require_ok(connection.noop())
                return
            connection.send(b"HERMES IDLE\r\n")
            news = self._lines_before(b"+")
            end = time.monotonic() + IDLE
            while not news and not self._stopped and time.monotonic() < end:
                news = connection.has_input(0.25)
            connection.send(b"DONE\r\n")
            self._lines_before(b"HERMES ")

    def _lines_before(self, start: bytes) -> bool:
        """Read up to a line that begins with `start`; return whether it skipped other lines."""
        others = False
        while not (line := self._imap.readline()).startswith(start):
            if not line:
                raise GatewayError("The mail server closed the connection.")
            if line.startswith(b"HERMES "):
                raise GatewayError("The mail server does not wait for news.")
            others = True
        return others

    def stop(self) -> None:
        """End the current `wait`. May be called from any thread."""
        self._stopped = True

    def close(self) -> None:
        """Log out and disconnect. Never raises."""
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.logout()
            except (OSError, imaplib.IMAP4.error):
                connection.shutdown()

    @property
    def _imap(self) -> _ImapConnection:
        if self._connection is None:
            raise GatewayError("The mail server is not connected.")
        return self._connection

    @staticmethod
    def _require_ok(answer: tuple[str, Any]) -> Any:
        if answer[0] != "OK":
            raise GatewayError(f"The mail server answers {answer[0]}.")
        return answer[1]


class _ImapConnection(imaplib.IMAP4):
    """An IMAP connection that knows which bytes it has read but not yet returned.

    The library hides this. Waiting on the socket alone would miss data that arrived together with earlier
    lines.
    """

    _held: bytearray

    def open(self, *arguments: Any, **more: Any) -> None:
        self._held = bytearray()
        super().open(*arguments, **more)

    def read(self, size: int) -> bytes:
        while len(self._held) < size and self._fill():
            pass
        return self._take(size)

    def readline(self) -> bytes:
        searched = 0
        while (end := self._held.find(b"\n", searched)) < 0:
            searched = len(self._held)
            if searched > LONGEST_LINE:
                raise self.abort("The line is too long.")
            if not self._fill():
                return self._take(searched)
        return self._take(end + 1)

    def has_input(self, seconds: float) -> bool:
        """Return whether data from the server arrives within `seconds`; also True if it disconnected."""
        held = self.sock
        if self._held or (isinstance(held, ssl.SSLSocket) and held.pending()):
            return True
        return wait_until_ready(held, seconds=seconds)

    def _fill(self) -> bool:
        data = self.sock.recv(65_536)
        self._held += data
        return bool(data)

    def _take(self, size: int) -> bytes:
        data = bytes(self._held[:size])
        del self._held[:size]
        return data


class _TlsImapConnection(_ImapConnection, imaplib.IMAP4_SSL):
    """An `_ImapConnection` over TLS."""


@contextmanager
def _imap_faults() -> Iterator[None]:
    """Turn connection errors into `GatewayError`."""
    try:
        yield
    except (OSError, imaplib.IMAP4.error) as error:
        raise GatewayError(f"The mail server cannot be reached ({type(error).__name__}).") from error
    except ODD as error:
        raise odd_answer("The mail server", error) from error


def _parse(raw: bytes) -> EmailMessage:
    found = BytesParser(policy=email.policy.default).parsebytes(raw)
    assert isinstance(found, EmailMessage)
    return found


def _is_verified(mail: EmailMessage, address: str, server: str) -> bool:
    """Return whether the user's mail server has verified the sender's address.

    Only the topmost header counts: that server adds it there, above any forged one.
    """
    results = mail.get_all("Authentication-Results") or []
    if not results:
        return False
    first = " ".join(str(results[0]).lower().split())
    name = first.partition(";")[0].strip().split(" ")[0]
    if name != server:
        return False
    if re.search(r"(^|;|\s)dmarc=pass\b", first):
        return (
            re.search(rf"\bheader\.from=@?{re.escape(address.partition('@')[2])}(\s|;|\)|$)", first)
            is not None
        )
    return False


def _text(mail: EmailMessage) -> str:
    """Return the newly written plain text of a mail, without signature and quotations; may be empty."""
    part = mail.get_body(("plain", "html"))
    if part is None:
        return ""
    content = part.get_content()
    if part.get_content_subtype() == "html":
        content = _plain(content)
    lines: list[str] = []
    content = _WRAPPED.sub("", content.replace("\r\n", "\n"))
    if (below := _BELOW.search(content)) is not None:
        content = content[: below.start()]
    for line in content.split("\n"):
        if line.rstrip() == "--":
            break
        if not _QUOTED.match(line):
            lines.append(line)
    return "\n".join(lines).strip()


def _plain(page: str) -> str:
    try:
        from html_to_markdown import convert
    except ModuleNotFoundError:
        return html.unescape(re.sub(r"(?is)<(style|script)\b.*?</\1>|<[^>]*>", " ", page))
    return convert(page).content or ""


def _files(uid: str, mail: EmailMessage) -> Iterator[IncomingFile]:
    for number, part in enumerate(mail.iter_attachments()):
        media, data = part.get_content_type(), part.get_payload(decode=True)
        size = len(data) if isinstance(data, bytes) else 0
        name = part.get_filename() or f"file-{number}{mimetypes.guess_extension(media) or ''}"
        yield IncomingFile(f"{uid}.{number}", name, file_kind(media), media, size)


GATEWAY = GatewayKind(
    name="email",
    title="E-mail",
    make=EmailAdapter,
    secrets=(
        Secret(
            field="password_env", variable="EMAIL_PASSWORD", asked="Password of the account (one for apps)"
        ),
    ),
    fields={
        "address": "Own address",
        "imap_host": "Server that mail is read from",
        "smtp_host": "Server that mail is sent by",
    },
)
