"""What is tried in each terminal; each trial returns whether all went well, and a few words."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support.model_process import ServerProcess
from tests.terminals.adapters import Adapter, Inside, Library, Window

TEXTS = (
    "你好，世界", "これは日本語の文章です", "안녕하세요 여러분", "Привет, мир", "Καλημέρα κόσμε", "שלום עולם",
    "مرحبا بالعالم", "नमस्ते दुनिया", "สวัสดีชาวโลก", "Tiếng Việt có dấu",
    "naïve café", "cafe\u0301 decomposed",
    "Þórður ærslast", "straße – „Größe“", "𠮷野家で食べる", "thumb 👍🏽 up", "family 👨‍👩‍👧‍👦 here",
    "flag 🇩🇪 there",
    "ⅨⅫ ½ ∑ ∞ ≠", "中文输入法一次可以提交很长的一段文字，超过三十二个字符也应该完整地到达对话框里",
)  # fmt: skip
PASTES = (
    "two\nlines",
    "def f():\n\treturn 'ü'\n\nf()",
    "\n".join(f"line {at} of a long paste" for at in range(60)),
)
PAYLOADS = (
    "short", "two\nlines\n\n```python\nx = 1\n```", "漢字 – ü 👍🏽 שלום", "x" * 700, "word " * 1000 + "end",
    "y" * 30_000,
    "z\n" * 40_000 + "end", "quote ' \" $HOME `id` \\033]52;c;aGk=\\007 ; end",
)  # fmt: skip
ROWS = 90
SCRIPT = f"""
ROWS = {ROWS}
PAYLOADS = {PAYLOADS!r}
def script(request):
    text = str(request.messages[-1]["content"])
    number = text.rpartition("payload ")[2][:1]
    if "row by row" in text:
        rows = (f"row {{n}} of the answer" + " and more words" * (n % 7) for n in range(ROWS))
        return say("\\n\\n".join(rows), piece=24, pace=0.01)
    if "links" in text:
        return say("See [the page](https://example.org/a_page) and `notes.py:2`.")
    if "slowly" in text:
        return say("Here it comes, word by word.", piece=6, pace=0.5)
    return say(PAYLOADS[int(number)] if "payload " in text else "Heard.")
"""
SENTENCES = re.compile(r"(Copied (?:by|with)|Sent to|In the buffer of|Not copied)")
MODES = re.compile(rb"\x1b\[\?([\d;]+)([hl])|\x1b\[([<>])(\d*)u|\x1b\[(2[23]);")
GARBAGE = re.compile(r"\d+;rgb:|\$p|\x1b|\[\?\d|;\d+[uhlRt]\b|\b52;c|(?=\S*[A-Z])(?=\S*\d)[A-Za-z0-9+/]{60}")


class Trials:
    """The trials of one terminal, in order. Each may rely on what the one before left: a shell, or Hermes."""

    def __init__(self, adapter: Adapter, server: ServerProcess) -> None:
        self.a, self.server = adapter, server
        self.folder = adapter.work.parent

    def shell(self, line: str) -> int:
        """Type a line of the shell; the offset before."""
        since = self.a.offset()
        self.a.text(line)
        self.a.send(b"\r")
        return since

    def begin(self) -> bool:
        """Start Hermes; whether its prompt came."""
        since = self.shell("./hermes")
        came = self.a.until("⏎ send", since, 40)
        self.a.settle(1.2)
        return came

    def ask(self, text: str) -> bool:
        """Send a message; whether it came to the model as it was typed."""
        self.a.text(text)
        self.a.live(0.3)
        self.a.send(b"\r")
        return self.reached(text)

    def reached(self, text: str, limit: float = 12.0) -> bool:
        """Wait until the model got a message."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if text.strip() in self.messages():
                self.a.settle(0.5)
                return True
            self.a.live(0.2)
        self.a.send(b"\x03")
        self.a.live(0.5)
        return False

    def messages(self) -> list[str]:
        """What the person said, as the model got it."""
        bodies = [each["body"]["messages"] for each in self.server.requests()]
        return [_words(each).strip() for body in bodies for each in body if each.get("role") == "user"]

    def start(self) -> tuple[bool, str]:
        self.a.settle(0.5, 5)
        if not self.begin():
            return False, "Hermes did not come up"
        return self.looks("What should I do?")

    def looks(self, *wanted: str) -> tuple[bool, str]:
        """Whether the screen shows what it should and nothing that was meant for the terminal."""
        rows = self.a.rows()
        if rows is None:
            return True, "not readable"
        shown = "\n".join(rows)
        faults = [f"no {each!r}" for each in wanted if each not in shown]
        faults += _garbage(rows)
        faults += ["a broken rule" for row in rows if row.startswith("─" * 9)
                   and " " in row.strip(" ┃") and not set("·▌") & set(row)]  # fmt: skip
        faults += [] if any("❯" in row for row in rows[-6:]) else ["no prompt at the bottom"]
        return not faults, ", ".join(faults[:3]) or "✓"

    def commands(self) -> tuple[bool, str]:
        file = self.folder / "keys.json"
        self.shell(f"./hermes doctor keys --json > {file}")
        self.a.live(3.0)
        for _ in range(30):
            if file.exists() and file.stat().st_size:
                break
            self.a.live(0.5)
        self.a.live(0.5)
        since = self.shell("./hermes doctor keys")
        if not self.a.until("Press keys", since):
            return False, "doctor keys did not come up"
        self.a.settle(0.5)
        told, same = dict[str, set[str]](), dict[str, set[str]]()
        reports = json.loads(file.read_text("utf-8"))
        for report in reports:
            told.setdefault(report["key"], set()).add(report["arrives"])
            every = {each["key"] for each in reports if each["command"] == report["command"]}
            same[report["key"]] = same.get(report["key"], every) & every
        came, said, wrong = 0, 0, list[str]()
        # One that the terminal takes itself may keep those after it, as the search of rxvt does.
        for key, arrives in sorted(told.items(), key=lambda row: "yes" not in row[1]):
            if key == "escape":
                continue
            if key == self.a.row.get("prefix"):
                said, wrong = (
                    (said + 1, wrong) if "yes" not in arrives else (said, [*wrong, f"{key} (prefix)"])
                )
                continue
            since = self.a.offset()
            self.a.key(key)
            self.a.live(0.25 if isinstance(self.a, Window) else 0.1)
            lines = self.a.output(since).decode("utf-8", "replace").splitlines()
            if any(line.startswith(f"{each} ") for line in lines for each in same[key]):
                came += 1
            elif "yes" not in arrives:
                said += 1
            else:
                seen = lines[0].split()[0] if lines and lines[0].split() else "nothing"
                wrong.append(f"{key} as {seen}")
                shown = _plain(self.a.output(since))
                if seen == "escape" or shown.rstrip().endswith(("$", "#")):  # escape ends it
                    self.a.settle(0.5)
                    since = self.shell("./hermes doctor keys")
                    self.a.until("Press keys", since)
                    self.a.settle(0.5)
        self.a.send(b"\x1b")
        self.a.live(1.0)
        self.a.settle(0.5)
        words = f"{came} of {came + said + len(wrong)} keys" + (
            f", {said} as doctor keys says" if said else ""
        )
        return not wrong, "; ".join([words, *wrong[:6]])

    def texts(self) -> tuple[bool, str]:
        good, other, lost = 0, 0, list[str]()
        # xdotool gives other layouts' letters to spare keys, which few terminals follow.
        texts = TEXTS[3:4] + TEXTS[10:11] + ("plain words",) if isinstance(self.a, Window) else TEXTS
        for text in texts:
            before = self.a.heard.stat().st_size
            if self.ask(text):
                good += 1
                continue
            sent = self.a.heard.read_bytes()[before:].decode("utf-8", "replace")
            if text in sent:
                lost.append(text)
            else:  # another text, by the terminal or by the program that types
                other += 1
        fine, words = self.looks()
        lost += [] if fine else [words]
        words = f"{good} of {len(texts)}" + (f", {other} not sent by the terminal" if other else "")
        return not lost, "; ".join([words, *lost[:3]])

    def pastes(self) -> tuple[bool, str]:
        lost = []
        for text in PASTES:
            self.a.paste(text)
            self.a.live(0.8)
            self.a.send(b"\r")
            if not self.reached(text):
                lost.append(text[:20])
        bracketed = b"\x1b[200~" in self.a.heard.read_bytes()
        return not lost or not bracketed, f"{len(PASTES) - len(lost)} of {len(PASTES)}" + (
            "" if bracketed else ", as typed lines (not bracketed)"
        )

    def copies(self) -> tuple[bool, str]:
        same, told, lies = 0, 0, list[str]()
        for number, payload in enumerate(PAYLOADS):
            self.ask(f"payload {number}")
            self.a.settle(0.8)
            self.a.clipboard()  # what the copy before left
            since = self.shell("/copy")
            end, want = time.monotonic() + 12, payload.encode()
            sentence, got, kept = "", b"", b""
            # The notice of the copy before may be painted once more; what counts is what it ends with.
            while time.monotonic() < end and not (sentence and want in (got, kept)):
                self.a.live(0.3)
                found = SENTENCES.search(_plain(self.a.output(since)))
                sentence = found[1] if found else ""
                got, kept = self.a.clipboard() or got, self._fallback(sentence)
            self.a.settle(1.0)  # what is in the other place may arrive in the clipboard as well
            if (got := self.a.clipboard() or got) == want:
                same += 1
            elif sentence[:6] not in ("", "Copied") and kept == want:
                told += 1
            else:
                lies.append(f"{number}: {sentence or 'nothing said'}, clipboard {len(got)} bytes")
            fine, words = self.looks() if self.a.rows() is not None else (True, "")
            lies += [] if fine else [f"{number}: {words}"]
            self.a.send(b"\x1b")
            self.a.live(1.2)  # else the next letter is a command with alt
        words = f"{same} of {len(PAYLOADS)} identical" + (f", {told} said not to be" if told else "")
        return not lies, "; ".join([words, *lies[:3]])

    def _fallback(self, sentence: str) -> bytes:
        """Return what lies in the place that a notice names instead of the clipboard."""
        if sentence == "In the buffer of" and "buffer" in self.a.words:
            return subprocess.run(self.a.words["buffer"], capture_output=True, timeout=20).stdout
        file = self.folder / "home/clipboard.txt"
        return file.read_bytes() if file.exists() else b""

    def calls(self) -> tuple[bool, str]:
        since = self.a.offset()
        if isinstance(self.a, Library):
            self.a.calls.clear()
        self.a.text("slowly please")
        self.a.live(0.4)
        self.a.send(b"\r")
        if isinstance(self.a, Library):
            self.a.send(b"\x1b[O")
        self.reached("slowly please")
        self.a.live(4.0)
        said = self.a.output(since)
        bell = b"\x07" in re.sub(rb"\x1b[\]P][^\x07\x1b]*(?:\x07|\x1b\\)", b"", said)
        shown = re.search(rb"\x1b\](?:9|777|99);", said)
        words = ["bell" if bell else "no bell", "notification" if shown else "no notification"]
        if isinstance(self.a, Library):
            words[1] += f", {len(self.a.calls)} reached the host"
            self.a.send(b"\x1b[I")
        if isinstance(self.a, Window):
            title = self.a.title()
            return "hermes" in title, f"title {title[:30]!r}"
        return bool(bell), ", ".join(words)

    def sizes(self) -> tuple[bool, str]:
        for columns, rows in ((80, 24), (120, 36), (100, 30)):
            since = self.a.offset()
            self.a.resize(columns, rows)
            self.a.live(1.5)
            self.a.settle(1.0)
            if self.a.offset() == since:
                return False, f"nothing drawn for {columns} × {rows}"
            fine, words = self.looks()
            if not fine:
                return False, f"{columns} × {rows}: {words}"
        return True, "3 of 3"

    def stream(self) -> tuple[bool, str]:
        """A long answer scrolls, in one size and while the size changes: no row is lost, doubled or torn."""
        since = self.a.offset()
        for sizes in ((), ((90, 26), (110, 34))):
            if not self.ask(f"answer row by row{len(sizes)}"):
                return False, "the message did not arrive"
            for columns, rows in sizes:
                self.a.live(0.8)
                self.a.resize(columns, rows)
            self.a.live(2.0)
            self.a.settle(1.5, 20)
            shown = self.a.rows()
            if shown is None:
                return True, "not readable"
            seen = [int(n) for n in re.findall(r"row (\d+) of the answer", "\n".join(shown))]
            if not seen or seen != list(range(seen[0], ROWS)) or len(seen) < len(shown) // 4:
                return False, f"rows {seen}"[:80]
            fine, words = self.looks()
            if not fine:
                return False, words
        moved = len(re.findall(rb"\x1b\[\d+;\d+r", self.a.output(since)))
        return bool(moved), f"{moved} frames scrolled"

    def links(self) -> tuple[bool, str]:
        """What the terminal opens of an answer with two links, which cannot be read from their text."""
        if "opens" not in self.a.row:
            return True, "does not apply"
        file = self.folder / "links"
        self.ask("links please")
        self.a.settle(1.0)
        for label in "sa":  # foot writes a letter over each link
            self.a.key(self.a.row["opens"])
            self.a.live(0.5)
            self.a.key(label)
            self.a.live(1.0)
        opened = set(file.read_text("utf-8").split()) if file.exists() else set[str]()
        # foot gives the path of a file on this machine, without its line.
        lost = {"https://example.org/a_page", f"{self.a.work}/notes.py"} - opened
        words = f"{2 - len(lost)} of 2 opened"
        return not lost, "; ".join([words, *sorted(lost)])

    def again(self) -> tuple[bool, str]:
        self.a.text("half a draft")
        self.a.settle(0.5)
        if not isinstance(self.a, Inside) or not self.a.attach_again():
            return True, "does not apply"
        self.a.live(3.0)
        self.a.settle(1.0)
        return self.looks("half a draft")

    def suspend(self) -> tuple[bool, str]:
        since = self.a.offset()
        self.a.send(b"\x1a")
        self.a.live(1.5)
        left = _modes_left(self.a.output(0))
        self.shell("echo al''ive")
        alive = self.a.until("alive", since, 10)
        since = self.shell("fg")
        back = self.a.until("half a draft", since, 15)
        self.a.settle(1.0)
        fine, words = self.looks("half a draft")
        faults = [f"modes left: {left}"] * bool(left) + ["no shell"] * (not alive) + ["no draft"] * (not back)
        return not faults and fine, ", ".join(faults) or words

    def leave(self) -> tuple[bool, str]:
        since = self.a.offset()
        self.a.send(b"\x15")
        self.a.live(0.3)
        self.shell("/quit")
        return self.after(since)

    def after(self, since: int, wanted: str = "") -> tuple[bool, str]:
        """Whether the shell is there again, and everything was put back."""
        self.a.live(2.5)
        self.a.settle(1.0)
        left = _modes_left(self.a.output(0))
        self.shell("echo al''ive")
        alive = self.a.until("alive", since, 15)
        faults = [f"modes left: {left}"] * bool(left) + ["no shell"] * (not alive)
        if wanted and wanted not in _plain(self.a.output(since)):
            faults.append(f"does not say {wanted!r}")
        rows = self.a.rows()
        faults += _garbage(rows or ())
        return not faults, ", ".join(faults[:3]) or "✓"

    def crash(self) -> tuple[bool, str]:
        if not self.begin():
            return False, "Hermes did not come up"
        return self.after(self.shell("/fold"), "Hermes ended unexpectedly")

    def killed(self) -> tuple[bool, str]:
        if not self.begin():
            return False, "Hermes did not come up"
        since = self.a.offset()
        os.kill(int((self.folder / "pid").read_text()), signal.SIGKILL)
        return self.after(since)

    def printed(self) -> tuple[bool, str]:
        result = self.folder / "printed"
        self.shell(f"python3 {Path(__file__).parent / 'probe.py'} {self.a.said} {result}")
        end = time.monotonic() + 60
        while not result.exists() and time.monotonic() < end:
            self.a.live(0.5)
        count, *lines = result.read_text().splitlines() if result.exists() else ["no answer"]
        return not lines or lines == ["no cursor report"], "; ".join([count, *lines[:4]])


def _garbage(rows: Sequence[str]) -> list[str]:
    own = [row for row in rows if "quote ' " not in row]  # the payload that looks like a sequence
    return [f"prints {found[0]!r}" for row in own if (found := GARBAGE.search(row))]


def _words(message: dict[str, object]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _plain(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    text = re.sub(r"\x1b[\]P_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-9;:<=>?]*[ -/]*[@-~]", "", text)
    return " ".join(text.split())


def _modes_left(data: bytes) -> str:
    """Return the modes that are set at the end and were not at the start."""
    modes = dict[bytes, bool]()
    pushed = 0
    for numbers, letter, push, _flags, title in MODES.findall(data):
        pushed += {b">": 1, b"<": -1}.get(push, 0)
        if title:
            modes[b"title"] = title == b"22"
        for number in filter(None, numbers.split(b";")):
            modes[number] = letter == b"h"
    usual = {b"7", b"25", b"2004"}  # on in a shell; 2004 is bash's own
    left = [name.decode() for name, on in modes.items() if on != (name in usual) and name != b"2004"]
    return " ".join([*left, *(["keys"] if pushed > 0 else [])])


ORDER = (
    "start", "texts", "pastes", "copies", "calls", "sizes", "stream", "links", "again", "suspend", "leave",
    "commands", "crash", "killed", "printed",
)  # fmt: skip
