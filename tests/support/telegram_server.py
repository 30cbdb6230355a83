"""A strict Bot API on loopback: methods, parameters, limits and updates as https://core.telegram.org/bots/api
describes them; the updates are those of its documentation, of which python-telegram-bot's tests use the same.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from email.message import Message
from email.parser import BytesParser
from html import unescape
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl

from tests.support.chat_platform import OWNER, STRANGER, LocalPlatform, LoopbackServer, ShownMessage, reply

TOKEN = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"
BOT = {
    "id": 123456,
    "is_bot": True,
    "first_name": "Hermes",
    "username": "hermes_bot",
    "can_join_groups": True,
    "can_read_all_group_messages": False,
    "supports_inline_queries": False,
}
_COMMON = {
    *("chat_id", "message_thread_id", "disable_notification", "protect_content", "reply_parameters"),
    *("reply_markup", "parse_mode", "caption", "allow_sending_without_reply"),
}
_METHODS: dict[str, set[str]] = {
    "getMe": set(),
    "getUpdates": {"offset", "limit", "timeout", "allowed_updates"},
    "sendMessage": {*_COMMON, "text", "entities", "link_preview_options"},
    "editMessageText": {
        "chat_id",
        "message_id",
        "text",
        "parse_mode",
        "reply_markup",
        "link_preview_options",
    },
    "sendChatAction": {"chat_id", "action", "message_thread_id"},
    "answerCallbackQuery": {"callback_query_id", "text", "show_alert", "cache_time"},
    "sendPhoto": {*_COMMON, "photo"},
    "sendDocument": {*_COMMON, "document"},
    "sendVoice": {*_COMMON, "voice"},
    "getFile": {"file_id"},
}
_TAGS = {"b", "i", "s", "u", "code", "pre", "a", "blockquote"}


class _RefusedError(Exception):
    def __init__(self, status: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.status = status
        self.parameters = parameters
        self.meant = False
        """Whether a test asked for it."""


class TelegramServer(LocalPlatform):
    """The API, its files, and what people do."""

    name, owner, stranger = "telegram", OWNER, STRANGER

    def __init__(self) -> None:
        self.shown: list[ShownMessage] = []
        self.refusals: list[str] = []
        self.actions: list[str] = []
        self.answered: list[dict[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.polls = 0
        self._updates: list[dict[str, Any]] = []
        self._confirmed: list[dict[str, Any]] = []
        self._last: dict[str, Any] = {}
        self._number = 10_000
        self.refuse: tuple[int, str, dict[str, Any]] | None = None
        """Status, description and parameters with which the next request of ours is refused."""
        self._limited = (0, 0)
        self._broken = 0
        self._changed = threading.Condition()
        self._server = LoopbackServer(self._answer)

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    def settings(self) -> dict[str, Any]:
        return {"enabled": True, "api_url": self._server.url, "allow": [], "approve": [OWNER]}

    def secrets(self) -> dict[str, str]:
        return {"TELEGRAM_BOT_TOKEN": TOKEN}

    # What people do

    def write(self, text: str, sender: str = OWNER, chat: str = "", **more: Any) -> str:
        """A message; its id. `more` are further fields of it, `group` makes it one of a group."""
        group = more.pop("group", False)
        id = self._next()
        message = {
            "message_id": id,
            "from": _user(sender),
            "chat": {"id": int(chat), "type": "supergroup", "title": "Team"}
            if group
            else {"id": int(chat or sender), "type": "private", "first_name": "Test", "username": "Test"},
            "date": 1441645532,
            **({"text": text} if text and not any(k in more for k in ("photo", "document")) else {}),
            **({"caption": text} if text and any(k in more for k in ("photo", "document")) else {}),
            **more,
        }
        if text.startswith("/") and "text" in message:
            message["entities"] = [{"type": "bot_command", "offset": 0, "length": len(text.split()[0])}]
        self._bring({"message": message})
        return str(id)

    def photo(self, data: bytes, caption: str = "", sender: str = OWNER) -> str:
        """A picture, in the two sizes that the server makes."""
        self.files["AgACphoto"] = data
        sizes = [
            {"file_id": "AgACsmall", "file_unique_id": "s", "width": 90, "height": 90, "file_size": 1},
            {
                "file_id": "AgACphoto",
                "file_unique_id": "l",
                "width": 800,
                "height": 800,
                "file_size": len(data),
            },
        ]
        return self.write(caption, sender, photo=sizes)

    def voice(self, data: bytes, sender: str = OWNER) -> str:
        """A voice message."""
        self.files["AwACvoice"] = data
        voice = {"file_id": "AwACvoice", "file_unique_id": "v", "duration": 2, "mime_type": "audio/ogg",
                 "file_size": len(data)}  # fmt: skip
        return self.write("", sender, voice=voice)

    def document(self, data: bytes, name: str, sender: str = OWNER) -> str:
        """A file."""
        self.files["BQACfile"] = data
        document = {"file_id": "BQACfile", "file_unique_id": "d", "file_name": name,
                    "mime_type": "application/pdf", "file_size": len(data)}  # fmt: skip
        return self.write("", sender, document=document)

    def change(self, id: str, text: str, sender: str = OWNER) -> None:
        """An edit of a message."""
        message = {
            "message_id": int(id),
            "from": _user(sender),
            "chat": {"id": int(sender), "type": "private", "first_name": "Test"},
            "date": 1441645532,
            "edit_date": 1441646600,
            "text": text,
        }
        self._bring({"edited_message": message})

    def press(self, message: ShownMessage, label: str, sender: str = OWNER) -> None:
        """A press of a button."""
        value = next(value for name, value in message.buttons if name == label)
        query = {
            "id": str(4_382_000_000_000 + self._next()),
            "from": _user(sender),
            "message": {
                "message_id": int(message.id),
                "from": BOT,
                "chat": {"id": int(message.chat), "type": "private", "first_name": "Test"},
                "date": 1441645532,
                "text": message.text,
            },
            "chat_instance": "42",
            "data": value,
        }
        self._bring({"callback_query": query})

    def again(self) -> None:
        """The last update once more, under its old number and under a new one."""
        with self._changed:
            self._updates.append(dict(self._last))
            self._updates.append({**self._last, "update_id": self._next()})
            self._changed.notify_all()

    def limit(self, count: int, seconds: int) -> None:
        """Refuse so many messages with 429."""
        self._limited = (count, seconds)

    def cut(self, count: int) -> None:
        """Break so many connections off."""
        self._broken = count
        with self._changed:
            self._changed.notify_all()

    @property
    def unconfirmed(self) -> int:
        """Updates that were not confirmed by a higher offset."""
        return len(self._updates)

    def bring(self, update: dict[str, Any]) -> None:
        """Any update, without its number."""
        self._bring(update)

    def _bring(self, update: dict[str, Any]) -> None:
        with self._changed:
            self._last = {"update_id": self._next(), **update}
            self._updates.append(self._last)
            self._changed.notify_all()

    def _next(self) -> int:
        self._number += 1
        return self._number

    # The API

    def _answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        path = handler.path
        if path.startswith(f"/file/bot{TOKEN}/"):
            data = self.files.get(path.rsplit("/", 1)[1])
            reply(
                handler,
                200 if data is not None else 404,
                data or b"",
                Content_Type="application/octet-stream",
            )
            return
        try:
            if not path.startswith(f"/bot{TOKEN}/"):
                raise _RefusedError(401, "Unauthorized")
            result = self._call(path.rsplit("/", 1)[1], _parameters(handler.headers, body), handler)
            status, answer = 200, {"ok": True, "result": result}
        except _RefusedError as refusal:
            status = refusal.status
            answer = {"ok": False, "error_code": status, "description": str(refusal)}
            if refusal.parameters:
                answer["parameters"] = refusal.parameters
            if status not in (401, 429) and not refusal.meant:
                self.refusals.append(str(refusal))
        except ConnectionAbortedError:
            handler.close_connection = True
            return
        reply(handler, status, json.dumps(answer).encode())

    def _call(self, method: str, given: dict[str, Any], handler: Any) -> Any:
        if method not in _METHODS:
            raise _RefusedError(404, "Not Found")
        if unknown := set(given) - _METHODS[method]:
            raise _RefusedError(400, f"Bad Request: {method} has no {unknown}")
        if self.refuse is not None and method != "getUpdates":
            (status, words, parameters), self.refuse = self.refuse, None
            refusal = _RefusedError(status, words, **parameters)
            refusal.meant = True
            raise refusal
        match method:
            case "getMe":
                return BOT
            case "getUpdates":
                return self._poll(given)
            case "sendChatAction":
                self.actions.append(given["action"])
                return True
            case "answerCallbackQuery":
                self.answered.append(given)
                return True
            case "getFile":
                if given["file_id"] not in self.files:
                    raise _RefusedError(400, "Bad Request: invalid file_id")
                size = len(self.files[given["file_id"]])
                return {"file_id": given["file_id"], "file_unique_id": "u", "file_size": size,
                        "file_path": f"files/{given['file_id']}"}  # fmt: skip
            case "editMessageText":
                return self._edit(given)
            case _:
                return self._send(method, given)

    def _poll(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        offset, wait = int(given.get("offset") or 0), float(given.get("timeout") or 0)
        self.polls += 1
        end = time.monotonic() + min(wait, 20)
        with self._changed:
            while True:
                if self._broken:
                    self._broken -= 1
                    raise ConnectionAbortedError
                self._updates = [each for each in self._updates if each["update_id"] >= offset]
                if self._updates or time.monotonic() >= end:
                    return self._updates[:100]
                self._changed.wait(max(0.0, end - time.monotonic()))

    def _send(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        count, seconds = self._limited
        if count:
            self._limited = (count - 1, seconds)
            raise _RefusedError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
        if not re.fullmatch(r"-?\d+", str(given.get("chat_id", ""))):
            raise _RefusedError(400, "Bad Request: chat not found")
        file = next((given[k] for k in ("photo", "document", "voice") if k in given), b"")
        text = self._text(given, "text" if method == "sendMessage" else "caption", bool(file))
        message = ShownMessage(
            str(self._next()), str(given["chat_id"]), text, _buttons(given), [text], file, given
        )
        self.shown.append(message)
        return self._as_message(message)

    def _edit(self, given: dict[str, Any]) -> dict[str, Any]:
        found = [e for e in self.shown if (e.id, e.chat) == (str(given["message_id"]), str(given["chat_id"]))]
        if not found:
            raise _RefusedError(400, "Bad Request: message to edit not found")
        text, buttons = self._text(given, "text", False), _buttons(given)
        if (text, buttons) == (found[0].text, found[0].buttons):
            raise _RefusedError(400, "Bad Request: message is not modified: specified new message content")
        found[0].text, found[0].buttons = text, buttons
        found[0].versions.append(text)
        found[0].form = {**found[0].form, **given}
        return self._as_message(found[0])

    def _as_message(self, message: ShownMessage) -> dict[str, Any]:
        return {"message_id": int(message.id), "from": BOT, "date": 1441645532, "text": message.text,
                "chat": {"id": int(message.chat), "type": "private", "first_name": "Test"}}  # fmt: skip

    def _text(self, given: Mapping[str, Any], name: str, may_be_empty: bool) -> str:
        text = str(given.get(name, ""))
        if given.get("parse_mode") == "HTML":
            text = _parsed(text)
        if not text.strip() and not may_be_empty:
            raise _RefusedError(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > (4096 if name == "text" else 1024):
            raise _RefusedError(400, "Bad Request: message is too long")
        return text


class _Entities(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in _TAGS:
            raise _RefusedError(400, f"Bad Request: can't parse entities: Unsupported start tag {tag!r}")
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise _RefusedError(400, f"Bad Request: can't parse entities: Unmatched end tag {tag!r}")

    def handle_data(self, data: str) -> None:
        self.text += data


def _parsed(text: str) -> str:
    parser = _Entities()
    parser.feed(text)
    parser.close()
    if parser.open:
        raise _RefusedError(400, "Bad Request: can't parse entities: Can't find end tag")
    return unescape(parser.text)


def _buttons(given: Mapping[str, Any]) -> list[tuple[str, str]]:
    markup = json.loads(given["reply_markup"]) if given.get("reply_markup") else {}
    found = []
    for row in markup.get("inline_keyboard", []):
        for each in row:
            if not 1 <= len(each["callback_data"].encode()) <= 64:
                raise _RefusedError(400, "Bad Request: BUTTON_DATA_INVALID")
            found.append((each["text"], each["callback_data"]))
    return found


def _user(id: str) -> dict[str, Any]:
    names = {"first_name": "Test", "last_name": "Lastname", "username": "Test"}
    return {"id": int(id), "is_bot": False, **names, "language_code": "en"}


def _parameters(headers: Message, body: bytes) -> dict[str, Any]:
    kind = headers.get("content-type", "")
    if kind.startswith("multipart/form-data"):
        whole = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
        found: dict[str, Any] = {}
        for part in whole.get_payload():  # type: ignore[union-attr]
            name = part.get_param("name", header="content-disposition")  # type: ignore[union-attr]
            data = part.get_payload(decode=True)  # type: ignore[union-attr]
            found[name] = data if part.get_filename() else data.decode()  # type: ignore[union-attr]
        # A file may be named by `attach://`.
        for name, value in list(found.items()):
            if isinstance(value, str) and value.startswith("attach://"):
                found[name] = found.pop(value[9:])
        return found
    if kind.startswith("application/json"):
        return json.loads(body)
    return dict(parse_qsl(body.decode(), keep_blank_values=True))
