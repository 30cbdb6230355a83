"""The screens of going back over made-up contents: what they ask for, without a session."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from agent.core.store.nodes import Node
from agent.model.catalog import ModelInfo
from agent.session.history.branch_comparison import BranchComparison, compare
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, Step
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.restore import hunk_restore
from agent.workspace.checkpoints.restore.hunk_restore import DividedPath
from agent.workspace.checkpoints.restore.merge import Merged, merge
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import CHANGED_SINCE, PlanItem
from app.tui.screens.history.compare import BranchEntry, CompareServices
from app.tui.screens.history.restoring import RestoreServices, RewindServices, SaidMessage
from app.tui.screens.history.timeline_files import FileChanges
from tests.app.tui.timeline_stage import CENTS, NEW, NOW, OLD, TESTS
from tools.results import Display, TextDetail
from widgets.transcript.parts import AnswerItem, CallItem, Item, UserItem

CONTENTS: dict[str, bytes] = {}


def entry(text: str, mode: int = 0o644) -> PathEntry:
    """A file with this text."""
    digest = sha256(text.encode()).hexdigest()
    CONTENTS[digest] = text.encode()
    return PathEntry(PathKind.FILE, mode, len(text), 0, digest)


async def read(digest: str) -> bytes:
    return CONTENTS[digest]


FILES = FileChanges(read)
SHOP = (
    "# Prices\n\nAll prices are net.\n"
    + "".join(f"- item {n}\n" for n in range(12))
    + "\nRounding: half even.\n"
)
OURS = SHOP.replace("All prices are net.", "All prices are gross.")
THEIRS = OURS.replace("Rounding: half even.", "Rounding: half up, says Ada.")
CLASH = OURS.replace("All prices are gross.", "All prices are gross, as the law wants.")


def conflict(path: str, now: str, left: str, target: str) -> PlanItem:
    return PlanItem(
        path,
        entry(now),
        entry(target),
        "conflict",
        CHANGED_SINCE,
        (PathChange(path, entry(target), entry(left)),),
    )


PLAN = RestorePlan(
    "/home/ada/payments-api",
    3,
    (
        conflict("docs/prices.md", THEIRS, OURS, SHOP),
        conflict("docs/shop.md", CLASH, OURS, SHOP),
        PlanItem(
            "dumps/2026-02.sql", entry("x"), None, "lost", "its contents were not kept: larger than 100 MB"
        ),
        PlanItem("src/money.py", entry(NEW), entry(OLD), "change"),
        PlanItem("src/new [draft].py", entry(TESTS), None, "change"),
        PlanItem("tests/test_money.py", None, entry(TESTS), "change"),
    ),
)
SMALL = RestorePlan(PLAN.root, 5, PLAN.items[3:5])


async def merge_conflict(item: PlanItem) -> Merged | None:
    """As the plan does it: one change of ours is taken back."""
    base, mine, theirs = (
        CONTENTS[each.digest or ""] for each in (item.taking_back[0].after, item.now, item.target) if each
    )
    return merge(base, mine, theirs)


class Objects(ObjectStore):
    """The contents above, where a store would look for them."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"))

    def read(self, digest: str) -> bytes:
        return CONTENTS[digest]


async def divide(item: PlanItem, merging: bool) -> DividedPath:
    return hunk_restore.divide_path(item, Objects(), merging=merging)


RESTORE = RestoreServices(FILES.describe_all, FILES.sides, merge_conflict, divide)
LIST = "# Shopping\n\n" + "".join(f"- {n} bags of rice\n" for n in range(40))
BOUGHT = (
    LIST.replace("- 3 bags of rice\n", "- 3 bags of flour\n")
    .replace("- 17 bags of rice\n- 18 bags of rice\n", "")
    .replace("- 36 bags of rice\n", "- 36 bags of rice\n- and [b]salt[/b]\n")
)
HUNKS = RestorePlan(
    PLAN.root,
    3,
    (
        PlanItem("docs/shop list.md", entry(BOUGHT), entry(LIST), "change"),
        PlanItem("logo.png", entry("\0PNG 2"), entry("\0PNG 1"), "change"),
        PlanItem("src/money.py", entry(NEW), entry(OLD), "change"),
    ),
)

SAID = [
    SaidMessage(9, "and add a changelog line", NOW - 120, 6, 0),
    SaidMessage(7, "Use integer cents instead [b]please[/b]", NOW - 900, 5, 2),
    SaidMessage(5, "Check the other callers too.\nThere are some in api/views.py.", NOW - 3_000, 4, 3),
    SaidMessage(
        1, "The invoice totals are off by a cent for JPY. Find out why and fix it.", NOW - 5_000, 3, 6
    ),
]


def rewind(said: Sequence[SaidMessage] = SAID, *, kept: bool = True) -> RewindServices:
    """What the list of messages asks for."""

    async def listed() -> Sequence[SaidMessage]:
        return said

    async def changes(step: int) -> Sequence[PathChange]:
        return [PathChange(item.path, item.target, item.now) for item in (await plan(step)).items]

    async def plan(step: int) -> RestorePlan:
        return {3: PLAN, 4: RestorePlan(PLAN.root, 4, PLAN.items[:3]), 5: SMALL}.get(
            step, RestorePlan(PLAN.root, step, ())
        )

    return RewindServices(listed, changes, plan if kept else None, FILES.describe_all)


def _node(number: int, kind: str, **data: object) -> Node:
    return Node(number, "s", None, kind, NOW, "", data)


def _run(call: str, code: int) -> list[Node]:
    calls = [{"id": call, "name": "terminal", "arguments": '{"command": "pytest -q"}'}]
    usage = {"input": 24_000, "output": 800, "cached": 20_000}
    return [
        _node(int(call) * 10, "assistant", calls=calls, usage=usage, model="m"),
        Node(
            int(call) * 10 + 1,
            "s",
            None,
            "tool",
            NOW,
            f'{{"exit_code": {code}}}',
            {"call": call, "step": int(call), "outcome": "done"},
        ),
    ]


PARTING = Node(
    1, "s", None, "assistant", NOW, "They go through `money.round()`, which cuts after two digits.", {}
)


def call(words: str, outcome: str = "done", text: str = "") -> CallItem:
    verb, _, subject = words.partition(" ")
    return CallItem(verb, verb, Display(verb, subject, "", TextDetail(text)), {}, outcome, 0.3)  # type: ignore[arg-type]


LEFT: list[Item] = [
    UserItem("Use Decimal all the way."),
    call("edit src/money.py"),
    call("run pytest -q"),
    AnswerItem("All 214 tests pass; yen have no digits after the point now."),
]
RIGHT: list[Item] = [
    UserItem("Try it with integer cents instead of Decimal"),
    call("edit src/money.py"),
    call("run pytest -q", "failed"),
    AnswerItem("Three tests fail: KWD has three digits."),
    UserItem("Then leave it."),
    AnswerItem("Left as it is."),
]


def comparison(*, alike: bool = False) -> CompareServices:
    """What the comparison asks for."""
    info = ModelInfo(input_price=3.0, output_price=15.0, cached_price=0.3)
    steps = [
        Step(1, "tool", "s", "", "", NOW, "/", (PathChange("src/money.py", entry(OLD), entry(NEW)),)),
        Step(
            2,
            "tool",
            "s",
            "",
            "",
            NOW,
            "/",
            (
                PathChange("src/money.py", entry(NEW), entry(CENTS)),
                PathChange("tests/test_money.py", None, entry(TESTS)),
            ),
        ),
    ]
    user = _node(2, "user")

    async def compared() -> tuple[BranchComparison, Sequence[Item], Sequence[Item]]:
        if alike:
            return compare(("main", [PARTING]), ("main-2", [PARTING]), ()), (), ()
        one, other = (
            [PARTING, user, *_run("1", 0)],
            [PARTING, _node(3, "user"), _node(4, "user"), *_run("2", 1)],
        )
        return compare(("main", one), ("cents", other), steps, {"m": info}.get), LEFT, RIGHT

    return CompareServices(compared, FILES.describe_all, FILES.sides)


BRANCHES = [
    BranchEntry("main", 9, "and add a changelog line", 4, NOW - 120),
    BranchEntry("cents", 30, "Try it with integer cents instead of Decimal", 2, NOW - 4_000),
    BranchEntry(
        "a name that is very long and goes on and on and on for ever",
        40,
        "Or with fractions?",
        3,
        NOW - 90_000,
    ),
]
