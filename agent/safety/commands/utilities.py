"""Smaller programs: calculators, helpers of toolchains, and tools of which only some words look."""

from __future__ import annotations

import re

from agent.safety.commands.call import Call, Opinion, Rule, ask, fine
from agent.safety.commands.checkers import BUILDS
from agent.safety.commands.verbs import Verbs
from agent.safety.shell.marks import words

LOOKS = fine("only looks")
COMPUTES = fine("only computes and prints")

_ANSWERS = words("--version -version version --help -h -V")


def shuffle(call: Call) -> Opinion:
    if call.may_mean("--random-source"):
        return ask("reads a file that is not known here")
    output = call.value("o", "output")
    return call.changed([output] if output else []) or call.revealed(call.operands("nio")) or LOOKS


def calculate(call: Call) -> Opinion:
    """bc and its like: dc runs commands with `!`, so it is not here."""
    return call.revealed(call.operands()) or COMPUTES


def prints(call: Call) -> Opinion:
    return call.revealed(call.operands()) or LOOKS


def package_flags(call: Call) -> Opinion:
    if call.may_mean("--define-variable", "--log-file"):
        return ask("sets variables or writes files")
    return LOOKS


def archive_of_java(call: Call) -> Opinion:
    """jar: listing, packing and unpacking, like tar."""
    if any(argument.startswith(("-J", "@")) for argument in call.arguments):
        return ask("runs another program")
    mode = call.arguments[0] if call.arguments else ""
    files = [argument for argument in call.arguments[1:] if not argument.startswith("-")]
    if re.fullmatch(r"-?t[fv]*|--list", mode):
        return call.revealed(files) or LOOKS
    if re.fullmatch(r"-?c[fve0M]*|--create", mode):
        return call.revealed(files) or call.changed(files[:1]) or BUILDS
    if re.fullmatch(r"-?x[fv]*|--extract", mode):
        return (
            call.revealed(files[:1]) or call.changed([call.value("C", "dir") or "."]) or fine("unpacks here")
        )
    return ask("is not known to be harmless: jar")


def archive_of_objects(call: Call) -> Opinion:
    """ar: making and listing; unpacking writes what is in it."""
    mode = call.arguments[0].lstrip("-") if call.arguments else ""
    files = list(call.arguments[1:])
    if re.fullmatch(r"[tp][vOP]*", mode):
        return call.revealed(files[:1]) or LOOKS
    if re.fullmatch(r"[rq][cusvDU]*", mode):
        return call.changed(files[:1]) or BUILDS
    return ask("unpacks or deletes, or is not known to be harmless: ar")


def strips(call: Call) -> Opinion:
    """strip and ranlib change the files they are given."""
    if call.may_mean("--plugin"):
        return ask("runs another program")
    output = call.value("o", "output")
    return call.changed([output] if output else call.operands("oRNK")) or BUILDS


def autotools(call: Call) -> Opinion:
    if not all(call.ground.inside(call.path(place)) for place in (".", *call.operands("IWB"))):
        return ask("works outside of the workspace")
    return call.changed(["."]) or BUILDS


def answers(call: Call) -> Opinion:
    """Programs of which only the version and the help are known to be harmless."""
    if call.arguments and _ANSWERS.issuperset(call.arguments):
        return LOOKS
    return ask(f"is not known to be harmless: {call.name}")


def kustomize(call: Call) -> Opinion:
    """Building reads files; a base may also lie on another machine."""
    if any(re.match(r"\w+://|[\w-]+@|[\w.-]+\.[a-z]{2,}/|.*[?]", place) for place in call.operands()):
        return ask("fetches from another machine")
    return _KUSTOMIZE(call)


def neighbours(call: Call) -> Opinion:
    harmless = all(re.fullmatch(r"-[anve]+", argument) for argument in call.arguments)
    return LOOKS if harmless else ask("changes the network")


_ANSWERING = words("django-admin mlflow tensorboard nvcc hipcc k9s skaffold tilt argocd flux eksctl istioctl")
_CABAL = Verbs(
    harmless="build|test|check|list-bin|haddock|info|list|bench|clean",
    reason="builds or tests the project",
    effects=(
        ("install|update|get|upload|init|user-config", "installs or publishes packages"),
        ("run|exec|repl|new-run|v2-run", "runs a program of the project"),
    ),
    dangerous=words("--with-compiler -w --project-file --config-file --with-ghc --package-db"),
    inside=True,
)
_STACK = Verbs(
    harmless="build|test|bench|haddock|path|ls|query|list|clean",
    reason="builds or tests the project",
    effects=(
        ("build --exec.*", "runs another program"),
        ("exec|run|runghc|ghci|script|eval", "runs a program of the project"),
    ),
    dangerous=words("--exec --stack-yaml --with-gcc --with-hpack --docker --nix --work-dir"),
    inside=True,
)
_JUPYTER = Verbs(
    harmless="nbconvert|kernelspec list|--paths|troubleshoot|lab list|notebook list",
    reason="converts notebooks",
    dangerous=words(
        "--execute --ExecutePreprocessor.enabled --post --config --template-file --output-dir --output "
        "--allow-errors --inplace --TemplateExporter.template_file --template --to=slides"
    ),
    bare=False,
    inside=True,
)
_KUSTOMIZE = Verbs(
    harmless="build|version|cfg (?:tree|count|grep)",
    reason="only looks",
    dangerous=words(
        "--enable-exec --enable-alpha-plugins --enable-helm --helm-command --network --load-restrictor "
        "-o --output --as-current-user --mount"
    ),
)
_MINIKUBE = Verbs(
    harmless="status|profile list|ip|version|addons list|logs|service list|node list|image ls",
    reason="only looks",
    otherwise="changes a cluster of this machine",
)
_KIND = Verbs(
    harmless="get (?:clusters|nodes)|version",
    reason="only looks",
    otherwise="changes a cluster of this machine",
)
_DVC = Verbs(
    harmless="status|diff|dag|metrics (?:show|diff)|params diff|plots diff|list|version|doctor|root",
    reason="only looks",
    otherwise="changes or sends data, or runs the steps of the project",
)


RULES: dict[str, Rule] = (
    dict.fromkeys(
        words("django-admin mlflow tensorboard nvcc hipcc k9s skaffold tilt argocd flux eksctl istioctl"),
        answers,
    )
    | dict.fromkeys(("autoreconf", "autoconf", "automake", "aclocal", "libtoolize", "autoheader"), autotools)
    | dict.fromkeys(("pkg-config", "pkgconf"), package_flags)
    | dict.fromkeys(("addr2line", "c++filt", "pipdeptree", "jps", "uuidgen"), prints)
    | {
        "shuf": shuffle,
        "bc": calculate,
        "jar": archive_of_java,
        "arp": neighbours,
        "ar": archive_of_objects,
        "strip": strips,
        "ranlib": strips,
        "cabal": _CABAL,
        "stack": _STACK,
        "jupyter": _JUPYTER,
        "kustomize": kustomize,
        "minikube": _MINIKUBE,
        "kind": _KIND,
        "dvc": _DVC,
    }
)
