"""Print the text of a document: read.py FILE.(pdf|docx|pptx)"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


def need(module: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise SystemExit(
            f"The package {package} is missing; install it: python -m pip install {package}."
        ) from None


def table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(" ".join(cell.split()) for cell in row) + " |" for row in rows]
    if lines:
        lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines)


def pdf(path: Path) -> Iterator[str]:
    pages = need("pypdf", "pypdf").PdfReader(str(path)).pages
    for number, page in enumerate(pages, 1):
        text = page.extract_text().strip()
        yield f"--- page {number} of {len(pages)} ---\n{text or '(no text: probably a scan)'}"


def docx(path: Path) -> Iterator[str]:
    document = need("docx", "python-docx").Document(str(path))
    for part in document.iter_inner_content():
        if hasattr(part, "rows"):
            yield table([[cell.text for cell in row.cells] for row in part.rows])
        elif part.text.strip():
            style = part.style.name if part.style is not None else ""
            level = style.removeprefix("Heading ") if style.startswith("Heading ") else ""
            yield f"{'#' * int(level)} {part.text}" if level.isdigit() else part.text


def pptx(path: Path) -> Iterator[str]:
    slides = need("pptx", "python-pptx").Presentation(str(path)).slides
    for number, slide in enumerate(slides, 1):
        yield f"--- slide {number} of {len(slides)} ---"
        for shape in slide.shapes:
            if shape.has_text_frame and shape.text_frame.text.strip():
                yield shape.text_frame.text
            if getattr(shape, "has_table", False) and shape.has_table:
                yield table([[cell.text for cell in row.cells] for row in shape.table.rows])
        if slide.has_notes_slide and slide.notes_slide.notes_text_frame.text.strip():
            yield f"Notes: {slide.notes_slide.notes_text_frame.text}"


READERS = {".pdf": pdf, ".docx": docx, ".pptx": pptx}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_file():
        raise SystemExit("usage: read.py FILE.(pdf|docx|pptx)")
    path = Path(arguments[0])
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise SystemExit(f"The file ends in one of {', '.join(READERS)}.")
    for part in reader(path):
        print(part)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
