"""What a project needs from outside and starts by itself, inside a boundary: the plain forms of it pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.safety.commands.test_programs import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    found = Bench(tmp_path)
    found.write("main.c", "int main(void) { return 0; }\n")
    found.write("main.py", "print(1)\n")
    return found


@pytest.mark.parametrize(
    "command",
    [
        "rm src/not_there.py",
        "cat main.py > copy.py; rm copy.py",
        "rm -f tmp_probe.py",
        "gcc -o main main.c && ./main",
        "gcc main.c && ./a.out",
        "make && ./build/app --help",
        "pip install requests==2.31.0 'fastapi[all]>=0.1'",
        "npm install -D typescript@5 @types/node",
        "cargo add serde --features derive",
        "go get github.com/stretchr/testify@latest",
        "git clone --depth 1 https://github.com/ada/engine",
        "git pull --rebase origin main",
        "uvicorn app.main:app --reload --port 8000",
        "flask run --host=127.0.0.1 -p 5000",
        "mvn spring-boot:run",
    ],
)
def test_plain_forms_pass(bench: Bench, command: str) -> None:
    assert bench.says(command, "open") == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "rm main.py",
        "rm *.py",
        "mv main.py x.py && rm x.py",
        "echo > x.py; mv main.py x.py; rm x.py",
        "curl -o x https://example.com/x; make; ./x",
        "cp y.c x.c; gcc x.c -o x; ./x",
        "pip install reqeusts",
        "pip install requests --index-url https://example.com",
        "npm install react@npm:other",
        "npm install react@https://example.com/x.tgz",
        "npm install react --registry https://example.com",
        "cargo add serde --git https://example.com/x",
        "git clone https://example.com/x.git",
        "git clone --recurse-submodules https://github.com/ada/engine",
        "git clone https://github.com/ada/engine ../engine",
        "git clone https://github.com/ada/engine && cd engine && make",
        "git clone https://github.com/ada/engine && cd engine && npm ci",
        "git pull origin +main:main",
        "uvicorn app:app --host 0.0.0.0",
        "gunicorn -c conf.py app:app",
        "flask run --host 0.0.0.0",
        "mvn spring-boot:run -Dexec.executable=sh",
        "gradle run --args=deploy",
    ],
)
def test_forms_that_lose_or_bring_something_ask(bench: Bench, command: str) -> None:
    assert bench.says(command, "open") == "ask"
