"""Secrets in text: their shapes, and masking them."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tools.kit.lazy_pattern import lazy_pattern

_FILE = Path(__file__).with_name("secret_shapes.tsv")
_NEAR = 64
"""Characters before a token that may contain the text by which its shape is recognised."""
_TOKEN = lazy_pattern(r"[A-Za-z0-9_+/.~:=$-]{16,}")
_DIGIT = lazy_pattern(r"[0-9]")
_LETTERS_ONLY = 30
"""The length from which a token without a digit counts as a possible secret."""
_HASH = lazy_pattern(r"(?:--hash=)?(?:sha\d+[:-])?[0-9a-f]+")
_GIVEN = ("=", ">", ":", "|", ",")
"""Text allowed between a name and its value."""
_GAP = 8
"""The largest number of blanks and quotes between that and the value."""
_SHORT = 2_000
"""The length up to which a text is checked as a whole."""


class Shape(NamedTuple):
    """One kind of secret, with the regular expression that finds it."""

    name: str
    needles: tuple[str, ...]
    """Texts in lower case, one of which is in every match; empty if none is known."""
    group: str
    """The part that is the secret; `0` is the whole."""
    pattern: str


@cache
def shapes() -> tuple[Shape, ...]:
    """Return all shapes of secrets. The list is read on first use (about 1 ms)."""
    found: list[Shape] = []
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, needles, group, pattern = line.split("\t")
            found.append(Shape(name, tuple(needles.split()), group, pattern))
    return tuple(found)


@cache
def _by_beginning() -> dict[str, tuple[str, ...]]:
    """Return all needles, grouped by their first three characters."""
    found: dict[str, set[str]] = {}
    for shape in shapes():
        for needle in shape.needles:
            found.setdefault(needle[:3], set()).add(needle)
    return {beginning: tuple(sorted(needles)) for beginning, needles in found.items()}


def mask_shapes(text: str, stub: str, is_secret: Callable[[str, bool], bool]) -> str:
    """Return `text` with every listed secret replaced by `stub`, after the prefix that names its kind.

    `is_secret` is called for each match. It gets the value, and whether the value's form alone identifies it,
    without a name before it.
    """
    near = _near_tokens(text)
    if not near:
        return text
    there = _needles_in(near)
    for shape in shapes():
        if not shape.needles:
            text = _masked(text, shape, stub, is_secret)
        elif found := [needle for needle in shape.needles if needle in there]:
            text = _masked_around(text, found, shape, stub, is_secret)
    return text


def _needles_in(near: str) -> set[str]:
    known = _by_beginning()
    beginnings = known.keys() & set(map("".join, zip(near, near[1:], near[2:], strict=False)))
    return {needle for beginning in beginnings for needle in known[beginning] if needle in near}


def _masked_around(
    text: str, needles: list[str], shape: Shape, stub: str, is_secret: Callable[[str, bool], bool]
) -> str:
    """Mask secrets only in lines that contain one of the needles, and in the lines directly after these."""
    folded = text.lower()
    if len(text) < _SHORT or len(folded) != len(text):
        return _masked(text, shape, stub, is_secret)
    pieces: list[str] = []
    done = 0
    while (at := min((at for each in needles if (at := folded.find(each, done)) >= 0), default=-1)) >= 0:
        start = max(done, text.rfind("\n", 0, at) + 1)
        end = text.find("\n", text.find("\n", at) + 1) + 1 if "\n" in text[at:] else 0
        end = end or len(text)
        pieces += text[done:start], _masked(text[start:end], shape, stub, is_secret)
        done = end
    return "".join((*pieces, text[done:]))


def _masked(text: str, shape: Shape, stub: str, is_secret: Callable[[str, bool], bool]) -> str:
    pattern = _compiled(shape.pattern)
    group: str | int = int(shape.group) if shape.group.isdigit() else shape.group

    def masked(match: re.Match[str]) -> str:
        value = match[group]
        if not value:
            return match[0]
        folded = value.lower()
        own = [needle for needle in shape.needles if needle in folded]
        if not is_secret(value, bool(own) or not shape.needles):
            return match[0]
        kept = max((len(needle) for needle in own if folded.startswith(needle)), default=0)
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][: start + kept] + stub + match[0][end:]

    return pattern.sub(masked, text)


def _near_tokens(text: str) -> str:
    """Return, in lower case, the tokens of a text together with the names that they are assigned to."""
    found: list[str] = []
    for token in _TOKEN.finditer(text):
        word = token[0]
        if not _DIGIT.search(word) and len(word) < _LETTERS_ONLY:
            continue
        start = token.start()
        if text[max(0, start - _GAP) : start].rstrip("\"'` \t\r\n")[-1:] in _GIVEN:
            found.append(text[max(0, start - _NEAR) : token.end()])
        elif not _HASH.fullmatch(word):
            found.append(word)
    return "\n".join(found).lower()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(pattern)


MASK = "…redacted"

_SECRET_WORD = lazy_pattern(
    "(?:API|PRIVATE)?KEYS?|AUTH(?:ORIZATION)?|BEARER|COOKIE|CRED(?:ENTIAL)?S?|JWT|PAT|PASS(?:CODE)?"
    "|.*(?:TOKEN|SECRET|PASSWORD|PASSPHRASE|PASSWD|APIKEY)S?"
)
_HARMLESS_NAMES = frozenset(
    {"SSH_AUTH_SOCK", "SSH_AUTH_INFO", "XAUTHORITY", "MAX_TOKENS", "TOKENIZERS_PARALLELISM"}
)


def is_secret_name(name: str) -> bool:
    """Return whether a variable name suggests a secret: `GH_TOKEN` yes, `GIT_AUTHOR_NAME` no."""
    upper = name.upper()
    if upper in _HARMLESS_NAMES:
        return False
    return any(_SECRET_WORD.fullmatch(word) is not None for word in re.split(r"[^A-Z]+", upper))


def secret_values(environ: Mapping[str, str]) -> dict[str, str]:
    """Return, by name, the variables of `environ` whose value is a secret that must be masked in all text."""
    return {
        name: value
        for name, value in environ.items()
        if len(value) >= 8 and is_secret_name(name) and _looks_real(value)
    }


def redact(text: str, secrets: Mapping[str, str] | None = None) -> str:
    """Return `text` with secrets masked. `secrets` holds exact values, by name. Linear and idempotent."""
    return Redactor(secrets or {}).feed(text)


def mask_known(text: str, secrets: Mapping[str, str]) -> str:
    """Return `text` with only the exact values of `secrets` masked. It is fast enough to be used anywhere."""
    for value, stub in _stubs(secrets):
        if value in text:
            text = text.replace(value, stub)
    return text


def redact_data(value: Any, secrets: Mapping[str, str]) -> Any:
    """Return JSON data with secrets masked in every text. Text that is JSON stays JSON."""
    if isinstance(value, str):
        if value[:1] in ("{", "["):
            try:
                inner = json.loads(value)
            except (ValueError, RecursionError):
                return redact(value, secrets)
            masked = redact_data(inner, secrets)
            return value if masked == inner else json.dumps(masked, ensure_ascii=False)
        return redact(value, secrets)
    if isinstance(value, Mapping):
        return {redact(str(name), secrets): redact_data(item, secrets) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_data(item, secrets) for item in value]
    return value


def _stubs(secrets: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return pairs of a text to replace and its replacement, longest first.

    Secrets also occur in JSON form.
    """
    found: dict[str, str] = {}
    for name, value in secrets.items():
        if value:
            stub = f"[{name} redacted]"
            found |= {value: stub, json.dumps(value)[1:-1]: stub}
            found[json.dumps(value, ensure_ascii=False)[1:-1]] = stub
    return sorted(found.items(), key=lambda item: -len(item[0]))


class Redactor:
    """A filter that masks secrets in text arriving in whole lines. A private key may span several pieces."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._secrets = _stubs(secrets)
        self._key = _PrivateKey()

    def feed(self, text: str) -> str:
        """Return the given lines with secrets masked."""
        for value, stub in self._secrets:
            if value in text:
                text = text.replace(value, stub)
        if self._key.inside or _KEY_BEGIN.search(text) is not None:
            text = self._key.feed(text)
        for needles, pattern in _SHAPES:
            if _holds_any(text, needles):
                text = pattern.sub(rf"\1{MASK}", text)
        text = mask_shapes(text, MASK, _is_shaped_secret)
        folded = text.lower()
        if "authorization" in folded or "bearer" in folded:
            text = _HEADER.sub(_mask_header, text)
        if _holds_any(folded, ("key", "token", "secret", "passw", "passph", "pwd")):
            text = _QUERY.sub(_mask_field, text)
            if _NEXT_FIELD.search(text) is not None:
                text = _FORM.sub(_mask_field, text)
            text = _VARIABLE.sub(_mask_variable, text)
            text = _ASSIGNMENT.sub(_mask_assignment, text)
        if "://" in text:
            text = _URL.sub(_mask_url, text)
        return text


def _holds_any(text: str, needles: tuple[str, ...]) -> bool:
    # A plain loop: a generator for each of a hundred needles takes most of the time of a short text.
    for needle in needles:  # noqa: SIM110
        if needle in text:
            return True
    return False


def _is_shaped_secret(value: str, by_form: bool) -> bool:
    """Return whether a match is a secret. Unless its form identifies it, the value must look like one."""
    if not by_form:
        return _looks_real(value)
    return any(character.isdigit() for character in value) or value.lower() != value != value.upper()


_Shape = tuple[tuple[str, ...], re.Pattern[str]]
"""Needles and a pattern: a text without any needle has no match; group 1 of a match is not masked."""


def _shape(prefixes: str, body: str, least: int, *, unbroken: int = 8) -> _Shape:
    """Return the shape of tokens that have a known prefix, then at least `least` characters of `body`.

    The characters must contain a digit, and `unbroken` adjacent letters and digits.

    The lookbehind keeps this linear: a run of body characters is tried once, at its start.
    """
    needles = tuple(prefixes.split())
    either = "|".join(re.escape(prefix) for prefix in needles)
    run = rf"(?=[{body}]*?[0-9])(?=[{body}]*?[A-Za-z0-9]{{{unbroken}}})[{body}]{{{least},}}"
    return needles, lazy_pattern(rf"(?<![A-Za-z0-9_-])({either}){run}")


_SHAPES: tuple[_Shape, ...] = (
    _shape("sk- sk_live_ sk_test_ rk_live_ rk_test_ nvapi- tvly-", "A-Za-z0-9_-", 16, unbroken=12),
    _shape("ghp_ gho_ ghu_ ghs_ ghr_ npm_ hf_ gsk_ r8_ shpat_ dop_v1_ lin_api_ pplx- xai-", "A-Za-z0-9", 20),
    _shape("github_pat_ dckr_pat_ glpat- gldt- glrt- AIza ya29. GOCSPX-", "A-Za-z0-9_-", 16),
    _shape(
        "glptt- gloas- glcbt- glimt- glagent- glft- glffct- glsa_ GR1348941 whsec_ ATATT3x sbp_ ntn_ sk_org_ "
        "cfut_ rubygems_ pscale_pw_ pscale_tkn_ shpss_ shpca_ dckr_oat_ EAACEdEose0cBA",
        "A-Za-z0-9_-",
        16,
    ),
    _shape("xoxb- xoxp- xoxa- xoxr- xoxs- xoxe- xapp-", "A-Za-z0-9-", 10),
    _shape("SG. hvs. pypi-AgE tskey-", "A-Za-z0-9_.-", 20),
    _shape("AKIA ASIA", "A-Z0-9", 16),
    # Firecrawl, ElevenLabs, fal.ai, Telegram's address of a bot: known by nothing but these forms.
    (("fc-",), lazy_pattern(r"(?<![\w-])(fc-)[0-9a-f]{32}(?![\w-])")),
    (("sk_",), lazy_pattern(r"(?<![\w-])(sk_)[0-9a-f]{40,64}(?![\w-])")),
    # Telegram's tokens, and Exa's keys, which are like any UUID: only after that name or the header for them.
    ((":AA",), lazy_pattern(r"(?<![\w:-])()[0-9]{8,10}:AA[\w-]{32,33}(?![\w-])")),
    (
        ("exa", "Exa", "EXA", "x-api-key", "X-API-Key", "X-Api-Key"),
        lazy_pattern(
            r"((?:(?<![A-Za-z])(?:exa|Exa|EXA)(?![A-Za-z])|[xX]-[aA][pP][iI]-[kK]ey)[^\n]{0,48}?(?<![\w-]))"
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![\w:-])"
        ),
    ),
    # Ours: what a device comes in with.
    (("hmt_",), lazy_pattern(r"(?<![\w-])(hmt_)[\w-]{16,}")),
    (
        ("-",),
        lazy_pattern(
            r"(?<![\w-])()[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:[0-9a-f]{32}(?![\w-])"
        ),
    ),
    (("/bot",), lazy_pattern(r"(/bot)[0-9]{8,10}:[\w-]{30,64}")),
    (("AGE-SECRET-KEY-",), lazy_pattern(r"(?<![\w-])(AGE-SECRET-KEY-)(?:PQ-)?1[A-Z0-9]{20,}")),
    (
        ("hooks.slack.com/", "/api/webhooks/"),
        lazy_pattern(r"(hooks\.slack\.com/\w{4,12}/T\w{1,20}/B\w{1,20}/|/api/webhooks/\d{1,24}/)[\w-]{16,}"),
    ),
    (("sig=",), lazy_pattern(r"([?&;]sig=)[A-Za-z0-9%+/=_-]{24,}")),
    (("Cookie:", "cookie:"), lazy_pattern(r"(\b[Cc]ookie:[ \t]{0,4}[^\s=;,]{1,64}=)[^\s;,\"']{16,}")),
    (
        ("password",),
        lazy_pattern(
            r"(\b(?:machine[ \t]{1,8}\S{1,256}|default)\s{1,16}login[ \t]{1,8}\S{1,128}"
            r"\s{1,16}password[ \t]{1,8})[^\s\"']{4,256}(?=\s|\Z)"
        ),
    ),
    (
        ("curl",),
        lazy_pattern(
            r"(\bcurl\b[^\n]{0,200}?[ \t](?:-u|--user)[ =]?[\"']?[^\s:\"'$]{1,64}:)(?![$%*{<])[^\s\"']{4,128}"
        ),
    ),
    (
        ("@",),
        lazy_pattern(r"(://)(?=[\w-]{0,256}[0-9])(?=[\w-]{0,256}[A-Za-z])[\w-]{24,256}(?=@)"),
    ),
    (
        ("eyJ",),
        lazy_pattern(r"(?<![\w-])(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ),
)

_HEADER = lazy_pattern(
    r"((?<![\w-])(?:proxy-)?authorization[\\\"']{0,3}[ \t]{0,4}[:=][ \t]{0,4}[\\\"']{0,3}"
    r"|(?<![\w-])(?=bearer ))"
    r"((?:bearer|basic|token|digest|api-?key|key|bot)[ \t]{1,4})?"
    r"([\w.~+/=-]{8,}+)",
    re.IGNORECASE,
)
_ASSIGNMENT = lazy_pattern(
    r"(--[a-z-]{0,20}(?:key|token|secret|password)[ \t=]\s{0,2}"
    r"|(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|account[_-]?key|secret|token"
    r"|password|passwd|passphrase|pwd)[\\\"'\]]{0,4}[ \t]{0,4}(?:=>|:=|=(?![=~])|:(?![:=]))[ \t]{0,4})"
    r"(?:(\\{0,3}[\"'`])([^\"'`\n\\]{4,}+)|([^\s\"'`,;&|<>(){}\[\]\\]{4,}+)([\[({])?)",
    re.IGNORECASE,
)
_FIELD = (
    r"((?:password|passwd|passphrase|passcode|pwd|api_?key|[a-z]{0,12}_?(?:secret|token))=)"
    r"([^\s&\"'`#;<>]{4,512}+)"
)
_QUERY = lazy_pattern(rf"([?&]){_FIELD}", re.IGNORECASE)
_NEXT_FIELD = lazy_pattern(r"&[\w.%-]{1,64}=")
_FORM = lazy_pattern(rf"(?<![\w?&-])(){_FIELD}(?={_NEXT_FIELD.pattern})", re.IGNORECASE)
"""Fields of an address or the body of a form: no code occurs there, so plain words count."""
_VARIABLE = lazy_pattern(
    r"(?<![\w$.{-])([A-Z][A-Z0-9_]{2,64})(=[\"']?)([^\s\"'`;&|<>(){}\[\]\\]{6,512}+)(?![(\[{])"
)
"""A variable as a shell or an `.env` sets it."""
_PLAIN_SECRET = lazy_pattern(r"(?:.*_)?(?:TOKEN|SECRET|PASS(?:WORD|WD|PHRASE|CODE)?|PWD)")
"""Names of variables whose value may be a plain word."""
_URL = lazy_pattern(r"(://[^\s/:@\"'<>]{0,128}:)([^\s/@\"'<>]{1,256})(?=@)")

_PLACEHOLDER = lazy_pattern(
    r"your|my[_-]|example|placeholder|change[_-]?me|replace|insert|[x*.#_-]+$|none$|null$|true$|false$",
    re.IGNORECASE,
)
_PATH = lazy_pattern(r"[~.]{0,2}/[\w./-]*$|[A-Za-z]:[\\/]|[a-z][a-z0-9_.-]*(?:/[a-z0-9_.-]{1,24}){2,}$")
_ATTRIBUTE = lazy_pattern(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+$")
_NAME = lazy_pattern(r"[A-Za-z][A-Za-z_.:-]*$")
_NAMED = lazy_pattern(r"pass|token|secret|key|auth|string|required|hidden|text", re.IGNORECASE)


def _mask_header(match: re.Match[str]) -> str:
    before, scheme, value = match[1], match[2] or "", match[3]
    if before and scheme:
        real = not _NAMED.match(value) and not _PLACEHOLDER.match(value)
    else:
        real = _looks_real(value)
    return f"{before}{scheme}{MASK}" if real else match[0]


def _mask_assignment(match: re.Match[str]) -> str:
    before, quote, quoted, bare, opened = (group or "" for group in match.groups())
    value = quoted or bare
    is_prose = " " in quoted
    is_code = bool(opened) or (bool(bare) and _ATTRIBUTE.match(bare) is not None)
    password = "pass" in before.lower() or "pwd" in before.lower()
    if is_prose or is_code:
        return match[0]
    if not (_looks_real(value) or (password and _looks_like_password(before, quote, value))):
        return match[0]
    return f"{before}{quote}{MASK}{opened}"


def _mask_field(match: re.Match[str]) -> str:
    name, value = match[2][:-1].lower(), match[3]
    if not _is_literal(value) or value[0] == "{" or value.isdigit() or value.lower() in name:
        return match[0]
    return f"{match[1]}{match[2]}{MASK}"


def _mask_variable(match: re.Match[str]) -> str:
    name, before, value = match.groups()
    if not is_secret_name(name) or not _is_literal(value) or value.isdigit():
        return match[0]
    plain = _PLAIN_SECRET.fullmatch(name) is not None and _NAMED.search(value) is None
    if not (_looks_real(value) or (plain and _ATTRIBUTE.match(value) is None)):
        return match[0]
    return f"{name}{before}{MASK}"


def _mask_url(match: re.Match[str]) -> str:
    return match[0] if match[2][0] in "$*{%" else match[1] + MASK


def _looks_real(value: str) -> bool:
    """Return whether `value` looks like a usable key and not a name, a path or a placeholder."""
    if len(value) < 8 or not _is_literal(value) or value.isdigit():
        return False
    if _NAME.match(value) is None:
        return any(character.isalpha() for character in value)
    changes = sum(one.isupper() != two.isupper() for one, two in pairwise(value))
    return len(value) >= 20 and changes * 4 > len(value)


def _looks_like_password(before: str, quote: str, value: str) -> bool:
    """Return whether `value` looks like a password. A plain word does so only outside of code."""
    if not _is_literal(value):
        return False
    if _NAME.match(value) is None:
        return True
    assigned = before.endswith("=") and before[:-1].isupper()
    return len(value) >= 6 and (bool(quote) or assigned) and _NAMED.search(value) is None


def _is_literal(value: str) -> bool:
    return (
        value[0] not in "$%*@#/…"
        and "…" not in value
        and "://" not in value
        and _PLACEHOLDER.match(value) is None
        and _PATH.match(value) is None
    )


_KEY_BEGIN = lazy_pattern(r"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = lazy_pattern(r"-----END (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_INLINE = lazy_pattern(r"(?:[A-Za-z0-9+/=]|\\[nr]|[ \t]){16,}+")
# Line numbers, diff marks, comment signs and quotes may surround the lines of a key.
_KEY_LINE = lazy_pattern(
    r"[\s\d|>+\-#*\"']*(?:[A-Za-z0-9+/]{4,}={0,2}|(?:Proc-Type|DEK-Info|Version|Comment): .*)?"
    r"[\s\\nr\"',+;)]*$"
)
_KEY_LINE_LIMIT = 256


class _PrivateKey:
    """A filter that masks the body of PEM private keys line by line. `inside` tells whether one is open."""

    def __init__(self) -> None:
        self.inside = False
        self._masked = False

    def feed(self, text: str) -> str:
        return "".join(self._line(line) for line in text.splitlines(keepends=True))

    def _line(self, line: str) -> str:
        if self.inside:
            end = _KEY_END.search(line)
            if end is None and len(line) < _KEY_LINE_LIMIT and _KEY_LINE.match(line) is not None:
                return self._mask(line)
            self.inside = False
            return line[end.start() :] if end is not None else line
        begin = _KEY_BEGIN.search(line)
        if begin is None:
            return line
        kept, rest = line[: begin.end()], line[begin.end() :]
        body = _KEY_INLINE.match(rest)
        self._masked = body is not None
        if body is not None:
            kept, rest = kept + MASK, rest[body.end() :]
        self.inside = _KEY_END.search(rest) is None
        return kept + rest

    def _mask(self, line: str) -> str:
        if self._masked or not line.strip():
            return ""
        self._masked = True
        return MASK + "\n"
