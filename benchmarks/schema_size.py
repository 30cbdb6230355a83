"""Bytes of the default tools' schemas as they are sent, against the reference system's 55,027.

Target: under 20,000 bytes.

    python benchmarks/schema_size.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.model.codecs import codec_for
from agent.model.protocol import ToolSpec
from tools.discovery import discover
from tools.registry import registry
from tools.toolsets import resolve

REFERENCE = 55_027


def main() -> None:
    discover()
    definitions = registry.definitions(resolve(["default"], []))
    specs = [ToolSpec(each["name"], each["description"], each["parameters"]) for each in definitions]
    codec = codec_for("native")
    for spec in specs:
        print(f"{spec.name:16} {len(codec.tools([spec])):6,}")
    total = len(codec.tools(specs))
    print(f"{'all':16} {total:6,} bytes, ratio {total / REFERENCE:.2f} (target < 20,000)")


if __name__ == "__main__":
    main()
