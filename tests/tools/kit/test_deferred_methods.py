"""Data classes that are processed at first use behave like any others."""

from __future__ import annotations

import subprocess
import sys

from tests.support.command import ROOT

CODE = """
import copy, pickle, sys, threading, typing
if sys.argv[1] == "deferred":
    from tools.kit.deferred_methods import defer_methods
    defer_methods()
import dataclasses
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace

@dataclass(frozen=True, slots=True)
class Point:
    '''A place.'''
    x: int
    y: int = 2

@dataclass(frozen=True, slots=True)
class Named(Point):
    name: str = field(default="", compare=False, kw_only=True)

@dataclass(order=True)
class Tree:
    '''Itself again.'''
    depth: int
    parts: list = field(default_factory=list, repr=True)
    total: int = field(init=False, default=0)
    seed: dataclasses.InitVar[int] = 3

    def __post_init__(self, seed):
        self.total = self.depth * seed

@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Point):
    limit: typing.ClassVar[int] = 7
    names: tuple = field(default_factory=tuple, hash=False)
    def __eq__(self, other):
        return self.x == other.x
    def __repr__(self):
        return f"kept {self.x}"

@dataclass(slots=True)
class Changed:
    value: int = 1
    seen: list = field(default_factory=list)
    def __post_init__(self):
        self.seen.append(self.value)

@dataclass(slots=True, eq=False)
class Itself(Changed):
    value: int = 5

@dataclass(frozen=True, slots=True)
class Wide(Point):
    z: int = 0
    def __hash__(self):
        return 4

@dataclass(slots=True, frozen=True)
class Ordered(Named):
    last: int = field(default=4)
    x: int = 3
    rest: dict = field(default_factory=dict, kw_only=True)

class Derived(Point):
    pass

class Continued(Wide):
    def __post_init__(self):
        raise ValueError("it was not there when the class was made")

class Own(Tree):
    def __init__(self):
        super().__init__(7, seed=1)

said = []
def tell(*each):
    said.append(repr(each))
def fails(work):
    try:
        work()
    except Exception as error:
        tell(type(error).__name__, str(error))

tell(Point(1), Named(1, name="a"), Named(1, name="a") == Named(1, name="b"), Point(1) == Named(1))
tell(hash(Point(1)) == hash(Point(1, 2)), {Point(1): 1}[Point(1)], Point.__match_args__, Point.__doc__)
tell(replace(Named(1), y=5), asdict(Named(3)), [each.name for each in fields(Named)])
tell(copy.deepcopy(Named(1, name="deep")), pickle.loads(pickle.dumps(Named(1, name="kept"))))
fails(lambda: setattr(Point(1), "x", 2))
fails(lambda: setattr(Named(1), "x", 2))
fails(lambda: delattr(Point(1), "x"))
fails(lambda: Point())
fails(lambda: Point(1, 2, 3))
fails(lambda: Point(1, z=2))
fails(lambda: Point(1) < Point(2))
tree = Tree(2)
tree.parts.append(tree)
tell(tree, Tree(1) < Tree(2), Tree(1) >= Tree(2), Own(), Own().total, Tree(4).total)
fails(lambda: hash(Tree(1)))
tell(Point.__init__.__qualname__, Named.__eq__.__qualname__, Tree.__repr__.__qualname__)
kept = Kept(x=1, names=("a",))
tell(kept, kept == Kept(x=1), hash(kept) == hash(Kept(x=1)), kept.limit, Kept.limit, copy.copy(kept).names)
tell(Point(3), Derived(3) == Derived(3), Derived(3).__class__, Derived.__match_args__, Kept.__match_args__)
changed = Changed()
changed.value = 9
tell(changed, Changed(2) == Changed(2), Itself() == Itself(), Itself(), hash(Wide(1)), Wide(1, 2, 3))
fails(lambda: hash(changed))
fails(lambda: setattr(changed, "other", 2))
fails(lambda: Kept(1))
fails(lambda: setattr(kept, "limit", 2))
fails(lambda: object.__setattr__(kept, "other", 2))
tell(dataclasses.is_dataclass(Itself), Itself.__slots__, Kept.__slots__, fields(Itself)[0].default)
fails(lambda: hash(Itself()))
for number in range(120):
    each = Ordered(number, last=number, name=str(number))
    each.rest[number] = Ordered(*range(number % 4)).rest
    if number % 20 == 0:
        tell(each.x, each.y, each.last, each.name, each.rest)
tell(Ordered(), Ordered(1, 2, 3, name="b", rest={1: 2}), Continued(2), [f.name for f in fields(Ordered)])
fails(lambda: Ordered(1, x=2))
fails(lambda: Ordered(1, 2, 3, 4))
fails(lambda: Ordered(other=2))
tell(isinstance(Wide(1), Point), Wide.__dataclass_params__.frozen)
match Wide(1, 2, 3):
    case Wide(x, _, z):
        tell(x, z)
match Point(8):
    case Point(x, y):
        tell(x, y)
made = []
ready = threading.Barrier(8)
@dataclass
class Shared:
    value: int
def make(number):
    ready.wait()
    made.append(Shared(number).value)
threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
[each.start() for each in threads]
[each.join() for each in threads]
tell(sorted(made))
print("\\n".join(said))
"""


def test_classes_processed_later_do_what_those_processed_at_once_do() -> None:
    plain, deferred = (
        subprocess.run(
            [sys.executable, "-c", CODE, way], cwd=ROOT, capture_output=True, text=True, check=False
        )
        for way in ("plain", "deferred")
    )
    assert plain.returncode == 0, plain.stderr
    assert deferred.stdout == plain.stdout, deferred.stderr
