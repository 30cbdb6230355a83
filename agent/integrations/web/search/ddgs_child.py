"""Process that searches with `ddgs`, whose own HTTP client is set to use the proxy of the `WebClient`.

It reads `{"query", "limit", "proxy", "engines", "seconds"}` from standard input and prints `{"results": […]}`
or `{"error": …}`.
"""

from __future__ import annotations

import json
import logging
import sys


def main() -> None:
    """Run one search and print its results."""
    logging.disable(logging.CRITICAL)
    order = json.load(sys.stdin)
    try:
        from ddgs import DDGS

        found = DDGS(proxy=order["proxy"], timeout=order["seconds"]).text(
            order["query"], max_results=order["limit"], backend=order["engines"]
        )
        answer: dict[str, object] = {"results": found}
    except Exception as error:
        nothing = "no results" in str(error).lower()
        answer = {"results": []} if nothing else {"error": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
