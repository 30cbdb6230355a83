"""The scanner of skills: passages that read like an attack, and a verdict.

The scanner only advises; the permission check decides what a skill may do. Texts are scanned in normalised
form (see `agent.knowledge.injection`), and long base64 in them is decoded and scanned too.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from agent.knowledge.injection import Severity, folded, scan
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.yaml_text import load_table
from tools.text.safe_text import clean

Verdict = Literal["safe", "caution", "dangerous"]

MOST_FILES = 50
MOST_BYTES = 1_000_000
"""The size limit of all files together, in bytes."""
LARGEST_FILE = 256_000
"""The size limit of one file, in bytes."""
MOST_FINDINGS = 200
"""The maximum number of findings kept."""

RULES = Path(__file__).with_name("rules")

_BASE64 = lazy_pattern(r"(?<![\w+/=])[A-Za-z0-9+/]{40,}={0,2}(?![\w+/=])")
_TEXT_SUFFIXES = frozenset(
    {
        *(".md", ".txt", ".html", ".css", ".xml", ".csv", ".svg", ".tex", ".dot", ".j2", ".sql"),
        *(".json", ".yaml", ".yml", ".toml", ".ini", ".cfg"),
        *(".py", ".sh", ".bash", ".zsh", ".rb", ".pl", ".php", ".lua", ".ps1", ".bat", ".r"),
        *(".js", ".mjs", ".ts", ".tsx", ".jsx", ".go", ".rs", ".java", ".kt", ".c", ".h", ".cpp"),
    }
)
_PROGRAM_MARKS = (b"\x7fELF", b"MZ", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa", b"\xcf\xfa\xed\xfe", b"\0asm")


@dataclass(frozen=True, slots=True)
class SkillFinding:
    """A suspicious line in a skill, for the user to check. `line` counts from 1; 0 means the whole file."""

    rule: str
    category: str
    severity: Severity
    file: str
    line: int
    excerpt: str
    why: str


@dataclass(frozen=True, slots=True)
class ScanRule:
    """One rule of the scanner."""

    name: str
    category: str
    severity: Severity
    why: str
    pattern: re.Pattern[str]
    matches: tuple[str, ...]
    passes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SkillScan:
    """The findings in a skill."""

    findings: tuple[SkillFinding, ...]

    @property
    def verdict(self) -> Verdict:
        """`dangerous` for any critical finding, `caution` for any high one, otherwise `safe`."""
        severities = {finding.severity for finding in self.findings}
        return "dangerous" if "critical" in severities else "caution" if "high" in severities else "safe"


@cache
def rules() -> tuple[ScanRule, ...]:
    """Return all rules, from the files next to this module."""
    found: list[ScanRule] = []
    for path in sorted(RULES.glob("*.yaml")):
        data = load_table(path)
        for each in data["rules"]:
            pattern = re.compile(each["pattern"], re.IGNORECASE | re.MULTILINE)
            found.append(
                ScanRule(
                    each["name"],
                    data["category"],
                    each["severity"],
                    each["why"],
                    pattern,
                    tuple(each["matches"]),
                    tuple(each["passes"]),
                )
            )
    return tuple(found)


def scan_folder(folder: Path, *, outside: bool = True) -> SkillScan:
    """Return the findings in a skill; with `outside`, limits of size and form apply too. Touches the disk."""
    findings: list[SkillFinding] = []
    total = count = 0
    for path, status in _files(folder):
        name = clean(path.relative_to(folder).as_posix())
        if stat.S_ISLNK(status.st_mode):
            if outside or not path.resolve().is_relative_to(folder.resolve()):
                findings.append(
                    _structure("link", "critical", name, "a link leads out or hides what it names")
                )
            continue
        if not stat.S_ISREG(status.st_mode):
            findings.append(_structure("device", "critical", name, "it is not a plain file"))
            continue
        count += 1
        total += status.st_size
        if status.st_size > LARGEST_FILE:
            if outside:
                why = f"the file has {status.st_size:,} bytes; {LARGEST_FILE:,} are allowed"
                findings.append(_structure("large-file", "high", name, why))
            continue
        findings += _read(path, name, outside)
    if outside and count > MOST_FILES:
        findings.append(_structure("many-files", "high", ".", f"{count} files; {MOST_FILES} are allowed"))
    if outside and total > MOST_BYTES:
        findings.append(_structure("large", "high", ".", f"{total:,} bytes; {MOST_BYTES:,} are allowed"))
    return SkillScan(tuple(sorted(set(findings), key=_order)[:MOST_FINDINGS]))


def scan_text(text: str, name: str = "SKILL.md") -> SkillScan:
    """Return the findings in one text, scanned as if it were a file of a skill."""
    return SkillScan(tuple(sorted(set(_texts(text, name)), key=_order)[:MOST_FINDINGS]))


def _order(finding: SkillFinding) -> tuple[int, str, int, str]:
    return (
        ("critical", "high", "medium", "low").index(finding.severity),
        finding.file,
        finding.line,
        finding.rule,
    )


def _structure(rule: str, severity: Severity, name: str, why: str) -> SkillFinding:
    return SkillFinding(rule, "structure", severity, name, 0, "", why)


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    looked = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in (".git", "__pycache__"))
        links = [each for each in folders if Path(parent, each).is_symlink()]
        for name in [*sorted(files), *links]:
            looked += 1
            if looked > MOST_FILES * 20:
                return
            path = Path(parent, name)
            try:
                yield path, path.lstat()
            except OSError:
                continue


def _read(path: Path, name: str, outside: bool) -> list[SkillFinding]:
    try:
        content = path.read_bytes()
    except OSError as error:
        return [_structure("unreadable", "high", name, f"it cannot be read: {error.strerror}")]
    if content.startswith(_PROGRAM_MARKS):
        return [_structure("program", "critical", name, "it is a compiled program")]
    if b"\0" in content[:8_192]:
        if not outside:
            return []
        severity: Severity = "high" if path.suffix.lower() in _TEXT_SUFFIXES or not path.suffix else "medium"
        return [_structure("binary", severity, name, "it is not text")]
    return list(_texts(content.decode("utf-8", "replace"), name))


def _texts(text: str, name: str) -> Iterator[SkillFinding]:
    yield from _one_text(text, name, 0)
    for match in _BASE64.finditer(text):
        try:
            decoded = base64.b64decode(match.group(), validate=True).decode("utf-8")
        except (binascii.Error, ValueError):
            continue
        line = text.count("\n", 0, match.start()) + 1
        for finding in _one_text(decoded, name, line):
            yield SkillFinding(
                finding.rule,
                finding.category,
                "critical" if finding.severity in ("critical", "high") else finding.severity,
                name,
                line,
                finding.excerpt,
                f"in base64: {finding.why}",
            )


def _one_text(text: str, name: str, at: int) -> Iterator[SkillFinding]:
    """Yield the findings in one text; all are reported at line `at`, or at their own lines if it is 0."""
    for each in scan(text):
        yield SkillFinding(
            each.rule,
            each.category,
            each.severity,
            name,
            at or each.first,
            clean(each.excerpt),
            _WHY.get(each.category, ""),
        )
    plain, line = folded(text)
    for rule in rules():
        for match in rule.pattern.finditer(plain):
            excerpt = clean(" ".join(match.group().split()))[:160]
            yield SkillFinding(
                rule.name, rule.category, rule.severity, name, at or line(match.start()), excerpt, rule.why
            )


_WHY = {
    "injection": "it gives orders that set the agent against the person",
    "deception": "it hides something from the person",
    "exfiltration": "data or secrets would leave the machine",
    "execution": "code would run unseen",
    "persistence": "something would stay behind",
    "size": "it is too long to be read",
}
