"""Skills on disk, for tests."""

from __future__ import annotations

from pathlib import Path


def write_skill(root: Path, place: str, head: str = "", body: str = "Do it.") -> Path:
    """A skill in the folder `place` below `root`; `head` is further YAML."""
    folder = root / place
    folder.mkdir(parents=True, exist_ok=True)
    name, description = folder.name, f"About {folder.name}."
    (folder / "SKILL.md").write_text(
        f"---\nname: {name}\ndescription: {description}\n{head}---\n{body}\n", "utf-8"
    )
    return folder
