#!/bin/sh
# GNU screen 4.9.0 passes a pressed escape on at once, but holds it back until the next key while a program in it has
# mouse reports on. Debian 12's package, unpacked into a folder.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q screen=4.9.0-4 >/dev/null
dpkg-deb -x screen_*.deb .
mkdir -m 700 sockets
SCREENDIR=$folder/sockets TERM=xterm-256color LANG=C.UTF-8 python3 - "$folder/usr/bin/screen" <<'PYTHON'
import os, pty, select, subprocess, sys, time

def heard(mode):
    """What a program in screen reads within 2 s after escape was pressed."""
    child = f"printf '{mode}'; stty raw -echo; exec dd of=$PWD/heard bs=1 status=none"
    open("heard", "wb").close()
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(sys.argv[1], ["screen", "-c", "/dev/null", "sh", "-c", child])
    def drain(seconds):
        end = time.time() + seconds
        while time.time() < end and select.select([fd], [], [], 0.1)[0] is not None:
            if select.select([fd], [], [], 0.1)[0]:
                os.read(fd, 65536)
    drain(2.0)
    os.write(fd, b"\x1b")
    drain(2.0)
    alone = open("heard", "rb").read()
    os.write(fd, b"x")
    drain(1.0)
    both = open("heard", "rb").read()
    os.kill(pid, 15)
    os.close(fd)
    return alone, both

print(subprocess.run([sys.argv[1], "-v"], capture_output=True, text=True).stdout.strip())
plain, mouse = heard(""), heard(r"\033[?1000h")
print("without mouse reports: escape", plain[0], "then x", plain[1])
print("with mouse reports:    escape", mouse[0], "then x", mouse[1])
assert plain == (b"\x1b", b"\x1bx") and mouse == (b"", b"\x1bx"), "this has changed"
PYTHON
