"""`make test-changed`: the tests near a change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.changed import MOST, imports_of, near

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def imports() -> dict[Path, frozenset[Path]]:
    return imports_of(ROOT)


def test_a_changed_module_runs_the_tests_that_import_it_first(imports: dict[Path, frozenset[Path]]) -> None:
    module = ROOT / "tools/text/json_text.py"
    direct = {path for path, needed in imports.items() if module in needed and path.name.startswith("test_")}
    files = near([module], imports, ROOT)
    assert direct and set(files[: len(direct)]) == direct
    assert len(files) <= MOST


def test_a_changed_test_runs_itself_and_data_the_tests_of_its_modules(
    imports: dict[Path, frozenset[Path]],
) -> None:
    here = Path(__file__)
    assert near([here], imports, ROOT) == [here]
    assert near([ROOT / "themes/builtin/night.yaml"], imports, ROOT) != []
    assert near([ROOT / "README.md"], imports, ROOT) == []


def test_only_files_near_a_change_are_collected(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path, check=True)

    for name, text in {
        "tools/__init__.py": "",
        "tools/one.py": "ONE = 1\n",
        "tools/two.py": "TWO = 2\n",
        "tests/__init__.py": "",
        "tests/test_one.py": "from tools.one import ONE\n\ndef test_one() -> None:\n    assert ONE\n",
        "tests/test_two.py": "from tools.two import TWO\n\ndef test_two() -> None:\n    assert TWO\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    (tmp_path / "tools/one.py").write_text("ONE = 11\n")
    code = (
        "import sys, pytest; import tests.support.changed as plugin; "
        "sys.path.insert(0, '.'); [sys.modules.pop(name) for name in list(sys.modules) "
        "if name.split('.')[0] == 'tests' and name != plugin.__name__]; "
        "sys.exit(pytest.main(['-v', '--rootdir=.', '-p', 'no:cacheprovider', '--changed', 'HEAD', 'tests'], "
        "plugins=[plugin]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "test_one.py::test_one" in result.stdout and "test_two" not in result.stdout, result.stdout
