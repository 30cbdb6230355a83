"""Long shell texts of every shape that the gate must judge quickly, each about as long as it is asked for."""

from __future__ import annotations

from collections.abc import Callable

Piece = Callable[[int], str]

_SCRIPT = """
if [ -f "$1" ]; then
  name=$(basename "$1" .txt); grep -n "x$name" *.log | sort | uniq -c > out/$name.txt
  for f in a b c; do echo "$f $name" >> out/all.txt; done
fi
git add -A && git commit -m 'step' || echo "nothing to do"
"""


def _filled(size: int, piece: Piece, start: str = "", end: str = "") -> str:
    """As many numbered pieces as make a text of `size` characters, between a start and an end."""
    text: list[str] = []
    length = len(start) + len(end)
    while length < size:
        text.append(piece(len(text)))
        length += len(text[-1])
    return "".join((start, *text, end))


def _nested(size: int, opening: str, inner: str, closing: str, deepest: int) -> str:
    """Structures inside each other, `deepest` at a time, one such tower after the other."""
    tower = opening * deepest + inner + closing * deepest + "\n"
    return tower * (size // len(tower) + 1)


def _quoted(size: int) -> str:
    """`sh -c` inside `sh -c`, each quoted for the next."""

    def tower(number: int) -> str:
        text = f"echo {number}"
        while len(text) < 400:
            text = "sh -c '" + text.replace("'", "'\\''") + "'"
        return text + "\n"

    return _filled(size, tower)


def shapes(size: int) -> dict[str, str]:
    """Texts of about `size` characters, by the name of their shape."""

    def filled(piece: Piece, start: str = "", end: str = "") -> str:
        return _filled(size, piece, start, end)

    long_body = filled(lambda n: f"  grep -n x{n} src/a{n}.py > out/$f.txt\n")
    return {
        "script": filled(lambda n: _SCRIPT.replace("$name", f"$name{n}")),
        "cd a, 70 deep": "cd a\n" * 70 + filled(lambda n: f"cat f{n}.txt\n"),
        "cd a, all of it": filled(lambda _: "cd a\n"),
        "pipeline": filled(lambda n: f" | grep -v x{n}", "cat log"),
        "&& list": filled(lambda n: f" && touch out/f{n}", "true"),
        "|| list": filled(lambda n: f" || touch out/f{n}", "true"),
        "small commands": filled(lambda n: f"touch out/f{n}; "),
        "comments": filled(lambda n: f"# step {n}\nls f{n}\n"),
        "in the background": filled(lambda n: f"sleep {n} & "),
        "deletions": filled(lambda n: f"rm -f build/f{n}.o\n"),
        "copies": filled(lambda n: f"cp -r src/a{n} out/b{n}\n"),
        "moves": filled(lambda n: f"mv src/a{n}.py src/b{n}.py\n"),
        "git": filled(lambda n: f"git add src/a{n}.py\n"),
        "files of cp": filled(lambda n: f"src/a{n}.py ", "cp ", "out/"),
        "files of rm": filled(lambda n: f" src/a{n}.py", "rm -f"),
        "files of cat": filled(lambda n: f" src/a{n}.py", "cat"),
        "files of git add": filled(lambda n: f" src/a{n}.py", "git add"),
        "globs": filled(lambda n: f"ls src/*{n}.py out/?{n}[a-z]*\n"),
        "here-document": filled(lambda n: f"Line {n} of the text.\n", "cat > notes.md <<'END'\n", "END\n"),
        "open here-document": filled(lambda n: f"Line $n{n} of $(pwd).\n", "cat > notes.md <<END\n", "END\n"),
        "here-documents": filled(lambda n: f"cat > out/n{n}.md <<'END'\nLine {n}.\nEND\n"),
        "here-strings": filled(lambda n: f'grep x <<< "line {n}"\n'),
        "subshells": _nested(size, "(", "echo a", ")", 20),
        "braced groups": _nested(size, "{ ", "echo a; ", "}; ", 15),
        "substitutions": filled(lambda n: f'echo "$(basename "$(dirname "$(pwd)/{n}")")"\n'),
        "nested $( )": _nested(size, "echo $(", "pwd", ")", 12),
        "nested if": _nested(size, "if true; then ", "echo a; ", "fi; ", 25),
        "variables": filled(lambda n: f'v{n}="a{n}"; echo "$v{n}/$v{n // 2}"\n'),
        "one variable": filled(lambda n: f'v="$v{n}"; echo "$v"\n'),
        "growing variable": filled(lambda n: f'v="$v a{n}"\n'),
        "arrays": filled(lambda n: f"a{n}=(x{n} y z); echo ${{a{n}[@]}}\n"),
        "one array": filled(lambda n: f" x{n}", "a=(", "); ls ${a[@]}"),
        "growing array": filled(lambda n: f"a+=(x{n})\n"),
        "arithmetic": filled(lambda n: f"(( x = x * {n} + 1 )); y=$(( x + {n} )); echo $((y % 7))\n"),
        "tests": filled(lambda n: f"[[ -f a{n} && $x == b* ]] && [ -d c{n} ] && echo {n}\n"),
        "loops": filled(lambda n: f'for f in a b c; do x=$f-{n}; wc -l "$x" > out/$x.txt; done\n'),
        "for, long body": f"for f in a b c; do\n{long_body}done\n",
        "for, long list": filled(lambda n: f" a{n}", "for f in", '; do cat "$f"; done'),
        "while, long body": f"while read f; do\n{long_body}done < list.txt\n",
        "loops in loops": _nested(size, "for f in a b; do ", "cat $f; ", "done; ", 10),
        "case, long body": filled(lambda n: f"  x{n}) wc -l src/a{n}.py ;;\n", 'case "$1" in\n', "esac\n"),
        "functions": filled(lambda n: f"f{n}() {{ git log -{n} -- $1; }}; f{n} src\n"),
        "one function, called": filled(lambda n: f"f a{n}\n", 'f() { cat "$1" | sort > out/x; }\n'),
        "functions, calling": filled(
            lambda n: f"f{n + 1}() {{ f{n} $1; f{n} b; }}\n", "f0() { echo $1; }\n", "f9 a\n"
        ),
        "functions, in a chain": filled(lambda n: f"f{n}() {{ f{n + 1} $1; }}\n", "", "f0 a\n"),
        "quoted text": filled(lambda n: f"some words {n}; rm -rf / | x ", "echo '", "'"),
        "open quoted text": filled(lambda n: f"some $words {n} ", 'echo "', '"'),
        "many quoted texts": filled(lambda n: f"printf '%s\\n' 'text {n}' \"and $HOME\" >> out/log\n"),
        "braces": filled(lambda n: f"touch out/{{a,b,c}}{n}.{{x,y}}\n"),
        "braces in one word": filled(lambda n: "{a,b}", "ls x"),
        "braces in braces": "ls " + "{a," * (size // 4) + "b" + "}" * (size // 4),
        "redirects": filled(lambda n: f"sort < in{n % 9} > out/o{n} 2>> out/err\n"),
        "many redirects of one": filled(lambda n: f" > out/o{n}", "echo a"),
        "python -c": filled(lambda n: f"x{n} = {n} + len('a')\n", 'python3 -c "', '"'),
        "node -e": filled(lambda n: f"let x{n} = {n} + 'a'.length;\n", 'node -e "', '"'),
        "awk": filled(lambda n: f"/x{n}/ {{ print $1 }}\n", "awk '", "' log"),
        "sed": filled(lambda n: f" -e s/a{n}/b/", "sed", " log"),
        "xargs": filled(lambda n: f"git ls-files a{n} | xargs -n1 grep -l x{n}\n"),
        "find -exec": filled(lambda n: f"find src -name 'a{n}*' -exec grep -n x{{}} \\;\n"),
        "find, many -exec": filled(lambda n: f" -exec grep x{n} {{}} +", "find src -type f"),
        "find, many tests": filled(lambda n: f" -o -name a{n}", "find src -name b"),
        "find ... xargs ... sh": filled(lambda n: f"find . -name a{n} | xargs -I@ sh -c 'cat @ | wc'\n"),
        "sh -c": filled(lambda n: f"bash -c 'cat a{n} | sort'\n"),
        "deep sh -c": _quoted(size),
        "eval": filled(lambda n: f'eval "ls a{n}"\n'),
        "backquotes": filled(lambda n: f"echo `basename a{n}`\n"),
        "process substitution": filled(lambda n: f"diff <(sort a{n}) <(sort b{n})\n"),
        "wrappers": filled(lambda n: f"time nice timeout 5 env A={n} ls a{n}\n"),
        "traps and exports": filled(lambda n: f"export V{n}=a{n}; trap 'rm -f out/t{n}' EXIT\n"),
        "curl": filled(lambda n: f"curl -fsS https://example.org/a{n} -o out/a{n}\n"),
        "tar": filled(lambda n: f"tar -xf a{n}.tgz -C out\n"),
        "docker": filled(lambda n: f"docker run -v ./a{n}:/b alpine cp /b/x /b/y\n"),
        "unknown programs": filled(lambda n: f"tool{n} a{n}\n"),
        "letters beyond ASCII": filled(lambda n: f"echo 'größe {n} ≥ 日本' > out/ü{n}\n"),
        "one long word": "ls " + "a" * size,
        "one long path": "ls " + "a/" * (size // 2),
        "no shell": filled(lambda n: f"x{n} ) ( }} fi ;; & | > "),
        "never closed": filled(lambda n: f'echo $( ( {{ "a{n} '),
    }
