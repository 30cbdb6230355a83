"""Render a diagram: render.py SOURCE.(dot|gv|mmd) -o OUTPUT.(svg|png|pdf)"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

GRAPHVIZ = {".dot", ".gv"}
MERMAID = {".mmd", ".mermaid"}
SECONDS = 120


def command(source: Path, output: Path) -> list[str]:
    """Return the command that renders the source. Raises `SystemExit` with the name of a missing program."""
    kind, form = source.suffix.lower(), output.suffix.lower().lstrip(".")
    if form not in ("svg", "png", "pdf"):
        raise SystemExit("The output ends in .svg, .png or .pdf.")
    if kind in GRAPHVIZ:
        if (dot := shutil.which("dot")) is None:
            raise SystemExit(
                "Graphviz is missing; install it: apt-get install graphviz, or brew install graphviz."
            )
        return [dot, f"-T{form}", str(source), "-o", str(output)]
    if kind in MERMAID:
        if (mmdc := shutil.which("mmdc")) is None:
            raise SystemExit("mermaid-cli is missing; install it: npm install -g @mermaid-js/mermaid-cli.")
        return [mmdc, "--input", str(source), "--output", str(output), "--backgroundColor", "white"]
    raise SystemExit("The source ends in .dot, .gv, .mmd or .mermaid.")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    if not options.source.is_file():
        raise SystemExit(f"There is no file {options.source}.")
    try:
        done = subprocess.run(
            command(options.source, options.output),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"Rendering took more than {SECONDS} seconds.") from None
    if done.returncode or not options.output.is_file():
        print((done.stderr or done.stdout).strip()[-2_000:], file=sys.stderr)
        return 1
    print(f"{options.output}: {options.output.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
