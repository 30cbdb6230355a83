"""Whether all skills of public collections load.

    .venv/bin/python benchmarks/skills_collection.py PATH...

PATH is a checkout of a collection, such as github.com/anthropics/skills, github.com/openai/skills or
github.com/obra/superpowers; they stay outside of this repository. Every SKILL.md in it is read as an
installed skill is, with its linked files; what is odd about it is counted, what cannot be read is named.
Ends with 1 where one does not load.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.knowledge.skills.catalog import BrokenSkill, SkillIndex, SkillRoot
from agent.knowledge.skills.skill import Skill, linked_files, read_text, validate


def loaded(folder: Path) -> Skill | BrokenSkill:
    """One skill, as `SkillIndex` finds it where only this one is looked for."""
    found = SkillIndex().find([SkillRoot(folder, "user", 0)])
    return (*found.skills, *found.broken)[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("paths", type=Path, nargs="*")
    options = parser.parse_args()
    if not options.paths:
        print("Skipped: give the path of a collection; see the head of this file.")
        return 0
    broken = 0
    for path in options.paths:
        start = time.perf_counter()
        folders = sorted(file.parent for file in path.rglob("SKILL.md"))
        odd: Counter[str] = Counter()
        count = warned = files = 0
        for folder in folders:
            skill = loaded(folder)
            if isinstance(skill, BrokenSkill):
                broken += 1
                print(f"{folder.relative_to(path)}: {skill.reason}")
                continue
            count += 1
            files += sum(len(each) for each in linked_files(folder).values())
            problems = validate(read_text(skill.file, folder), folder.name)
            odd.update(problems)
            warned += bool(problems)
        seconds = time.perf_counter() - start
        print(
            f"{path.name}: {count} of {len(folders)} skills with {files} linked files load in "
            f"{seconds:.1f} s; {warned} are not to the letter of the format"
        )
        for problem, times in odd.most_common(5):
            print(f"  {times} × {problem}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
