"""Paired devices with their tokens, and pairing codes. Only hashes of tokens and codes are stored.

All data is in one private file, `serve/devices.json` in the home, changed under a lock. So `hermes serve
pair` and `revoke` work while a service runs; it reads the change at its next request.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError, HermesError
from tools.kit.files import lock_file, open_lock, write_atomically
from tools.text.safe_text import clean
from tools.text.words import one_line

Scope = Literal["look", "talk", "approve"]
SCOPES: tuple[Scope, ...] = ("look", "talk", "approve")
"""The scopes; each includes those before it."""
CODE_LIFE = 600.0
"""Seconds for which a code pairs a device."""
CODE_TRIES = 5
"""The number of wrong codes with the same first part after which that code is void."""
CODES_KEPT = 20
NAME_LENGTH = 60
SEEN_EVERY = 60.0
"""Seconds between two writes of the time at which a device was last seen."""
TOKEN_MARK = "hmt_"
"""The prefix of tokens, by which secret scanners and the redaction in Hermes recognize them."""
_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
"""The characters of codes, without those that look alike."""


class WrongCodeError(HermesError):
    """Raised for a pairing code that is wrong, used, expired or void."""


def includes(held: Scope, needed: Scope) -> bool:
    """Return whether a scope includes another one."""
    return SCOPES.index(held) >= SCOPES.index(needed)


@dataclass(frozen=True, slots=True)
class Device:
    """A paired device. Times are seconds since the epoch."""

    id: str
    name: str
    scope: Scope
    hash: str
    """The SHA-256 hash of the token's secret part, which is random enough not to need a slow hash."""
    created: float
    seen: float = 0.0
    address: str = ""
    """The address from which the device connected last."""


@dataclass(frozen=True, slots=True)
class PairingCode:
    """A code that can pair one device, once."""

    id: str
    """The first part of the code, which identifies it; the rest is the secret."""
    hash: str
    scope: Scope
    name: str
    expires: float
    tries: int = 0


@dataclass(frozen=True, slots=True)
class _Contents:
    devices: tuple[Device, ...] = ()
    codes: tuple[PairingCode, ...] = ()


class Credentials:
    """Reads and changes the file with devices and pairing codes."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._file = folder / "devices.json"
        self._now = now
        self._read: tuple[tuple[int, int, int] | None, _Contents] | None = None

    def devices(self) -> tuple[Device, ...]:
        """Return all paired devices, oldest first. Raises `ConfigError`."""
        return self._contents().devices

    def device(self, id: str) -> Device | None:
        """Return the device with this id; None if there is none. Raises `ConfigError`."""
        return next((each for each in self.devices() if each.id == id), None)

    def make_code(self, scope: Scope, name: str = "") -> tuple[str, float]:
        """Create a pairing code; return it with its expiry time in epoch seconds. Raises `ConfigError`."""
        first, second, third = ("".join(secrets.choice(_LETTERS) for _ in range(4)) for _ in range(3))
        code = PairingCode(first, _hash(second + third), scope, _short_name(name), self._now() + CODE_LIFE)
        with self._changing() as contents:
            codes = (*self._living(contents.codes), code)[-CODES_KEPT:]
            self._write(replace(contents, codes=codes))
        return f"{first}-{second}-{third}", code.expires

    def pair(self, code: str, name: str = "", address: str = "") -> tuple[str, Device]:
        """Pair a device with a code; return its token, which is not stored, and the device.

        Raises `WrongCodeError`, or `ConfigError` if the file cannot be used.
        """
        letters = "".join(each for each in code.upper() if each.isalnum())
        id, secret = letters[:4], letters[4:]
        with self._changing() as contents:
            codes = self._living(contents.codes)
            known = next((each for each in codes if each.id == id), None)
            if known is None:
                raise WrongCodeError("This code is wrong, used or expired; make a new one.")
            if not hmac.compare_digest(known.hash, _hash(secret)):
                known = replace(known, tries=known.tries + 1)
                left = [known if each.id == id else each for each in codes]
                self._write(replace(contents, codes=tuple(self._living(left))))
                raise WrongCodeError("This code is wrong, used or expired; make a new one.")
            token_secret = secrets.token_urlsafe(32)
            device = Device(
                id=secrets.token_hex(4),
                name=known.name or _short_name(name) or "device",
                scope=known.scope,
                hash=_hash(token_secret),
                created=self._now(),
                seen=self._now(),
                address=address,
            )
            rest = tuple(each for each in codes if each.id != id)
            self._write(_Contents((*contents.devices, device), rest))
        return f"{TOKEN_MARK}{device.id}_{token_secret}", device

    def find(self, token: str) -> Device | None:
        """Return the device that has a token; None if the token is wrong or revoked. Raises `ConfigError`."""
        id, secret = token_parts(token)
        device = self.device(id) if id else None
        if device is None or not hmac.compare_digest(device.hash, _hash(secret)):
            return None
        return device

    def note_visit(self, device: Device, address: str) -> None:
        """Record the time and address of a device's last request.

        For an unchanged address the file is written at most every `SEEN_EVERY` seconds; errors are ignored.
        """
        if self._now() - device.seen < SEEN_EVERY and device.address == address:
            return
        with contextlib.suppress(HermesError), self._changing() as contents:
            known = [
                replace(each, seen=self._now(), address=address) if each.id == device.id else each
                for each in contents.devices
            ]
            self._write(replace(contents, devices=tuple(known)))

    def revoke(self, word: str) -> Device:
        """Remove a device by its id or name, and return it. Raises `ConfigError` if none or several match."""
        with self._changing() as contents:
            found = [each for each in contents.devices if word in (each.id, each.name)]
            exact = [each for each in found if each.id == word] or found
            if len(exact) != 1:
                why = "There is no device" if not exact else "Several devices are called"
                raise ConfigError(f"{why} {clean(word)[:40]}; `hermes serve devices` lists their ids.")
            left = tuple(each for each in contents.devices if each.id != exact[0].id)
            self._write(replace(contents, devices=left))
        return exact[0]

    def _living(self, codes: Any) -> tuple[PairingCode, ...]:
        now = self._now()
        return tuple(each for each in codes if each.expires > now and each.tries < CODE_TRIES)

    # The file

    def _contents(self) -> _Contents:
        """Return the file's contents; it is read again only after a change. Raises `ConfigError`."""
        try:
            status = self._file.stat()
            stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        except FileNotFoundError:
            stamp = None
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be read: {error.strerror}.") from error
        if self._read is None or self._read[0] != stamp:
            self._read = (stamp, _Contents() if stamp is None else self._parse_file())
        return self._read[1]

    def _parse_file(self) -> _Contents:
        try:
            data = json.loads(self._file.read_bytes())
            return _Contents(
                tuple(Device(**each) for each in data["devices"]),
                tuple(PairingCode(**each) for each in data["codes"]),
            )
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be read: {error.strerror}.") from error
        except (ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{self._file} is damaged; remove it and pair your devices again.") from error

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Contents]:
        private_folder(self._folder)
        try:
            lock = open_lock(self._folder / "devices.lock")
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be used: {error.strerror}.") from error
        try:
            lock_file(lock)
            self._read = None
            yield self._contents()
        finally:
            os.close(lock)

    def _write(self, contents: _Contents) -> None:
        data = json.dumps(
            {
                "devices": [asdict(each) for each in contents.devices],
                "codes": [asdict(each) for each in contents.codes],
            },
            indent=1,
        )
        try:
            write_atomically(self._file, data.encode(), PRIVATE_FILE, replace_any=True)
        except OSError as error:
            raise ConfigError(f"{self._file} cannot be written: {error.strerror}.") from error
        self._read = None


def token_parts(token: str) -> tuple[str, str]:
    """Return the device id and the secret in a token; two empty strings for an invalid token. Pure."""
    if not token.startswith(TOKEN_MARK) or len(token) > 200 or not token.isascii():
        return "", ""
    id, _, secret = token[len(TOKEN_MARK) :].partition("_")
    return (id, secret) if id and secret else ("", "")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def _short_name(name: str) -> str:
    return one_line(name)[:NAME_LENGTH]


MOST_KEYS = 1_000
"""The largest number of names whose failures are counted separately."""
ANYBODY = ""
"""The name under which failures without a known name are counted."""


class Lockout:
    """Counts failed attempts within a time span, by the name of a device or code."""

    def __init__(self, most: int, span: float, now: Callable[[], float] = time.monotonic) -> None:
        """Allow at most `most` failures in `span` seconds."""
        self._most = most
        self._span = span
        self._now = now
        self._faults: dict[str, deque[float]] = {}

    def record_failure(self, key: str) -> float:
        """Record a failure; return the seconds to wait if there were too many, else 0."""
        now = self._now()
        if key not in self._faults and len(self._faults) >= MOST_KEYS:
            self._forget(now)
        if key not in self._faults and len(self._faults) >= MOST_KEYS:
            key = ANYBODY
        faults = self._faults.setdefault(key, deque(maxlen=self._most + 1))
        while faults and faults[0] <= now - self._span:
            faults.popleft()
        faults.append(now)
        return faults[0] + self._span - now if len(faults) > self._most else 0.0

    def _forget(self, now: float) -> None:
        """Drop the names whose last failure is older than the span."""
        old = [key for key, faults in self._faults.items() if faults[-1] <= now - self._span]
        for key in old:
            del self._faults[key]


class RateLimit:
    """A token bucket per device: an average number of requests per second, with bursts."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = burst
        self._now = now
        self._buckets: dict[str, tuple[float, float]] = {}
        """The requests left at a time, by device."""

    def count_request(self, key: str) -> float:
        """Count one request; return 0 if it is allowed, else the seconds to wait."""
        now = self._now()
        left, since = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < 1:
            self._buckets[key] = (left, now)
            return (1 - left) / self._rate
        self._buckets[key] = (left - 1, now)
        if len(self._buckets) > MOST_KEYS:
            self._buckets = {
                name: (held, at)
                for name, (held, at) in self._buckets.items()
                if held + (now - at) * self._rate < self._burst
            }
        return 0.0
