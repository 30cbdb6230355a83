#!/bin/sh
# mcp-mermaid 0.4.1: to install it, as `npx mcp-mermaid` does, runs `playwright install --with-deps chromium`, which
# installs packages of the operating system with apt-get (as root, else through sudo). npm shows none of it.
# Programs that record what they are asked for stand in for apt-get and sudo here; on Debian and Ubuntu.
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/bin" "$place/cache"
for name in apt-get sudo su; do
  printf '#!/bin/sh\necho "%s $*" >> "%s/asked"\nexit 1\n' "$name" "$place" > "$place/bin/$name"
  chmod +x "$place/bin/$name"
done
cd "$place"
code=0
PATH="$place/bin:$PATH" PLAYWRIGHT_BROWSERS_PATH="$place/cache" \
  npm install --no-audit --no-fund --prefix "$place/there" mcp-mermaid@0.4.1 > said 2>&1 || code=$?
echo "npm ended with code $code; what was asked for:"
cut -c1-150 asked
echo "expected: nothing, as a library of JavaScript is installed"
grep -q "apt-get update" asked
