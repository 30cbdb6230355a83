#!/bin/sh
# Parcel 2.16.4: it writes temporary files where TMPDIR says if that is on the same device as the project, and renames
# them into it. Two mounts of one file system, as containers have them, are one device, but no file can be renamed from
# one to the other: the first build works, and the second ends with 1 after it has written its output.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
npm install --silent --no-audit --no-fund --prefix "$place" node@24 parcel@2.16.4
PATH="$place/node_modules/.bin:$PATH"
mkdir "$place/w" "$place/t"
cd "$place/w"
echo '{"name": "w"}' > package.json
echo '<script type="module" src="a.js"></script>' > a.html
echo 'console.log(1)' > a.js
build() {
  code=0
  "$@" env TMPDIR="$place/t" parcel build a.html > said 2>&1 || code=$?
  echo "$code $(grep -o 'EXDEV: [a-z -]*' said | head -1)"
}
echo "parcel $(parcel --version)"
first=$(build env) second=$(build env)
echo "one mount: $first, then $second"
rm -rf .parcel-cache dist
first_of_two=$(build bwrap --dev-bind / / --bind "$place/t" "$place/t")
second_of_two=$(build bwrap --dev-bind / / --bind "$place/t" "$place/t")
echo "two mounts of one file system: $first_of_two, then $second_of_two"
echo "expected: 0 each time"
test "$first$second$first_of_two" = "0 0 0 " && test "$second_of_two" = "1 EXDEV: cross-device link not permitted"
