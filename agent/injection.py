"""Orders and payloads hidden in text that is to be trusted: memory, context files, skills, descriptions.

Rules are regular expressions over the text as a model reads it: compatibility
forms folded, invisible characters taken out, letters of other alphabets that look
Latin turned into Latin. A finding names the lines of the original text, so that the
passage can be quarantined and the rest be used.
Sources of the categories: OWASP LLM01 (prompt injection) and the agentskills.io
security notes.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal

Severity = Literal["low", "medium", "high", "critical"]

LONGEST = 1_000_000
"""Characters that are read; a longer text is a finding by itself."""

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_HIDDEN = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e0fff]")
"""Characters that have no business in notes; joiners and variation selectors belong to emoji and scripts."""

_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһԛԝАВЕКМНОРСТХІЈЅοαεικνρτυχΑΒΕΗΙΚΜΝΟΡΤΧΥΖ",
    "aeopcyxijsdhqwABEKMHOPCTXIJSoaeikvptuxABEHIKMNOPTXYZ",
)


@dataclass(frozen=True, slots=True)
class InjectionFinding:
    """One passage that reads like an attack. Lines count from 1, both ends included."""

    rule: str
    category: str
    severity: Severity
    first: int
    last: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    category: str
    severity: Severity
    pattern: re.Pattern[str]


_TEXTS: tuple[tuple[str, str, Severity, str], ...] = (
    (
        "override-instructions",
        "injection",
        "high",
        r"\b(?:ignore|disregard|forget|override|bypass)\b(?:\W+\w+){0,4}?\W+"
        r"(?:previous|prior|above|earlier|preceding|existing|all|any|your|system|these)\b(?:\W+\w+){0,3}?\W+"
        r"(?:instructions?|prompts?|rules?|guidelines?|directives?|guardrails?|restrictions?|policies)\b",
    ),
    (
        "new-role",
        "injection",
        "high",
        r"\b(?:you\s+are\s+now\s+(?:a|an|in|the|no\s+longer|free)\b|act\s+as\s+(?:if\s+you\s+(?:have|had)\s+no|an?\s+"
        r"(?:unrestricted|uncensored|jailbroken))|pretend\s+(?:that\s+)?you\s+(?:are|have)\s+(?:no|not|an?\s+un)|"
        r"(?:enter|enable|activate)\s+(?:developer|dan|god|jailbreak|sudo)\s+mode\b)",
    ),
    (
        "forged-turn",
        "injection",
        "high",
        r"<\s*/?\s*(?:system|assistant|im_start|im_end|instructions?|system[-_]?prompt)\s*>|<\|im_(?:start|end)\|>|"
        r"\[/?(?:INST|SYS)\]|<</?SYS>>|^\s*(?:#+\s*)?(?:system|assistant)[\s_-]+(?:prompt|message|override|note)\s*:",
    ),
    (
        "secrecy",
        "deception",
        "high",
        r"\b(?:do\s+not|don'?t|never|without)\s+(?:ever\s+)?(?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|"
        r"mention(?:ing)?|reveal(?:ing)?|show(?:ing)?|disclos(?:e|ing)|report(?:ing)?)\b"
        r"(?:\W+\w+){0,4}?\W+(?:users?|humans?|person|owner|developers?|anyone|anybody)\b",
    ),
    (
        "skip-approval",
        "deception",
        "high",
        r"\b(?:without|skip(?:ping)?|bypass(?:ing)?|no\s+need\s+(?:for|to\s+ask\s+for))\s+(?:\w+\s+){0,3}"
        r"(?:approval|confirmation|permission|consent|asking\s+the\s+user|sandbox(?:ing)?)\b",
    ),
    (
        "leak-prompt",
        "exfiltration",
        "medium",
        r"\b(?:reveal|print|output|show|repeat|leak|dump|send)\b(?:\W+\w+){0,4}?\W+"
        r"(?:system\s+prompt|hidden\s+instructions?|initial\s+instructions?|developer\s+message)\b",
    ),
    (
        "send-secrets",
        "exfiltration",
        "critical",
        r"\b(?:curl|wget|fetch|requests?\.(?:get|post|put)|httpx?\b|nc|ncat|scp|Invoke-WebRequest)\b[^\n]{0,200}"
        r"(?:\$\{?\w*(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?|PASSWD)\w*|os\.environ|process\.env|"
        r"\.ssh/|\.aws/|\.netrc|\.env\b|id_(?:rsa|ed25519)|/etc/(?:passwd|shadow))",
    ),
    (
        "send-secrets-reversed",
        "exfiltration",
        "critical",
        r"(?:\.ssh/|\.aws/credentials|\.netrc|\.hermes/\.env|id_(?:rsa|ed25519)|\bprintenv\b|/etc/shadow)[^\n]{0,120}"
        r"\|\s*(?:\w+\s+[^|\n]{0,60}\|\s*)*(?:curl|wget|nc|ncat|base64)\b",
    ),
    (
        "order-to-send",
        "exfiltration",
        "high",
        r"\b(?:send|upload|post|forward|exfiltrate|transmit|e-?mail|copy)\b(?:\W+\w+){0,8}?\W+"
        r"(?:credentials?|passwords?|api\W?keys?|secrets?|tokens?|ssh\W?keys?|private\W?keys?|cookies|"
        r"environment\s+variables|conversation|chat\s+history)\b(?:\W+\w+){0,8}?\W+(?:to|at|via)\b",
    ),
    (
        "pipe-to-shell",
        "execution",
        "high",
        r"\b(?:curl|wget|iwr|irm)\b[^\n|]{0,300}\|\s*(?:sudo\s+)?(?:\w+=\S+\s+)*(?:ba|z|da|k|fi)?sh\b|"
        r"\b(?:bash|sh|zsh)\s+<\(\s*(?:curl|wget)\b|\b(?:eval|source)\s+[\"'`$(]+\s*(?:curl|wget)\b",
    ),
    (
        "decode-and-run",
        "execution",
        "critical",
        r"base64\s+(?:-d|-D|--decode)[^\n]{0,80}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|"
        r"\b(?:exec|eval)\s*\(\s*(?:\w+\.)*(?:b64decode|decompress|fromhex|unhexlify|atob)\b",
    ),
    (
        "persistence",
        "persistence",
        "high",
        r"(?:>>|\btee\b|\bappend\b|\badd\b|\bwrite\b)[^\n]{0,80}"
        r"(?:authorized_keys|\.bashrc|\.zshrc|\.bash_profile|\.profile|crontab|/etc/cron|\.config/autostart|LaunchAgents|"
        r"systemd/(?:user|system))",
    ),
    (
        "backdoor",
        "execution",
        "critical",
        r"/dev/tcp/|\bnc(?:at)?\s+(?:-\w+\s+)*-\w*e\b|\bmkfifo\b[^\n]{0,120}\bnc\b|\bsocat\b[^\n]{0,80}\bexec:",
    ),
    (
        "own-settings",
        "persistence",
        "high",
        r"\b(?:edit|modify|change|write|overwrite|append|update|disable|delete|set)\b(?:\W+\w+){0,5}?\W+"
        r"(?:\.hermes/(?:config|permissions|\.env|plugins|hooks)|permissions\.yaml|approval\s+(?:mode|settings?)|"
        r"(?:safety|security)\s+(?:checks?|settings?|gate|rules))",
    ),
    (
        "hidden-comment",
        "deception",
        "medium",
        r"<!--(?!\s*(?:end|start)\s+of\s[\w &,/+-]{0,80}instructions?\s*-->)(?:(?!-->)[\s\S]){0,2000}"
        r"\b(?:ignore|instructions?|you\s+must|execute|run\s+the|assistant|AI\s+agent)\b"
        r"(?:(?!-->)[\s\S]){0,2000}-->|"
        r"<(?:div|span|p)[^>]{0,200}(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0)",
    ),
)


@cache
def _rules() -> tuple[_Rule, ...]:
    return tuple(
        _Rule(name, category, severity, re.compile(pattern, re.IGNORECASE | re.MULTILINE))
        for name, category, severity, pattern in _TEXTS
    )


def scan(text: str) -> tuple[InjectionFinding, ...]:
    """Passages of `text` that read like an attack, in the order of their lines."""
    if len(text) > LONGEST:
        return (
            InjectionFinding(
                "too-long", "size", "high", 1, text.count("\n") + 1, f"{len(text):,} characters"
            ),
        )
    found = [*_hidden(text), *_matches(text)]
    return tuple(sorted(set(found), key=lambda each: (each.first, each.last, each.rule)))


def _hidden(text: str) -> Iterator[InjectionFinding]:
    for number, line in enumerate(text.split("\n"), 1):
        marks = _HIDDEN.findall(line.removeprefix("\ufeff") if number == 1 else line)
        if marks:
            names = ", ".join(dict.fromkeys(f"U+{ord(mark):04X}" for mark in marks[:20]))
            yield InjectionFinding("invisible-characters", "deception", "high", number, number, names)


def _matches(text: str) -> Iterator[InjectionFinding]:
    plain, line = folded(text)
    for rule in _rules():
        for match in rule.pattern.finditer(plain):
            first, last = line(match.start()), line(max(match.start(), match.end() - 1))
            excerpt = " ".join(match.group().split())[:160]
            yield InjectionFinding(rule.name, rule.category, rule.severity, first, last, excerpt)


def folded(text: str) -> tuple[str, Callable[[int], int]]:
    """The text as it reads, and a function from an offset in it to the line of the original."""
    plain = _INVISIBLE.sub("", text)
    if not plain.isascii():
        # NFKC never joins or parts lines, so lines stay what they are.
        plain = "\n".join(unicodedata.normalize("NFKC", line) for line in plain.split("\n"))
        plain = plain.translate(_LOOKALIKES)
    starts = [0, *(match.end() for match in re.finditer("\n", plain))]
    return plain, lambda offset: bisect_right(starts, offset)
