"""Descriptions of a skill from outside: origin, files, scan results. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tools.text.safe_text import clean
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.opening import Candidate
    from agent.knowledge.skills.scanner import SkillScan

MOST_FINDINGS = 40
"""The number of findings that are listed individually."""

MOST_SHOWN = 200_000
"""The number of characters of the files that are shown, all together."""

PLACES = 12
"""The column in which the position of a finding starts."""

_FINDING = re.compile(r"  (?:critical|high|medium|low) {2,}\S")

_DECIDED = {"yes": "it may be installed", "no": "it is not installed", "ask": "it is installed after a yes"}


def candidate_lines(candidate: Candidate, *, force: bool = False) -> Iterator[str]:
    """Yield everything about a skill that a user should see before agreeing, except its instructions."""
    offer = candidate.fetched.offer
    inner = f" ({clean(offer.item)})" if offer.item else ""
    version = f", version {_short(offer.version)}" if offer.version else ""
    yield f"{candidate.name} from {clean(offer.address)}{inner}{version}"
    yield f"  {candidate.skill.description}"
    runnable = frozenset(file.path for file in candidate.fetched.files if file.executable)
    yield from file_lines({file.path: len(file.content) for file in candidate.fetched.files}, runnable)
    yield from scan_lines(candidate.scan)
    if tools := candidate.skill.allowed_tools:
        yield f"Asks for the tools: {', '.join(map(clean, tools))}"
    if variables := candidate.skill.required_variables:
        yield f"Needs the variables: {', '.join(variables)}"
    for note in candidate.notes:
        yield f"Note: {clean(note)}."
    decided = _DECIDED[candidate.decision(force=force)]
    yield f"Its source counts as {candidate.trust}, the scan says {candidate.scan.verdict}: {decided}."


def content_lines(candidate: Candidate) -> Iterator[str]:
    """Yield the unchanged contents of the files, SKILL.md first, cut after `MOST_SHOWN` characters in all."""
    files = sorted(candidate.fetched.files, key=lambda file: (file.path.lower() != "skill.md", file.path))
    left = MOST_SHOWN
    for file in files:
        yield f"── {file.path} ──"
        if b"\0" in file.content:
            yield "(no text)"
            continue
        text = file.content.decode("utf-8", "replace")
        yield text[:left].rstrip("\n")
        if len(text) > left:
            rest = len(files) - files.index(file) - 1
            yield f"… {plural(len(text) - left, 'more character')}, and {plural(rest, 'more file')}"
            return
        left -= len(text)
        yield ""


def file_lines(sizes: Mapping[str, int], runnable: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield a heading and a line for each file, with its size in bytes and whether it is executable."""
    yield f"Files ({len(sizes)}):"
    width = max(map(len, sizes), default=0)
    for path, size in sizes.items():
        yield f"  {path:{width}}  {size:>9,} bytes" + ("  can be run" if path in runnable else "")


def continuation_indent(text: str) -> int:
    """Return the indent for continuation lines: that of the line, or of a finding's position. Pure."""
    if _FINDING.match(text):
        return PLACES
    return min(len(text) - len(text.lstrip(" ")), PLACES)


def scan_lines(scan: SkillScan) -> Iterator[str]:
    """Yield the findings of a scan, the worst first, at most `MOST_FINDINGS` of them."""
    if not scan.findings:
        yield "Findings: none."
        return
    yield f"Findings ({len(scan.findings)}):"
    for each in scan.findings[:MOST_FINDINGS]:
        place = f"{each.file}:{each.line}" if each.line else each.file
        excerpt = f" ({each.excerpt})" if each.excerpt else ""
        yield f"  {each.severity:8}  {place}  {each.rule}: {each.why}{excerpt}"
    if len(scan.findings) > MOST_FINDINGS:
        yield f"  … and {len(scan.findings) - MOST_FINDINGS} more; `hermes skills inspect --json` has all."


def _short(version: str) -> str:
    return clean(version if len(version) < 24 else f"{version[:19]}…")
