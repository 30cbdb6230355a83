#!/bin/sh
# pip 26.1: a constraints file with a hash for one package refuses another one that the file does not name.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/venv"
python="$place/venv/bin/python"
"$python" -m pip install -q pip==26.1
"$python" -m pip --version | cut -d' ' -f1,2

"$python" -m pip download -q --no-deps --only-binary=:all: -d "$place" six==1.17.0
hash=$("$python" -m pip hash "$place"/six-*.whl | sed -n 's/^--hash=//p')
echo "six==1.17.0" >"$place/plain.txt"
echo "six==1.17.0 --hash=$hash" >"$place/hashed.txt"

attempt() {
    if "$python" -m pip install -q --dry-run --no-deps -c "$place/$1" idna==3.10 >"$place/said" 2>&1; then
        echo "taken"
    else
        grep -o 'Hashes are required in --require-hashes mode' "$place/said" || sed -n '1,5p' "$place/said"
    fi
}

without=$(attempt plain.txt)
with=$(attempt hashed.txt)
echo "install idna, six constrained to a version:            $without"
echo "install idna, six constrained to a version and a hash: $with"
echo "expected: the same both times, since six takes no part in the second"
[ "$without" = taken ] && [ "$with" = "Hashes are required in --require-hashes mode" ]
