"""A browser of one line: it follows redirects as a person would who says yes to all."""

from __future__ import annotations

import sys
import urllib.request

if __name__ == "__main__":
    with urllib.request.urlopen(sys.argv[1], timeout=60) as response:
        response.read()
