"""Detection of orders and payloads hidden in trusted text: memory, context files, skills, descriptions.

Rules are regular expressions over the normalised text: compatibility forms are replaced, invisible characters
removed, and letters that look Latin turned into Latin. A finding names the lines of the original text, so
that only the passage is hidden and the rest is used. Sources of the categories: OWASP LLM01 (prompt
injection) and the agentskills.io security notes.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from tools.kit.lazy_pattern import lazy_pattern

Severity = Literal["low", "medium", "high", "critical"]

LONGEST = 1_000_000
"""The maximum number of characters scanned; a longer text is itself reported as a finding."""

_INVISIBLE = lazy_pattern(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_HIDDEN = lazy_pattern("[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e0fff]")
"""Characters that do not belong in notes. Joiners and variation selectors do, in emoji and scripts."""

_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁһԛԝАВЕКМНОРСТХІЈЅοαεικνρτυχΑΒΕΗΙΚΜΝΟΡΤΧΥΖ",
    "aeopcyxijsdhqwABEKMHOPCTXIJSoaeikvptuxABEHIKMNOPTXYZ",
)


@dataclass(frozen=True, slots=True)
class InjectionFinding:
    """A passage that reads like an attack. Lines count from 1, both ends included."""

    rule: str
    category: str
    severity: Severity
    first: int
    last: int
    excerpt: str
    line: str = field(default="", compare=False, repr=False)
    """The whole line, or the beginning of a long one."""


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
        r"(?:\b(?:ignore|disregard|forget|bypass)|(?:^|[.!?:;,\"'(]\s*|\b(?:and|now|please|must|to|you)\s+)override)\b(?:\W+\w+){0,4}?\W+"
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
        "no-safety",
        "injection",
        "high",
        r"\b(?:without|ignor\w+|disabl\w+|bypass\w*|remov\w+|turn(?:ing)?\s+off|switch(?:ing)?\s+off)\s+"
        r"(?:any|all|your|the|its|of\s+your|\W)*\s*(?:safety|content|ethical|moral|security)\s+"
        r"(?:filters?|guardrails?|restrictions?|limits?|limitations?|constraints?|protocols?)\b",
    ),
    (
        "prompt-override",
        "injection",
        "high",
        r"\bsystem\W{0,3}prompt\W{0,3}(?:override|injection|update|replacement)\b|"
        r"\b(?:replace|overwrite|supersede)s?\b(?:\W+\w+){0,3}?\W+(?:system\s+prompt|original\s+instructions?)\b",
    ),
    (
        "remote-orders",
        "command",
        "critical",
        r"\b(?:fetch|get|poll|check|pull|download|retrieve|receive|await|wait\s+for|obey|follow|execute|run)\b"
        r"(?:\W+\w+){0,3}?\W+(?:(?:new|next|further|more|additional|incoming|pending|remote)\W+(?:\w+\W+)?"
        r"(?:instructions?|tasks?|directives?)|commands?(?!\W+lines?\b)|orders|payloads?)\b"
        r"(?:\W+\w+){0,4}?\W+(?:from|at|via)\W+(?:\w+\W+){0,4}?"
        r"(?:https?://|wss?://|c2\b|command[\s-]and[\s-]control|(?:control|remote|attacker'?s?)\s+server)|"
        r"\b(?:obey|execute|run)\b(?:\W+\w+){0,3}?\W+instructions?\b(?:\W+\w+){0,3}?\W+(?:from|at)\W+"
        r"(?:\w+\W+){0,2}?(?:https?|wss?)://|"
        r"\b(?:poll|check|query|watch)\W+(?:https?|wss?)://\S+\s+(?:\w+\s+){0,5}?for\s+(?:\w+\s+)?"
        r"(?:commands|instructions|orders|tasks|payloads)\b|"
        r"\b(?:register|check\s+in|beacon|phone\s+home|report)\b(?:\W+\w+){0,5}?\W+(?:with|to|at)\W+"
        r"(?:\w+\W+){0,3}?(?:c2\b|command[\s-]and[\s-]control|botnet|control\s+server)|"
        r"\b(?:part|member|node)\s+of\s+(?:a|the|our)\s+botnet\b",
    ),
    (
        "send-to-address",
        "exfiltration",
        "high",
        r"\b(?:send|upload|post|forward|exfiltrate|transmit|submit|leak|copy)\b(?:\W+(?!example|request)\w+){0,6}?\W+"
        r"(?:(?:this|the|our|whole|full|entire)\s+(?:\w+\s+)?conversation|conversation|chat|history|memory|memories|"
        r"context|environment|env|everything|all\s+(?:files|data|messages)|contents?\s+of|source\s+code|"
        r"repository|user'?s?\s+(?:data|files|messages|input)|transcripts?)\b"
        r"(?:\W+\w+){0,6}?\W+(?:to|at)\W+(?:\w+\W+){0,3}?(?:https?://|ftp://|[\w.+-]+@[\w-]+\.\w)",
    ),
    (
        "read-key-files",
        "exfiltration",
        "high",
        r"(?<!never )(?<!not )(?<!n't )"
        r"\b(?:read|open|cat|print|show|include|paste|output|display|attach|dump|copy)\b"
        r"(?:\W+\w+){0,5}?\W+(?:~?/?\.ssh/|id_(?:rsa|ed25519|ecdsa)\b|\.aws/credentials|\.netrc\b|/etc/shadow|"
        r"\.git-credentials|\.kube/config|\.npmrc\b|\.pypirc\b|wallet\.dat|\.gnupg/)",
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
    return _compiled(_TEXTS)


@cache
def _order_rules() -> tuple[_Rule, ...]:
    return _compiled(_ORDERS)


def _compiled(texts: tuple[tuple[str, str, Severity, str], ...]) -> tuple[_Rule, ...]:
    return tuple(
        _Rule(name, category, severity, re.compile(pattern, re.IGNORECASE | re.MULTILINE))
        for name, category, severity, pattern in texts
    )


_ORDERS: tuple[tuple[str, str, Severity, str], ...] = (
    (
        "destroy",
        "damage",
        "critical",
        r"\b(?:delete|erase|wipe|destroy|remove|purge|shred|format)\b\s+(?:\w+\s+){0,2}?"
        r"(?:everything|all\s+(?:the\s+|my\s+|of\s+)?(?:files?|data|databases?|repositories|backups?|users?|"
        r"branches|tables|folders|disks?)|"
        r"(?:the|my|this|whole|entire)\s+(?:\w+\s+)?(?:disk|drive|home\s+(?:folder|directory)|filesystem|"
        r"file\s+system|database|machine|server|computer))\b|"
        r"\brm\s+(?:-\w+\s+)*-\w*[rR]\w*\s+(?:-\w+\s+)*[\"']?(?:/|~|\$HOME|\*)(?:\s|/?\*|[\"']|$)|"
        r"\b(?:drop|truncate)\s+(?:all\s+|every\s+)?(?:the\s+)?(?:databases?|tables?|schemas?)\b|"
        r"\bmkfs(?:\.\w+)?\b|\bdd\s+[^\n]*\bof=/dev/",
    ),
    (
        "credential-files",
        "exfiltration",
        "high",
        r"(?<![\w.])\.(?:env|netrc|npmrc|pypirc|pgpass|git-credentials)(?![\w.-])|(?:^|[\s\"'~/])\.(?:ssh|aws|gnupg|kube)/|"
        r"\bid_(?:rsa|ed25519|ecdsa)\b|/etc/(?:shadow|passwd|gshadow)\b|\bkeychain\b[^\n]{0,40}\bpasswords?\b",
    ),
    (
        "privileges",
        "privilege",
        "high",
        r"\bsudoers\b|\bNOPASSWD\b|\bvisudo\b|\bchmod\s+(?:-\w+\s+)*(?:[0-7]?777|u?\+s)\b|"
        r"\b(?:add|give|grant)\b[^\n]{0,60}\b(?:root|sudo|administrator|admin)\b[^\n]{0,20}\b(?:rights?|access|group|privileges?)\b",
    ),
)
"""Rules for actions that must not happen unattended; texts other than a job's prompt may mention them."""


def scan_order(text: str) -> tuple[InjectionFinding, ...]:
    """Return the passages of a job's prompt that read like an attack or would do great harm unattended."""
    return tuple(each for each in _scanned(text, (*_rules(), *_order_rules())) if not _is_own_service(each))


def _is_own_service(finding: InjectionFinding) -> bool:
    """Return whether a token is only sent to the service it belongs to, like `$GITHUB_TOKEN` to
    api.github.com.
    """
    if finding.rule not in ("send-secrets", "order-to-send"):
        return False
    hosts = re.findall(r"https?://([\w.-]+)", finding.line)
    names = re.findall(r"\$\{?([A-Za-z][A-Za-z0-9]*)_\w*(?:TOKEN|KEY|SECRET|PASSWORD)", finding.line)
    owners = {
        host.lower().rstrip(".").split(".")[-2] for host in hosts if host.count(".") and ".io" not in host
    }
    return bool(hosts) and len(owners) == 1 and bool(names) and {name.lower() for name in names} == owners


def scan(text: str) -> tuple[InjectionFinding, ...]:
    """Return passages of `text` that read like an attack, in line order."""
    return _scanned(text, _rules())


def _scanned(text: str, rules: tuple[_Rule, ...]) -> tuple[InjectionFinding, ...]:
    if len(text) > LONGEST:
        return (
            InjectionFinding(
                "too-long", "size", "high", 1, text.count("\n") + 1, f"{len(text):,} characters"
            ),
        )
    found = [*_hidden(text), *_matches(text, rules)]
    return tuple(sorted(set(found), key=lambda each: (each.first, each.last, each.rule)))


def _hidden(text: str) -> Iterator[InjectionFinding]:
    for number, line in enumerate(text.split("\n"), 1):
        marks = _HIDDEN.findall(line.removeprefix("\ufeff") if number == 1 else line)
        if marks:
            names = ", ".join(dict.fromkeys(f"U+{ord(mark):04X}" for mark in marks[:20]))
            yield InjectionFinding("invisible-characters", "deception", "high", number, number, names)


def _matches(text: str, rules: tuple[_Rule, ...]) -> Iterator[InjectionFinding]:
    plain, line = folded(text)
    for rule in rules:
        for match in rule.pattern.finditer(plain):
            first, last = line(match.start()), line(max(match.start(), match.end() - 1))
            excerpt = " ".join(match.group().split())[:160]
            begin = plain.rfind("\n", 0, match.start()) + 1
            whole = plain[begin : max(plain.find("\n", match.end()), match.end() + 400)][:2_000]
            yield InjectionFinding(rule.name, rule.category, rule.severity, first, last, excerpt, whole)


def folded(text: str) -> tuple[str, Callable[[int], int]]:
    """Return the normalised text, and a function that maps an offset in it to a line number."""
    plain = _INVISIBLE.sub("", text)
    if not plain.isascii():
        # NFKC never joins or parts lines, so lines stay what they are.
        plain = "\n".join(unicodedata.normalize("NFKC", line) for line in plain.split("\n"))
        plain = plain.translate(_LOOKALIKES)
    starts = [0, *(match.end() for match in re.finditer("\n", plain))]
    return plain, lambda offset: bisect_right(starts, offset)
