"""Process that reads untrusted documents: limited in memory, and replaced if it fails.

The answer to a request is a JSON object with `page`, or with `problem`, a clause.
"""

from __future__ import annotations

import json
import resource
import sys

from agent.core.worker_child import answer_orders
from tools.extras import add_hint

MEMORY = 1_500_000_000
"""The limit on the address space of the process, in bytes."""


def main() -> None:
    """Answer requests until the other side closes the connection."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.setrecursionlimit(3_000)
    answer_orders(lambda order, data: json.dumps(_answer(order, data)).encode())


def _answer(order: dict[str, object], data: bytes) -> dict[str, object]:
    from agent.integrations.web.reading.passages import UnreadableError

    try:
        from agent.integrations.web.reading.documents import read_document

        page = read_document(
            data,
            str(order["content_type"]),
            str(order["url"]),
            wants_plain=bool(order["wants_plain"]),
            wants_links=bool(order["wants_links"]),
        )
    except UnreadableError as error:
        return {"problem": str(error)}
    except ModuleNotFoundError:
        return {"problem": f"cannot be read without the extra `web`; add it with `{add_hint('web')}`"}
    except MemoryError:
        return {"problem": "takes more memory to read than it may"}
    except RecursionError:
        return {"problem": "is nested too deeply to be read"}
    except Exception as error:
        return {"problem": f"cannot be read ({type(error).__name__})"}
    return {"page": page.to_json()}
