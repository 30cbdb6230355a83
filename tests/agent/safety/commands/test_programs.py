"""Programs of the workspace inside a boundary: which run unasked, and what in them is shown first."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.safety.commands.assessor import Assessor
from agent.safety.confinement import Confinement, confinement
from agent.safety.places import Places

PLAIN = """\
import argparse
import json
from pathlib import Path

from helper import Table


class Report:
    def __init__(self, args):
        self._args = args
        self.run()

    def run(self):
        rows = json.loads(Path("data.json").read_text())
        Path(self._args.out).write_text(json.dumps(rows))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default="out.json")
    Report(parser.parse_args())
    print(Table().name)


if __name__ == "__main__":
    main()
"""
HELPER = "import csv\n\n\nclass Table:\n    name = 'table'\n"


class Bench:
    """A workspace, and what is said of commands in it under each confinement."""

    def __init__(self, root: Path) -> None:
        self.root = root / "work"
        self.root.mkdir()
        self._home = root / "home"

    def write(self, name: str, held: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held.encode() if isinstance(held, str) else held)

    def says(self, command: str, kept: Confinement) -> str:
        places = Places(home=str(self._home), guarded=(), secret=())
        return Assessor(places, self.root, confinement=kept).assess(command, self.root).kind


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.write("app.py", PLAIN)
    made.write("helper.py", HELPER)
    made.write("main.bin", b"\x7fELF\0\0\0")
    made.write("server.js", "require('http').createServer((q, r) => r.end('hi')).listen(3000)\n")
    made.write("count.js", "const fs = require('fs');\nconsole.log(fs.readFileSync('a.txt').length)\n")
    made.write("tool.rb", "puts 1\n")
    return made


@pytest.mark.parametrize(
    ("command", "unconfined", "opened", "closed"),
    [
        ("python app.py", "ask", "allow", "allow"),
        ("python app.py --out x.json", "ask", "allow", "allow"),
        ("python -m app", "ask", "allow", "allow"),
        ("python -m twine upload dist/x", "ask", "ask", "ask"),
        ("uv run python app.py", "ask", "allow", "allow"),
        ("poetry run python app.py", "ask", "allow", "allow"),
        ("cd . && python app.py | head", "ask", "allow", "allow"),
        ("./main.bin --help", "ask", "ask", "allow"),
        ("node server.js", "ask", "ask", "allow"),
        ("node count.js", "ask", "allow", "allow"),
        ("bun run server.js", "ask", "ask", "allow"),
        ("ruby tool.rb", "ask", "ask", "allow"),
        ("gcc -o main.bin main.c && ./main.bin", "ask", "allow", "allow"),
        ("javac -d out Main.java && java -cp out Main", "ask", "allow", "allow"),
        ("python app.py deploy", "ask", "ask", "ask"),
        ("python app.py .env", "ask", "ask", "ask"),
        ("python ../app.py", "ask", "ask", "ask"),
        ("echo 'print(1)' > app.py; python app.py", "allow", "allow", "allow"),
        ("echo 'import os; os.remove(\"x\")' > app.py; python app.py", "ask", "ask", "ask"),
        ("echo 'print(1)' > app.py; sed -i s/1/2/ app.py; python app.py", "ask", "ask", "ask"),
        ("echo 'print(1)' > app.py; make; python app.py", "ask", "ask", "ask"),
        ("cp evil.py helper.py; python app.py", "ask", "ask", "allow"),
        ("PYTHONPATH=evil python app.py", "ask", "ask", "allow"),
        ("gcc -o main.bin main.c && cp evil main.bin && ./main.bin", "ask", "ask", "ask"),
        ("echo 'int main(){}' > m.c && gcc -o m m.c && ./m", "ask", "allow", "allow"),
        ("echo 'int main(){system(\"x\");}' > m.c && gcc -o m m.c && ./m", "ask", "ask", "ask"),
        ("echo 'int main(){}' > m.c && cp evil.c m.c && gcc -o m m.c && ./m", "ask", "ask", "ask"),
        ("java -cp /tmp/evil Main", "ask", "ask", "ask"),
        ("python manage.py flush", "ask", "ask", "ask"),
    ],
)
def test_programs_of_the_workspace_run_unasked_where_a_boundary_keeps_them(
    bench: Bench, command: str, unconfined: str, opened: str, closed: str
) -> None:
    assert bench.says(command, "none") == unconfined
    assert bench.says(command, "open") == opened
    assert bench.says(command, "closed") == closed


@pytest.mark.parametrize(
    "text",
    [
        "import shutil\nshutil.rmtree('src')\n",
        "import subprocess\nsubprocess.run(['git', 'push'])\n",
        "open('.git/hooks/pre-commit', 'w').write('x')\n",
        "open('.env').read()\n",
        "exec(__import__('base64').b64decode('cHJpbnQoMSk='))\n",
        "import os\nos.system('rm -rf src')\n",
        "import sqlite3\nsqlite3.connect('a.db').execute('DROP TABLE users')\n",
    ],
)
def test_a_script_that_says_otherwise_asks_within_any_boundary(bench: Bench, text: str) -> None:
    bench.write("app.py", text)
    assert bench.says("python app.py", "closed") == "ask"
    assert bench.says("python app.py", "open") == "ask"


@pytest.mark.parametrize(
    "text",
    [
        "import socket\n",
        "import urllib.request\n",
        "from urllib import request\n",
        "import urllib.parse\nurllib.request\n",
        "import requests\n",
        "import importlib\n",
        "import asyncio\nasyncio.open_connection('x', 1)\n",
        "import asyncio\nasyncio.create_task(f()).get_loop().create_connection(g)\n",
        "import glob\nglob.os.remove('x')\n",
        "import json\njson.codecs.open('x')\n",
        "from json import codecs\n",
        "import random\nrandom._os\n",
        "from tempfile import _os\n",
        "import json\nmatch json:\n    case object(codecs=c):\n        pass\n",
        "import dataclasses\ndataclasses._create_fn('f', [], ['import os'])\n",
        "def f(self):\n    return self.sys\nimport glob\nf(glob)\n",
        "import os\nx = os\nx.startfile('x')\n",
        "import os\ngetattr(os, 'sys' + 'tem')('x')\n",
        "g = getattr\n",
        "f = open\nprint(().__class__.__mro__)\n",
        "(lambda: 0).__globals__\n",
        "print.__self__\n",
        "__builtins__\n",
        "vars()\n",
        "import string\nstring.Formatter().get_field('0.x', (), {})\n",
        "import operator\noperator.attrgetter('x')\n",
        "import functools\nfunctools.singledispatch(print)\n",
        "print('https://collector.example/')\n",
        "from os import *\n",
        "from helper import csv\nfrom helper import os\n",
        "# coding: rot13\nvzcbeg bf\n",
        "import helper.evil\n",
        "print(1\n",
    ],
)
def test_a_script_that_reaches_more_than_files_asks_while_the_network_is_open(
    bench: Bench, text: str
) -> None:
    bench.write("app.py", text)
    assert bench.says("python app.py", "open") == "ask"


@pytest.mark.parametrize("name", ["json.py", "decimal.py", "fractions/__init__.py", "json.so", "helper.pyc"])
def test_files_that_stand_in_for_modules_of_the_library_ask_while_the_network_is_open(
    bench: Bench, name: str
) -> None:
    bench.write(name, "x = 1\n")
    assert bench.says("python app.py", "open") == "ask"


def test_what_a_script_imports_is_read_as_well(bench: Bench) -> None:
    bench.write("helper.py", "import socket\n\n\nclass Table:\n    name = ''\n")
    assert bench.says("python app.py", "open") == "ask"
    bench.write("helper.py", "from deep import name\n\n\nclass Table:\n    name = ''\n")
    bench.write("deep/__init__.py", "from .inner import name\n")
    bench.write("deep/inner.py", "name = ''\n")
    assert bench.says("python app.py", "open") == "allow"
    bench.write("deep/inner.py", "import subprocess\nname = ''\n")
    assert bench.says("python app.py", "open") == "ask"


def test_shell_scripts_are_judged_line_by_line_within_any_boundary(bench: Bench) -> None:
    bench.write("run.sh", "#!/bin/sh\npython app.py\n")
    assert bench.says("./run.sh", "none") == "ask"
    assert bench.says("./run.sh", "open") == "allow"
    bench.write("run.sh", "#!/bin/sh\nkubectl delete namespace prod\n")
    assert bench.says("./run.sh", "closed") == "ask"
    bench.write("run.sh", "#!/bin/sh\nrm -rf /\n")
    assert bench.says("./run.sh", "closed") == "hardline"


def test_a_program_that_is_not_there_runs_nothing(bench: Bench) -> None:
    assert bench.says("python missing.py", "closed") == "allow"
    assert bench.says("python missing.py", "open") == "allow"
    assert bench.says("python missing.py", "none") == "ask"


def test_a_program_that_the_command_itself_may_bring_asks(bench: Bench) -> None:
    assert bench.says("git checkout other && python missing.py", "open") == "ask"
    assert bench.says("cp app.py missing.py && python missing.py", "open") == "ask"
    assert bench.says("tar xf bundle.tar; ./missing.sh", "open") == "ask"


def test_a_program_behind_a_link_to_outside_asks(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text("print(1)\n")
    (bench.root / "app.py").unlink()
    (bench.root / "app.py").symlink_to(tmp_path / "evil.py")
    assert bench.says("python app.py", "closed") == "ask"


def test_what_is_counted_on_follows_sandbox_and_network() -> None:
    assert confinement("none", "off") == "none"
    assert confinement("bubblewrap", "on") == "open"
    assert confinement("landlock", "ask") == "closed"
    assert confinement("bubblewrap", "off") == "closed"
    assert confinement("bubblewrap", "off", elsewhere=True) == "none"


def test_listed_packages_are_installed_unasked_where_only_the_workspace_can_change(bench: Bench) -> None:
    bench.write("requirements.txt", "requests\n")
    assert bench.says("pip install -r requirements.txt", "none") == "ask"
    assert bench.says("pip install -r requirements.txt", "open") == "allow"
    assert bench.says("pip install evil", "open") == "ask"
    assert bench.says("pip install --user -r requirements.txt", "open") == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "$(<run.txt)",
        'eval "$(< run.txt)"',
        "x=$(<run.txt); $x",
        "a[$(rm -rf ~)]=1",
        "declare a[$(rm -rf ~)]=1",
        "unset 'a[$(rm -rf ~)]'",
        "while true; do sleepless & done",
        r"printf 'all:\n\trm -rf ~\n' > Makefile && make",
        "echo 'import os; os.system(\"id\")' > conftest.py && pytest",
        "sed -i../x/ s/a/b/ app.py",
        "perl -i -pe 's/.*//s' app.py",
        "find . -type f -exec truncate -s 0 {} +",
        "git ls-files | xargs truncate -s 0",
        "ls | sort | cat\nrm -rf src < /dev/null",
    ],
)
def test_text_that_would_run_or_empty_files_is_not_overlooked(bench: Bench, command: str) -> None:
    bench.write("run.txt", "rm -rf ~\n")
    assert bench.says(command, "closed") != "allow"


@pytest.mark.parametrize(
    "command",
    [
        'x=$(<run.txt); echo "$x"',
        "a[$i]=1; m['key']=2; unset a[0]",
        "while true; do date; sleep 1; done",
        "printf 'all:\\n\\tpytest\\n' > Makefile && make",
        "git ls-files '*.py' | xargs ruff check",
        "grep -rl old src | xargs sed -i 's/old/new/g'",
        "rg -l old -g '*.ts' | xargs sed -i 's/old/new/g'",
        "fd -e py -x wc -l",
    ],
)
def test_plain_forms_of_the_same_stay_silent(bench: Bench, command: str) -> None:
    bench.write("run.txt", "hello\n")
    assert bench.says(command, "none") == "allow"
