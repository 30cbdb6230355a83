"""Commits of a range as JSON, grouped by conventional prefix: commits.py v1.2.0..HEAD"""

from __future__ import annotations

import json
import re
import subprocess
import sys

PREFIX = re.compile(r"(?P<kind>[a-z]+)(?:\((?P<scope>[^)]*)\))?(?P<breaking>!)?: (?P<text>.*)")
FORMAT = "%x1e%h%x1f%an%x1f%ad%x1f%s%x1f%b%x1f"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: commits.py FROM..TO", file=sys.stderr)
        return 2
    command = ["git", "log", "--date=short", f"--format={FORMAT}", "--shortstat", arguments[0], "--"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
        return 1
    groups: dict[str, list[dict[str, object]]] = {}
    for record in done.stdout.split("\x1e")[1:]:
        commit, author, day, subject, body, changed = (part.strip() for part in record.split("\x1f")[:6])
        match = PREFIX.fullmatch(subject)
        kind = match["kind"] if match else "other"
        groups.setdefault(kind, []).append(
            {
                "commit": commit,
                "author": author,
                "date": day,
                "text": match["text"] if match else subject,
                "scope": match["scope"] if match else None,
                "breaking": bool(match and match["breaking"]) or "BREAKING CHANGE" in body,
                "references": sorted(set(re.findall(r"#(\d+)", f"{subject} {body}")), key=int),
                "changed": changed,
            }
        )
    print(json.dumps(groups, indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
