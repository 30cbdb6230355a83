"""A host for the transcript, and a conversation to show in it."""

from __future__ import annotations

from textual.app import App, ComposeResult

from tools.results import DiffDetail, Display, TextDetail
from widgets.transcript.view import Transcript

DIFF = """--- a/src/money.py
+++ b/src/money.py
@@ -39,8 +39,9 @@
 from decimal import Decimal
 import math
-def round(amount, currency):
-    return float(f"{amount:.2f}")
+def round(amount: Decimal, currency: str) -> Decimal:
+    exponent = Decimal(1).scaleb(-DIGITS[currency])
+    return amount.quantize(exponent)
 # shown
 def fmt(amount):
     return str(amount)
"""


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Host(App[None]):
    """An application that is a transcript and keeps what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.transcript = Transcript()
        self.transcript.motion = False
        self.time = self.transcript.clock = Clock()
        self.copied: list[str] = []
        self.opened: list[object] = []
        self.scrolled: list[tuple[bool, int]] = []

    def compose(self) -> ComposeResult:
        yield self.transcript

    def on_transcript_copied(self, message: Transcript.Copied) -> None:
        self.copied.append(message.text)

    def on_transcript_opened(self, message: Transcript.Opened) -> None:
        self.opened.append(message.item)

    def on_transcript_scrolled(self, message: Transcript.Scrolled) -> None:
        self.scrolled.append((message.following, message.unread))

    def rows(self) -> list[str]:
        """What stands on the screen, without scrollbar and blanks at the ends."""
        height = self.transcript.size.height
        lines = [self.transcript.render_line(y).text for y in range(height)]
        return [line[:-1].rstrip() for line in lines]

    def screen_text(self) -> str:
        return "\n".join(self.rows())


def call(
    transcript: Transcript, number: int, verb: str, subject: str, summary: str, detail=None, **end
) -> None:
    """A whole call: it starts and it ends."""
    name = f"call-{number}"
    transcript.start_call(name, verb, Display(verb, subject), {"path": subject})
    transcript.finish_call(
        name,
        end.get("outcome", "done"),
        end.get("seconds", 0.1),
        Display(verb, subject, summary, detail),
        end.get("result", "{}"),
    )


def converse(host: Host) -> None:
    """A conversation with one of everything."""
    transcript = host.transcript
    transcript.add_user("The invoice totals are off by a cent for JPY. Find out why and fix it.", node=1)
    transcript.add_reasoning("Yen have no cents.\nSo look at the rounding.")
    transcript.flush()
    host.time.now += 4.2
    answer = "I'll reproduce it first, then look at how `money.round()` treats zero-decimal currencies."
    transcript.add_text(answer)
    transcript.finish_answer(answer, "Yen have no cents.\nSo look at the rounding.", 2)
    call(transcript, 1, "search", '"round(" in src', "14 hits in 6 files", TextDetail("src/money.py:41\n"))
    call(transcript, 2, "read", "src/money.py 1–80", "80 lines", TextDetail("import decimal\n", "python"))
    call(transcript, 3, "edit", "src/money.py", "+3 −2", DiffDetail(DIFF))
    transcript.start_call("code", "execute_code", Display("code", "sweep the callers"), {})
    transcript.progress_call("code", "one\ntwo\nthree\nread_file src/api/views.py\n")
    host.time.now += 3.2
    transcript.add_notice("info", "You changed src/settings.py (+1 −1) in your editor")
    transcript.flush()
