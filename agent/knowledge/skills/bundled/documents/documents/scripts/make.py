"""Make a document from Markdown: make.py CONTENT.md -o OUT.(docx|pdf|pptx) [--template FILE]"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from types import ModuleType
from xml.sax.saxutils import escape

from markdown_blocks import Block, blocks, spans


def need(module: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise SystemExit(
            f"The package {package} is missing; install it: python -m pip install {package}."
        ) from None


def make_docx(content: list[Block], output: Path, template: Path | None, folder: Path) -> None:
    docx = need("docx", "python-docx")
    shared = need("docx.shared", "python-docx")
    document = docx.Document(str(template) if template else None)

    def write(paragraph: object, text: str) -> None:
        for piece, style in spans(text):
            run = paragraph.add_run(piece)  # type: ignore[attr-defined]
            run.bold, run.italic = style == "bold" or None, style == "italic" or None
            if style == "code":
                run.font.name = "Courier New"

    for block in content:
        if block.kind == "heading":
            document.add_heading(block.text, min(block.level, 9))
        elif block.kind in ("bullet", "number"):
            base = "List Bullet" if block.kind == "bullet" else "List Number"
            style = base if block.level == 1 else f"{base} {min(block.level, 3)}"
            write(document.add_paragraph(style=style), block.text)
        elif block.kind == "code":
            run = document.add_paragraph().add_run(block.text)
            run.font.name, run.font.size = "Courier New", shared.Pt(9)
        elif block.kind == "table":
            width = max(map(len, block.rows))
            table = document.add_table(rows=0, cols=width)
            table.style = "Table Grid"
            for number, row in enumerate(block.rows):
                for cell, text in zip(table.add_row().cells, [*row, *[""] * width], strict=False):
                    write(cell.paragraphs[0], f"**{text}**" if number == 0 and text else text)
        elif block.kind == "image":
            document.add_picture(str(folder / block.text), width=shared.Cm(15))
        elif block.kind == "rule":
            document.add_page_break()
        else:
            write(document.add_paragraph(), block.text)
    document.save(str(output))


def make_pdf(content: list[Block], output: Path, template: Path | None, folder: Path) -> None:
    if template:
        raise SystemExit("A PDF takes no template; make a .docx with it and convert that.")
    platypus = need("reportlab.platypus", "reportlab")
    styles = need("reportlab.lib.styles", "reportlab").getSampleStyleSheet()
    colors, units = need("reportlab.lib.colors", "reportlab"), need("reportlab.lib.units", "reportlab")
    tags = {
        "bold": "<b>{}</b>",
        "italic": "<i>{}</i>",
        "code": '<font face="Courier">{}</font>',
        "plain": "{}",
    }

    def marked(text: str) -> str:
        return "".join(tags[style].format(escape(piece)) for piece, style in spans(text))

    story: list[object] = []
    for block in content:
        if block.kind == "heading":
            story.append(platypus.Paragraph(marked(block.text), styles[f"Heading{min(block.level, 4)}"]))
        elif block.kind in ("bullet", "number"):
            text = platypus.Paragraph(marked(block.text), styles["BodyText"])
            sign = "•" if block.kind == "bullet" else "–"
            story.append(
                platypus.ListFlowable([text], bulletType="bullet", start=sign, leftIndent=18 * block.level)
            )
        elif block.kind == "code":
            story.append(platypus.Preformatted(block.text, styles["Code"]))
        elif block.kind == "table":
            rows = [
                [platypus.Paragraph(marked(cell), styles["BodyText"]) for cell in row] for row in block.rows
            ]
            width = max(map(len, rows))
            table = platypus.Table([row + [""] * (width - len(row)) for row in rows], repeatRows=1)
            table.setStyle(
                [("GRID", (0, 0), (-1, -1), 0.5, colors.grey), ("VALIGN", (0, 0), (-1, -1), "TOP")]
            )
            story += [table, platypus.Spacer(1, 8)]
        elif block.kind == "image":
            picture = platypus.Image(str(folder / block.text))
            scale = min(1, 15 * units.cm / picture.drawWidth)
            picture.drawWidth, picture.drawHeight = picture.drawWidth * scale, picture.drawHeight * scale
            story.append(picture)
        elif block.kind == "rule":
            story.append(platypus.PageBreak())
        else:
            story.append(platypus.Paragraph(marked(block.text), styles["BodyText"]))
    platypus.SimpleDocTemplate(
        str(output), title=next((b.text for b in content if b.kind == "heading"), "")
    ).build(story)


def make_pptx(content: list[Block], output: Path, template: Path | None, folder: Path) -> None:
    pptx, util = need("pptx", "python-pptx"), need("pptx.util", "python-pptx")
    deck = pptx.Presentation(str(template) if template else None)
    slide, body = None, None
    for block in content:
        if block.kind == "heading" and block.level <= 2:
            first = slide is None and block.level == 1
            slide = deck.slides.add_slide(deck.slide_layouts[0 if first else 1])
            slide.shapes.title.text = block.text
            body = slide.placeholders[1].text_frame if len(slide.placeholders) > 1 else None
            continue
        if slide is None:
            slide = deck.slides.add_slide(deck.slide_layouts[1])
            body = slide.placeholders[1].text_frame
        if block.kind == "text" and block.text.startswith("Notes:"):
            slide.notes_slide.notes_text_frame.text = block.text.removeprefix("Notes:").strip()
        elif block.kind == "image":
            slide.shapes.add_picture(str(folder / block.text), util.Cm(2), util.Cm(5), height=util.Cm(11))
        elif block.kind == "table":
            width = max(map(len, block.rows))
            shape = slide.shapes.add_table(
                len(block.rows), width, util.Cm(2), util.Cm(5), util.Cm(21), util.Cm(1)
            )
            for y, row in enumerate(block.rows):
                for x, text in enumerate(row):
                    shape.table.cell(y, x).text = "".join(piece for piece, _ in spans(text))
        elif body is not None and block.kind != "rule":
            paragraph = body.paragraphs[0] if not body.text else body.add_paragraph()
            paragraph.level = min(block.level - 1, 4) if block.kind in ("bullet", "number") else 0
            for piece, style in spans(block.text):
                run = paragraph.add_run()
                run.text, run.font.bold, run.font.italic = (
                    piece,
                    style == "bold" or None,
                    style == "italic" or None,
                )
    deck.save(str(output))


MAKERS = {".docx": make_docx, ".pdf": make_pdf, ".pptx": make_pptx}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("content", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--template", type=Path)
    options = parser.parse_args()
    maker = MAKERS.get(options.output.suffix.lower())
    if maker is None:
        raise SystemExit(f"The output ends in one of {', '.join(MAKERS)}.")
    for path in (options.content, options.template):
        if path is not None and not path.is_file():
            raise SystemExit(f"There is no file {path}.")
    content = blocks(options.content.read_text("utf-8"))
    missing = [
        b.text for b in content if b.kind == "image" and not (options.content.parent / b.text).is_file()
    ]
    if missing:
        raise SystemExit(f"There is no image {missing[0]}; images are files beside the content.")
    maker(content, options.output, options.template, options.content.parent)
    print(f"{options.output}: {options.output.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
