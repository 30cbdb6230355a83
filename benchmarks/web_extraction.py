"""How well pages are read: articles of a public benchmark, and forty pages of documentation of our own.

    .venv/bin/python benchmarks/web_extraction.py [FOLDER]

FOLDER holds `html/`, `ground-truth.json` and `evaluate.py` of
github.com/scrapinghub/article-extraction-benchmark (MIT; 181 pages; not part of this repository).
F1 is what its own `evaluate.py` computes, for the plain text that `hermes web extract --batch` gives
and for `trafilatura` alone in the same run. Without FOLDER only the pages of documentation are read
(`tests/support/documentation_pages.py`): blocks of code found whole, cells found in a row of a table.

Targets: F1 >= 0.955, all blocks of code, 99 % of the cells.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.integrations.web.reading.html import read_html
from tests.support.documentation_pages import documentation_pages, found_cells, found_code


def articles(folder: Path) -> bool:
    """Print F1 and time of both; whether the target is met."""
    import trafilatura

    specification = importlib.util.spec_from_file_location("evaluate", folder / "evaluate.py")
    assert specification is not None and specification.loader is not None
    evaluate = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(evaluate)
    truth = json.loads((folder / "ground-truth.json").read_text())
    pages = {
        name: gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes()).decode("utf-8", "replace")
        for name in truth
    }
    ours, took = {}, []
    for name, page in pages.items():
        began = time.process_time()
        read_html(page)
        took.append(time.process_time() - began)
        ours[name] = read_html(page, wants_plain=True).plain
    alone = {name: trafilatura.extract(page, include_comments=False) or "" for name, page in pages.items()}
    best = _f1(evaluate, truth, ours)
    print(f"{len(pages)} articles: F1 {best:.4f}, trafilatura alone {_f1(evaluate, truth, alone):.4f}")
    usual = statistics.median(took) * 1000
    print(f"a page as the agent reads it: median {usual:.0f} ms of CPU, worst {max(took):.2f} s")
    return best >= 0.955


def _f1(evaluate: Any, truth: Mapping[str, Any], found: Mapping[str, str]) -> float:
    counts = [evaluate.string_shingle_matching(truth[name]["articleBody"], found[name]) for name in truth]
    return float(evaluate.metrics_from_tp_fp_fns(counts)["f1"])


def documentation() -> bool:
    """Print what was found; whether the targets are met."""
    code = cells = all_code = all_cells = 0
    pages = documentation_pages()
    for page in pages:
        text = read_html(page.html, "https://docs.example/").content
        code += sum(found_code(text, each) for each in page.code)
        cells += found_cells(text, page.cells)
        all_code += len(page.code)
        all_cells += len(page.cells)
    print(f"{len(pages)} pages of documentation: {code}/{all_code} blocks of code, {cells}/{all_cells} cells")
    return code == all_code and cells >= 0.99 * all_cells


if __name__ == "__main__":
    met = documentation()
    if len(sys.argv) > 1:
        met = articles(Path(sys.argv[1])) and met
    sys.exit(not met)
