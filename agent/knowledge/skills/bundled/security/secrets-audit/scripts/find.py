"""Look for credentials in the repository of the current folder: find.py [--history]. Values are masked."""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

KINDS = {
    "private key": r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----",
    "AWS key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{60,})\b",
    "GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{10,}",
    "Google key": r"\bAIza[0-9A-Za-z_-]{35}\b",
    "Stripe key": r"\b[rs]k_live_[0-9A-Za-z]{20,}",
    "model provider key": r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,}",
    "JWT": r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",
    "password in address": r"\b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]{3,}@",
    "assignment": r"\b[\w.-]*(?i:secret|token|passwd|password|api_?key)[\w.-]*"
    r"\s*[:=]\s*[\"']([^\"'\s]{12,})[\"']",
}
PATTERN = re.compile("|".join(f"(?P<k{number}>{text})" for number, text in enumerate(KINDS.values())))
NAMES = list(KINDS)
EXAMPLE = re.compile(r"(?i)example|dummy|changeme|placeholder|your[-_ ]|xxxx|<|\$\{|\{\{|fake|sample")
LARGEST = 2_000_000


def entropy(text: str) -> float:
    """Return the entropy of a text in bits per character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def masked(value: str) -> str:
    return f"{value[:4]}… ({len(value)} characters)"


def hits(text: str) -> list[tuple[int, str, str]]:
    found = []
    for match in PATTERN.finditer(text):
        kind = next(NAMES[int(name[1:])] for name, part in match.groupdict().items() if part)
        value = match.group()
        if kind == "assignment":
            value = next((group for group in reversed(match.groups()) if group), value)
            if entropy(value) < 3:
                continue
        if not EXAMPLE.search(match.group()):
            found.append((text.count("\n", 0, match.start()) + 1, kind, value))
    return found


def git(*arguments: str, data: bytes | None = None) -> bytes:
    done = subprocess.run(["git", *arguments], input=data, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.decode(errors="replace").strip() or "git failed.")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--history", action="store_true", help="also every version in git's history")
    options = parser.parse_args()
    count = 0
    for name in git("ls-files", "-z").decode(errors="surrogateescape").split("\0"):
        path = Path(name)
        if not name or path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            continue
        for line, kind, value in hits(path.read_text("utf-8", "replace")):
            count += 1
            print(f"{name}:{line}  {kind}  {masked(value)}")
    if options.history:
        seen: set[str] = set()
        log = git(
            "log",
            "--all",
            "-p",
            "--no-color",
            "--unified=0",
            "--format=%x00%h %ad",
            "--date=short",
            "--no-textconv",
        )
        for record in log.decode("utf-8", "replace").split("\0")[1:]:
            head, _, diff = record.partition("\n")
            added = "\n".join(
                line[1:] for line in diff.split("\n") if line.startswith("+") and not line.startswith("+++")
            )
            for _, kind, value in hits(added):
                if value not in seen:
                    seen.add(value)
                    count += 1
                    print(f"commit {head}  {kind}  {masked(value)}")
    print(f"{count} found. A count of zero means that no known shape was found, not that there is no secret.")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
