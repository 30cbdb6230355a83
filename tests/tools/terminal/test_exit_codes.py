"""Which exit codes get a word of explanation."""

import pytest

from tools.terminal.shell import exit_code_meaning


@pytest.mark.parametrize(
    ("command", "code", "part"),
    [
        ("grep x y", 1, "no line matched"),
        ("cd a && LANG=C sudo /usr/bin/grep -r 'a && b; c' .", 1, "no line matched"),
        ("cat f | grep x", 1, "no line matched"),
        ("make; rg 'x|y' src\n", 1, "no line matched"),
        ("git diff --exit-code", 1, "there are differences|inputs differ"),
        ("if true; then diff a b; fi", 1, ""),
        ("[ -f x ]", 1, "condition is false"),
        ("pytest -q", 5, "no tests"),
        ("curl -f https://x", 22, "HTTP 400"),
        ("anything", 127, "not found"),
        ("anything", 126, "could not be executed"),
        ("anything", 143, "SIGTERM"),
        ("anything", 255, ""),
        ("grep x y", 2, ""),
        ("grep x y; false", 1, ""),
        ("echo grep", 1, ""),
        ("grep x", 0, ""),
        ("'", 1, ""),
        ("", 1, ""),
    ],
)
def test_codes_that_are_not_what_they_seem_are_explained(command: str, code: int, part: str):
    found = exit_code_meaning(command, code)
    assert (found == "") if not part else any(one in found for one in part.split("|"))
