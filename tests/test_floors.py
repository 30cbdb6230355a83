"""The house: `app > widgets > agent > tools > themes`, imports go down only."""

from __future__ import annotations

import ast
import graphlib
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source_facts import facts

ROOT = Path(__file__).parents[1]
FLOORS = ("app", "widgets", "agent", "tools", "themes")
ROOMS = [floor for floor in FLOORS if (ROOT / floor).is_dir()]
DISTRICTS = (
    *("api", "automation", "session", "integrations", "knowledge", "safety", "workspace", "model", "core"),
)

MAY_IMPORT = {
    "app": {"app", "widgets", "agent", "tools", "themes"},
    "widgets": {"widgets", "agent.events", "tools", "themes"},
    "agent": {"agent", "tools", "themes"},
    "tools": {"tools", "themes"},
    "themes": {"themes", "tools.kit"},
}
MACHINERY = {
    "agent.automation.unattended",
    *(f"agent.session.{name}" for name in ("attempts", "engine", "pending_requests", "runtime", "stream")),
    *("agent.session.turns", "agent.session.wiring", "agent.core.net", "agent.model.transport"),
}
"""What makes an open session work: surfaces ask for it through `agent.api` (the contract in
`pyproject.toml` names the modules of these packages that hold data or functions for surfaces)."""
HEAVY = [
    *("openai", "mcp", "httpx", "httpx2", "pydantic", "yaml", "dotenv", "aiosqlite", "tree_sitter"),
    *("textual", "rich", "pygments", "markdown_it", "watchdog", "asyncio"),
]
"""Nothing of this is needed to parse a command line."""


def modules(*floors: str) -> list[str]:
    """Dotted names of all modules of these floors, from the files."""
    return sorted(
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for floor in floors
        for path in (ROOT / floor).rglob("*.py")
        if "bundled" not in path.parts  # scripts of skills are programs of their own
    )


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every imported name as (line, dotted name), relative ones resolved; also inside functions."""
    package = path.relative_to(ROOT).parent.parts
    for node in facts(path).imports:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def climbs(floor: str, name: str) -> bool:
    """Whether a module of `floor` may not import `name`."""
    if name.split(".")[0] not in FLOORS:
        return floor in ("agent", "tools", "themes") and name.split(".")[0] == "textual"
    if floor == "app" and {name, name.rpartition(".")[0]} & MACHINERY:
        return True
    return not any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_IMPORT[floor])


def test_imports_go_down_only() -> None:
    climbing = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for floor in ROOMS
        for path in sorted((ROOT / floor).rglob("*.py"))
        for line, name in imports(path)
        if climbs(floor, name)
    ]
    assert climbing == []


@pytest.mark.parametrize(
    ("floor", "name", "verdict"),
    [
        ("tools", "agent.events", True),
        ("widgets", "agent.events.Event", False),
        ("widgets", "agent.session.engine", True),
        ("widgets", "tools.text.safe_text.clean", False),
        ("agent", "widgets.prompt", True),
        ("agent", "textual.app", True),
        ("agent", "tools.text.safe_text", False),
        ("themes", "tools.text.safe_text", True),
        ("app", "textual.app", False),
        ("app", "agent.session.engine.Engine", True),
        ("app", "agent.api.options.Engine", False),
    ],
)
def test_the_rule_itself_tells_up_from_down(floor: str, name: str, verdict: bool) -> None:
    assert climbs(floor, name) is verdict


def test_imports_in_functions_are_seen() -> None:
    seen = set(imports(ROOT / "app" / "main.py"))
    assert any(name.startswith("app.cli.") for _, name in seen), "an import inside a function was missed"


def below(path: Path, known: set[str]) -> set[str]:
    """The modules that a module needs, be it for types only."""
    found: set[str] = set()
    for node in facts(path).imports:
        if isinstance(node, ast.Import):
            names = {alias.name for alias in node.names}
        elif node.module:
            inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            names = {name if name in known else node.module for name in inner.values()}
        else:
            continue
        found |= names
    return found & known


def test_no_module_needs_itself_in_a_circle() -> None:
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for floor in ROOMS
        for path in (ROOT / floor).rglob("*.py")
        if path.name != "__init__.py"
    }
    known = set(files)
    graph = {name: below(path, known) - {name} for name, path in files.items()}
    assert sum(map(len, graph.values())) > 1_000
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    ("floor", "folders", "loose"),
    [
        ("app", {"cli", "tui", "service", "editor"}, {"main", "version", "running_service"}),
        ("agent", {*DISTRICTS}, {"events", "errors"}),
    ],
)
def test_a_floor_has_its_folders_and_hardly_anything_beside_them(
    floor: str, folders: set[str], loose: set[str]
) -> None:
    room = ROOT / floor
    assert {path.parent.name for path in room.glob("*/*.py")} == folders
    assert {path.stem for path in room.glob("*.py")} == {"__init__", *loose}


UPWARDS = {
    "a district knows one above it": ("agent/core/messages.py", "import agent.session.engine"),
    "two that never know each other": ("agent/model/usage.py", "import agent.workspace.watcher"),
    "the terminal knows the command line": ("app/tui/app_context.py", "import app.cli.options"),
    "a surface reaches past the interface": ("app/tui/app_context.py", "import agent.session.engine"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", UPWARDS)
def test_the_contracts_fail_where_an_import_goes_up(tmp_path: Path, kind: str) -> None:
    for floor in FLOORS:
        shutil.copytree(ROOT / floor, tmp_path / floor, ignore=shutil.ignore_patterns("__pycache__", "*.svg"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    name, line = UPWARDS[kind]
    with (tmp_path / name).open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    result = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1 and "BROKEN" in result.stdout, result.stdout[-2000:]


def test_a_conversation_needs_of_the_commands_only_what_they_are() -> None:
    """Commands act on the conversation; it asks for what they do by ports, and knows them by name and key."""
    needed = {
        name.rpartition(".")[0]
        for path in sorted((ROOT / "app/tui/conversation").glob("*.py"))
        for _, name in imports(path)
        if name.startswith("app.tui.commands.")
    }
    known = {f"app.tui.commands.{module}" for module in ("command_kind", "command_list", "registry")}
    assert needed <= known


def test_only_what_starts_the_application_knows_it() -> None:
    knowing = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "app").rglob("*.py")
        if any(name.startswith("app.tui.application.") for _, name in imports(path))
    ]
    assert knowing == ["app/cli/tui.py"]


def test_no_two_folders_of_the_engine_need_each_other() -> None:
    folders = {path.name for path in (ROOT / "agent").iterdir() if (path / "__init__.py").is_file()}
    graph: dict[str, set[str]] = {folder: set() for folder in folders}
    for path in (ROOT / "agent").rglob("*.py"):
        folder = path.relative_to(ROOT / "agent").parts[0]
        if folder in folders:
            named = {name.split(".")[1] for _, name in imports(path) if name.startswith("agent.")}
            graph[folder] |= named & folders - {folder}
    assert sum(map(len, graph.values())) > 20
    graphlib.TopologicalSorter(graph).prepare()


REPLAYED = {"TurnRunner", "Dialogue"}
"""Parts that a replay puts together around recorded answers and results, where no agent works."""


@pytest.mark.parametrize("part", ["CallRunner", "TurnRunner", "CallContext", "Dialogue"])
def test_there_is_one_place_where_the_parts_of_an_agent_are_put_together(part: str) -> None:
    makers = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "agent").rglob("*.py"))
        for _, name in facts(path).calls
        if name == part
    ]
    replay = ["agent/session/replay/replaying.py"] if part in REPLAYED else []
    assert makers == [*replay, "agent/session/wiring/agent.py"]


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter that sees this checkout."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


BLOCKER = """
import importlib, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "textual":
            raise ModuleNotFoundError(f"blocked: {name}", name=name)
sys.meta_path.insert(0, Blocker())
try:
    import textual
except ModuleNotFoundError:
    pass
else:
    sys.exit("textual is not blocked")
for name in sys.argv[1:]:
    importlib.import_module(name)
assert "textual" not in sys.modules
print(len(sys.argv) - 1)
"""


def test_engine_and_tools_import_without_textual() -> None:
    names = modules("agent", "tools")
    result = python(BLOCKER, *names)
    assert result.returncode == 0, result.stderr[-3000:]
    assert int(result.stdout.split()[-1]) == len(names) > 20


def test_the_blocker_catches_a_module_that_needs_textual() -> None:
    assert importlib.util.find_spec("textual") is not None
    result = python(BLOCKER, "textual.app")
    assert result.returncode != 0 and "blocked: textual" in result.stderr


def test_parsing_the_command_line_imports_nothing_heavy() -> None:
    code = (
        "import sys; import app.main, app.cli.command_line; app.cli.command_line.build_parser(); "
        "print(*sorted({name.split('.')[0] for name in sys.modules} & set(sys.argv[1:])))"
    )
    result = python(code, *HEAVY)
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.split() == []


OPENERS = {
    "agent/core/net/": "the web client and the egress proxy",
    "agent/model/": "the models themselves, their weights, their keys",
    "agent/integrations/mcp/host/": "servers that a person configured, in a process of their own",
    "agent/integrations/browser/service.py": "the running browser that a person's settings name",
    "agent/knowledge/skills/hub/http.py": "sources of skills that a person named",
    "agent/integrations/gateways/adapter.py": "platforms that a person set up, by their address in settings",
    "agent/integrations/gateways/platforms/": "the same, by their libraries",
    "agent/automation/training/atropos.py": "the trajectory API that a person named on the command line",
    "app/cli/health/checks.py": "the provider that a person configured",
}
"""What may speak to the network by itself, and to whom. Everything else uses `WebClient`
(`agent.core.net.door`)."""
_OPENING = (
    *("httpx2", "httpx", "httpcore2", "httpcore", "requests", "aiohttp", "urllib3", "http.client", "ftplib"),
    *("urllib.request", "websockets", "primp", "ddgs", "socket.create_connection", "smtplib", "telnetlib"),
)
BY_THE_PROXY = {"agent/integrations/web/search/ddgs_child.py"}
"""Brings its own transport and is given the proxy of the `WebClient`."""


def test_there_is_one_door_to_the_network() -> None:
    beside = {
        f"{path.relative_to(ROOT)} imports {name}"
        for floor in ("agent", "tools", "app", "widgets")
        for path in sorted((ROOT / floor).rglob("*.py"))
        for _, name in imports(path)
        if any(name == each or name.startswith(f"{each}.") for each in _OPENING)
        and not str(path.relative_to(ROOT)).startswith(tuple(OPENERS))
        and str(path.relative_to(ROOT)) not in BY_THE_PROXY
        and "bundled" not in path.parts
    }
    assert beside == set()
