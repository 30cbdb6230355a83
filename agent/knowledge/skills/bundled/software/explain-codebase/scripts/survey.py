"""A survey of the repository in the current folder: size by language and folder, large and busy files."""

from __future__ import annotations

import collections
import subprocess
import sys
from pathlib import Path

SHOWN = 15


def git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, errors="replace", check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def lines_of(path: Path) -> int:
    try:
        content = path.read_bytes()
    except OSError:
        return 0
    return 0 if b"\0" in content[:1024] else content.count(b"\n")


def table(title: str, counts: collections.Counter[str]) -> None:
    print(f"\n{title}")
    for name, count in counts.most_common(SHOWN):
        print(f"{count:>9,}  {name}")


def main() -> int:
    names = git("ls-files") or [str(path) for path in Path().rglob("*") if path.is_file()][:20_000]
    languages, folders, files = (collections.Counter[str]() for _ in range(3))
    for name in names:
        count = lines_of(Path(name))
        languages[Path(name).suffix or Path(name).name] += count
        folders["/".join(Path(name).parts[:2][:-1] or ["."])] += count
        files[name] = count
    table("Lines by kind of file", languages)
    table("Lines by folder", folders)
    table("Largest files", files)
    known = set(names)
    busy = collections.Counter(
        name for name in git("log", "--since=1 year ago", "--name-only", "--format=") if name in known
    )
    table("Most often changed in a year", busy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
