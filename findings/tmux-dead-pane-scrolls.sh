#!/bin/sh
# tmux 3.3a with `remain-on-exit on`: the line about the end of a program scrolls the whole pane by one row, also
# where the bottom row is free, so the one line that a program left on the screen is on it no more. With an empty
# `remain-on-exit-format` it stays. Debian 12's package, unpacked into a folder.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q tmux=3.3a-3 libevent-core-2.1-7 libutempter0 >/dev/null
for package in *.deb; do dpkg-deb -x "$package" .; done
LD_LIBRARY_PATH=$(dirname "$(find "$folder/usr/lib" -name 'libevent_core-2.1.so.7' | head -1)")
export LD_LIBRARY_PATH LANG=C.UTF-8 TERM=xterm-256color
python3 - "$folder" <<'PYTHON'
import subprocess, sys, time

folder = sys.argv[1]

def tell(*words):
    command = [f"{folder}/usr/bin/tmux", "-S", f"{folder}/socket", "-f", "/dev/null", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

def end_state(plain):
    """What a pane of ten rows shows once its program, which printed one line, has ended, and what is above it."""
    tell("new-session", "-d", "-x", "80", "-y", "10", "sleep 1000")
    tell("set-option", "-g", "remain-on-exit", "on")
    if plain:
        tell("set-option", "-g", "remain-on-exit-format", "")
    tell("respawn-pane", "-k", "echo the only line")
    while tell("list-panes", "-F", "#{pane_dead}").strip() != "1":
        time.sleep(0.1)
    time.sleep(0.5)
    screen, history = tell("capture-pane", "-p"), tell("display-message", "-p", "#{history_size}")
    tell("kill-server")
    return [line for line in screen.split("\n") if line], int(history)

print(subprocess.run([f"{folder}/usr/bin/tmux", "-V"], capture_output=True, text=True).stdout.strip())
usual, plain = end_state(False), end_state(True)
print("as it comes:      screen", usual[0], "and", usual[1], "line above it")
print("without the line: screen", plain[0], "and", plain[1], "lines above it")
assert len(usual[0]) == 1 and usual[0][0].startswith("Pane is dead") and usual[1] == 1, "this has changed"
assert plain == (["the only line"], 0), "this has changed"
PYTHON
