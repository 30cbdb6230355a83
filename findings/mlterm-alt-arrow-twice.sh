#!/bin/sh
# mlterm 3.9.0, once told to send escape for meta (mode 1036), sends alt and an arrow as escape and, behind it, the
# sequence that names alt already. Debian 12's package, unpacked into a folder; needs Xvfb, xdotool and its libraries.
set -eu
folder=$(mktemp -d)
display=:$((400 + $$ % 500))
Xvfb "$display" -screen 0 800x600x24 >/dev/null 2>&1 &
server=$!
trap 'kill $server; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q mlterm=3.9.0-1+b1 mlterm-common=3.9.0-1+b1 >/dev/null
for package in *.deb; do dpkg-deb -x "$package" .; done
export HOME="$folder" LD_LIBRARY_PATH="$folder/usr/lib:$folder/usr/lib/mlterm" DISPLAY="$display" LANG=C.UTF-8
cat >heard.sh <<'SHELL'
stty raw -echo
printf '\033[?1036%s' "$1"
exec dd of="$2" bs=1 status=none
SHELL
press() { # MODE: what a program reads for alt and an arrow, and for alt and m
  usr/bin/mlterm -e sh "$folder/heard.sh" "$1" "$folder/heard-$1" >/dev/null 2>&1 &
  terminal=$!
  sleep 3
  xdotool search --onlyvisible --name . windowfocus
  for key in alt+Up alt+m; do xdotool key "$key"; sleep 0.5; done
  kill $terminal
  wait $terminal 2>/dev/null || true
}
sleep 2
usr/bin/mlterm --version | head -1
press l
press h
python3 - <<'PYTHON'
plain, escapes = (open(f"heard-{mode}", "rb").read() for mode in "lh")
print("as it comes:    ", plain)
print("with mode 1036: ", escapes)
assert plain == b"\x1b[1;3A" + "\u00ed".encode() and escapes == b"\x1b\x1b[1;3A\x1bm", "this has changed"
PYTHON
