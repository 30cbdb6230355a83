"""The house rules that a machine can see."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.source_facts import facts, facts_of

ROOT = Path(__file__).parents[1]
LINES = 800
"""Of a file that is one concept; most have less than half of that."""
CHILD_SCRIPT = "_child.py"
"""How the names of programs of their own end; their output is their interface."""


def tracked(*patterns: str) -> list[Path]:
    """Files of the project, also those not committed yet; nothing that git ignores."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if result.returncode != 0:
        found = [path for pattern in patterns for path in ROOT.rglob(pattern)]
        return [path for path in found if not {".venv", "build", ".git"} & set(path.relative_to(ROOT).parts)]
    return [path for name in result.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


CODE = [
    path
    for path in tracked("*.py")
    if named(path).split("/")[0] in ("app", "widgets", "agent", "tools", "themes")
]
TEXT = tracked("*.py", "*.md", "*.toml", "*.yaml", "*.tcss", "*.txt", "Makefile", ".ci/*")


def test_there_is_a_house() -> None:
    assert len(CODE) > 40


def test_no_file_outgrows_its_room() -> None:
    sizes = {named(path): len(path.read_text("utf-8").splitlines()) for path in tracked("*.py", "*.tcss")}
    assert {name: size for name, size in sizes.items() if size > LINES} == {}


def own_program(path: Path) -> bool:
    """Whether a file is a program by itself, whose output is its interface."""
    return path.name.endswith(CHILD_SCRIPT) or named(path).startswith("agent/knowledge/skills/bundled/")


def test_engine_and_tools_never_print() -> None:
    printing = [
        f"{named(path)}:{line}"
        for path in CODE
        if named(path).startswith(("agent/", "tools/")) and not own_program(path)
        for line, name in facts(path).calls
        if name == "print"
    ]
    assert printing == []


def test_every_module_says_what_it_is() -> None:
    silent = [named(path) for path in CODE if not facts(path).docstring]
    assert silent == []


CLAUSES = {"What", "How", "Where", "Which", "When", "Who", "Whether", "Why", "From"}
"""How a docstring of a module does not begin: with its noun or its verb it is found and read faster."""


def test_docstrings_of_modules_begin_with_a_noun_or_a_verb() -> None:
    first = {named(path): facts(path).docstring for path in CODE}
    assert {
        name: text.splitlines()[0]
        for name, text in first.items()
        if text.split()[:1] and text.split()[0] in CLAUSES
    } == {}


def test_no_path_of_one_machine_is_in_the_project() -> None:
    here = (Path.home(), ROOT)
    own = "|".join(re.escape(f"{folder}/") for folder in here if folder.parent != folder)
    pattern = re.compile(rf"/(?:home|Users)/(?!you\b|user\b|me\b|ana\b)[a-z]\w*/\w|{own}")
    found = [
        f"{named(path)}:{number}"
        for path in TEXT
        if "tests" not in path.relative_to(ROOT).parts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_whoever_installs_an_extra_is_told_the_name_of_our_package() -> None:
    """Another package has the short name, and anybody could take that of an extra."""
    other = re.compile(r"(?<![\w-])hermes\[[a-z{]")
    assert [
        named(path) for path in TEXT if path != Path(__file__) and other.search(path.read_text("utf-8"))
    ] == []


def test_the_pins_name_no_index() -> None:
    for path in tracked("constraints/*.txt"):
        text = path.read_text("utf-8")
        assert "://" not in text and "--index-url" not in text and "--find-links" not in text, named(path)
        pins = re.findall(r"^([a-z0-9-]+)==\S+ \\$", text, re.MULTILINE)
        assert len(pins) > 40 and text.count("--hash=sha256:") >= len(pins)


def test_the_pins_agree_with_each_other() -> None:
    run, local, dev = (
        dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", (ROOT / "constraints" / name).read_text(), re.MULTILINE))
        for name in ("run.txt", "local.txt", "dev.txt")
    )
    assert {name for name in run if run[name] != local[name]} == set()
    assert {name for name in local.keys() & dev.keys() if local[name] != dev[name]} == set()


@pytest.mark.parametrize("path", tracked("constraints/*.txt"), ids=named)
@pytest.mark.parametrize(
    ("system", "machine"), [("linux", "x86_64"), ("darwin", "x86_64"), ("darwin", "arm64")]
)
def test_every_package_has_one_pin_on_each_system(path: Path, system: str, machine: str) -> None:
    pins = map(Requirement, re.findall(r"^([a-z0-9-]+==.+) \\$", path.read_text("utf-8"), re.MULTILINE))
    here = {"sys_platform": system, "platform_machine": machine}
    names: dict[str, list[bool]] = {}
    for pin in pins:
        if "python_version" not in str(pin.marker):
            names.setdefault(pin.name, []).append(pin.marker is None or pin.marker.evaluate(here))
    assert {name for name, taken in names.items() if sum(taken) != 1} == set()


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_the_pins_are_enough_for_newer_pythons(version: str) -> None:
    text = (ROOT / "constraints" / "dev.txt").read_text("utf-8")
    pins = set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))
    newer = {"python_version": version, "python_full_version": f"{version}.0", "extra": ""}
    assert {
        f"{package.name}: {each}"
        for package in distributions()
        if canonicalize_name(package.name) in pins
        for each in map(Requirement, package.requires or ())
        if canonicalize_name(each.name) not in pins and (each.marker is None or each.marker.evaluate(newer))
    } == set()


def links(text: str) -> list[str]:
    """Targets of the links in markdown, outside of code."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(text: str) -> set[str]:
    """The anchors that headings of a markdown file get."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", tracked("*.md"), ids=named)
def test_every_link_in_the_docs_leads_somewhere(path: Path) -> None:
    dead = []
    for link in links(path.read_text("utf-8")):
        if "://" in link or link.startswith("mailto:"):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        if not file.exists() or (anchor and anchor not in anchors(file.read_text("utf-8"))):
            dead.append(link)
    assert dead == []


OWN_WORDS = {
    "desk": "dispatcher",
    "furnish": "mount",
    "furnished": "mounted",
    "furniture": "panes, parts",
    "futures": "attempts",
    "glance": "fast, preview",
    "glimpse": "preview",
    "journey": "move, history action",
    "journeys": "history actions",
    "lull": "pause",
    "mailbox": "turn queue",
    "openness": "coverage",
    "outbox": "sender",
    "outlook": "impact",
    "planting": "write then run",
    "purse": "budget account",
    "retrace": "show again",
    "scraps": "temporary files",
    "sieve": "decoder",
    "specimen": "sample",
    "surroundings": "environment",
    "teller": "publisher",
    "territory": "tracked roots",
    "veil": "hide",
    "wearer": "user of a palette",
    "workshop": "runner, folder",
}
"""Words of our own that no name in the code uses, and what the field says. See docs/glossary.md."""


def words(name: str) -> set[str]:
    """The words in a name, in small letters."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_names_in_the_code_are_words_of_the_field() -> None:
    found = [
        f"{named(path)}: {name} ({OWN_WORDS[word]})"
        for path in CODE
        for name in {path.stem, path.parent.name, *facts(path).names}
        for word in words(name) & OWN_WORDS.keys()
    ]
    assert found == []


PARTICIPLES = """
told shown listed kept said meant asked found made held named taken given left sent drawn brought
swept opened filled stated worded noted counted divided settled retold handed spelled parted
read_back felt put set_down known seen heard wanted owed due begun done gone lost broken chosen
written built grown paid spent used tried stored saved loaded parsed
"""
"""Names that say of what, but not what: a function is called by a verb, or by a noun of what it gives."""


def test_no_function_is_named_by_a_participle_alone() -> None:
    found = [
        f"{named(path)}: {name}"
        for path in CODE
        for name in facts(path).functions
        if name.strip("_") in PARTICIPLES.split()
    ]
    assert found == []


QUAINT = re.compile(
    r"\bis no(?! (?:longer|more|less)\b)\b|\bis to be\b|\bwhoever\b|\bcame of\b", re.IGNORECASE
)


def test_docstrings_are_in_plain_english() -> None:
    found = [
        f"{named(path)}: {text.splitlines()[0]}"
        for path in CODE
        for text in facts(path).docstrings
        if QUAINT.search(text)
    ]
    assert len(found) <= 20, found


def test_the_words_of_a_name_are_found() -> None:
    assert words("HTTPLull_of2Desks") == {"http", "lull", "of", "desks"}
    assert facts_of("class A:\n def b(self, c): self.d = e = 1").names == {
        "A",
        "b",
        "self",
        "c",
        "d",
        "e",
    }


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in CODE:
        if own_program(path):
            continue
        for name, _ in facts(path).classes:
            if not name.startswith("_"):
                places.setdefault(name, []).append(named(path))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_class_is_a_slice_of_another_one() -> None:
    """One object in several files is still one: its parts are held, each with an interface of its own."""
    texts = {path: path.read_text("utf-8") for path in CODE}
    homes: dict[str, Path] = {}
    heirs: dict[str, list[Path]] = {}
    for path in CODE:
        for name, bases in facts(path).classes:
            for base in bases:
                heirs.setdefault(base.split("[")[0], []).append(path)
            if bases and "Protocol" not in bases:
                homes[name] = path
    slices = {
        name: named(heirs[name][0])
        for name, home in homes.items()
        if len(heirs.get(name, ())) == 1
        and named(home).startswith(("app/", "widgets/"))
        # Whatever is made, or asked for elsewhere, is a thing of its own.
        and not any(
            re.search(rf"\b{name}\b", texts[path]) for path in texts if path not in (home, *heirs[name])
        )
        and not any(re.search(rf"(?<!class )\b{name}\(", texts[path]) for path in (home, *heirs[name]))
    }
    assert slices == {}


KINDS = {"read_commands": "_command.py", "PaneKind": "_pane.py", "QuestionKind": "_question.py"}
"""What declares parts of the application, and how the file ends, by which it is found."""


def test_files_of_parts_end_as_they_are_found() -> None:
    declaring = {
        (path, name)
        for path in CODE
        if named(path).startswith("app/")
        for _, name in facts(path).calls
        if name in KINDS
    }
    assert {kind for _, kind in declaring} == {*KINDS}
    assert [named(path) for path, kind in declaring if not path.name.endswith(KINDS[kind])] == []
