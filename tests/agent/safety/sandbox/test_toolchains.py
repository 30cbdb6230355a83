"""Everyday work inside each boundary: a part of the table in docs/sandbox.md, and the table itself."""

from __future__ import annotations

import pytest

from tests.agent.safety.sandbox.toolchains import (
    BEGIN,
    COLUMNS,
    END,
    NOT_TRIED,
    PAGE,
    WORKFLOWS,
    WORKS,
    Workflow,
    outcome,
)
from tests.support.thorough import thoroughly

USUAL = (
    "npm: install a packed package",
    "make and gcc",
    "git: a work tree",
    "git: a filter",
    "git: sign with a key of the project",
    "git: a separate git folder",
)
ROWS = {each.name: each for each in WORKFLOWS}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [*USUAL, *thoroughly(*(name for name in ROWS if name not in USUAL))])
@pytest.mark.parametrize("column", ["bubblewrap", *thoroughly("Landlock alone", "neither")])
def test_everyday_work_is_done_unasked_and_no_secret_is_read(name: str, column: str) -> None:
    how, said = outcome(ROWS[name], COLUMNS[column])
    assert how in (WORKS, NOT_TRIED), said


def test_the_page_has_a_row_for_each_workflow() -> None:
    table = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[2:]] == list(ROWS)


@pytest.mark.parametrize("column", ["bubblewrap", "Landlock alone"])
def test_node_takes_closed_logins_for_an_empty_file_and_other_closed_files_for_closed(column: str) -> None:
    read = """
        const fs = require("fs"), closed = process.env.HOME + "/.npmrc";
        const seen = [fs.readFileSync(closed, "utf8")];
        fs.readFile(closed, "utf8", async (error, text) => {
          seen.push(error ?? text, await fs.promises.readFile(closed, "utf8"));
          let key = "";
          const other = process.env.HOME + "/.ssh/id_ed25519";
          try { key = fs.readFileSync(other, "utf8"); } catch (error) { key = error.code; }
          process.exitCode = seen.join("") === "" && ["EACCES", "ENOENT"].includes(key) ? 0 : 1;
          console.log(seen, key);
        });
    """.replace("'", '"')
    how, said = outcome(Workflow("node", "node", "", f"node -e '{read}'"), COLUMNS[column])
    assert how in (WORKS, NOT_TRIED), said
