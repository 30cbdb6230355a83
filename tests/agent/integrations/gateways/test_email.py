"""E-mail against a strict IMAP and SMTP server on loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from agent.integrations.gateways.adapter import (
    BadCredentialsError,
    GatewayError,
    Outgoing,
    OutgoingFile,
    Place,
    UndeliverableError,
)
from agent.integrations.gateways.chat_head import command_of
from tests.support.adapter_bench import AdapterBench
from tests.support.mail_server import ADDRESS, OWNER, PASSWORD, MailServer


@pytest.fixture
async def server() -> AsyncIterator[MailServer]:
    async with MailServer() as running:
        yield running
        assert running.refusals == []


def made(server: MailServer, folder: Path, password: str = PASSWORD) -> AdapterBench:
    given = {
        "address": ADDRESS,
        "imap_host": "127.0.0.1",
        "smtp_host": "127.0.0.1",
        "imap_port": server.imap_port,
        "smtp_port": server.smtp_port,
        "authserv": "mail.example.org",
        "tls": False,
    }
    return AdapterBench("email", folder / "email", given, {"EMAIL_PASSWORD": password})


@pytest.fixture
async def bench(server: MailServer, tmp_path: Path) -> AsyncIterator[AdapterBench]:
    bench = made(server, tmp_path)
    await bench.start()
    await bench.until(lambda: server.idling)
    yield bench
    await bench.stop()


async def test_a_mail_comes_in_and_its_answer_goes_into_the_thread(
    server: MailServer, bench: AdapterBench, tmp_path: Path
) -> None:
    assert bench.names == [ADDRESS]
    first = server.write("Run them.\n\nOn Mon, Bob wrote:\n> old\n--\nAlice")
    await bench.until(lambda: bench.stored)
    (said,) = bench.stored.values()
    assert (said.text, said.sender.id, said.id) == ("Tests\n\nRun them.", OWNER, first)
    assert said.place == Place(OWNER, first)
    id = await bench.adapter.send(said.place, Outgoing(text="All **42** <pass>."), "key")
    assert await bench.adapter.send(said.place, Outgoing(text="All **42** <pass>."), "key") == id
    mail = server.sent[0]
    assert (mail["To"], mail["Subject"], mail["In-Reply-To"]) == (OWNER, "Re: Tests", first)
    assert mail["Auto-Submitted"] == "auto-replied"
    html = mail.get_body(("html",))
    assert html is not None and "<b>42</b> &lt;pass&gt;" in html.get_content().replace("strong>", "b>")
    server.write("Thanks", References=f"{first} {id}", In_Reply_To=id)
    await bench.until(lambda: len(bench.stored) == 2)
    again = list(bench.stored.values())[1]
    assert (again.place, again.text, again.message) == (said.place, "Thanks", id)
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    await bench.adapter.send_file(
        said.place, OutgoingFile(tmp_path / "a.png", "a.png", "image", "look"), "k2"
    )
    assert [each.get_filename() for each in server.sent[-1].iter_attachments()] == ["a.png"]


async def test_only_who_our_own_server_has_checked_is_that_person(
    server: MailServer, bench: AdapterBench
) -> None:
    server.write("forged", checked=False)
    server.write("no result", Authentication_Results="evil.example; dmarc=pass header.from=example.net")
    server.write(
        "other domain", Authentication_Results="mail.example.org; dmarc=pass header.from=evil.example"
    )
    server.write("ours", sender=ADDRESS)
    server.write("a program", Auto_Submitted="auto-generated")
    server.write("a list", List_Id="<list.example.net>")
    server.write("good")
    await bench.until(lambda: len(server.seen) == 7)
    senders = [(each.text.split("\n")[-1], each.sender.vouched) for each in bench.stored.values()]
    assert senders == [("forged", False), ("no result", False), ("other domain", False), ("good", True)]
    assert {each.sender.id for each in bench.stored.values()} == {OWNER}


async def test_a_mail_that_comes_beside_any_command_is_read(server: MailServer, bench: AdapterBench) -> None:
    """The server tells of it once, with the end of that command, and nothing else comes afterwards."""
    for number, command in enumerate(("UID SEARCH", "UID FETCH", "UID STORE", "IDLE")):
        server.beside[command] = lambda command=command: server.write(f"beside {command}")
        server.write(f"mail {number}")
        await bench.until(lambda command=command: f"beside {command}" in str(list(bench.stored.values())))
        assert len(bench.stored) == 2 * (number + 1)


async def test_files_of_a_mail_are_read_when_they_are_wanted(server: MailServer, bench: AdapterBench) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Message-ID"] = OWNER, ADDRESS, "<pictures@example.net>"
    mail.set_content("<p>look</p>", subtype="html")
    mail.add_attachment(b"\x89PNG1", maintype="image", subtype="png", filename="a.png")
    mail.add_attachment(b"OggS", maintype="audio", subtype="ogg", filename="v.ogg")
    server.put(mail)
    await bench.until(lambda: bench.stored)
    (said,) = bench.stored.values()
    assert said.text == "look" and [each.kind for each in said.files] == ["image", "voice"]
    assert await bench.adapter.fetch(said.files[0], 100) == b"\x89PNG1"
    with pytest.raises(UndeliverableError, match="larger"):
        await bench.adapter.fetch(said.files[0], 2)


async def test_refusals_have_names_of_their_own(
    server: MailServer, bench: AdapterBench, tmp_path: Path
) -> None:
    for code, kind in ((550, UndeliverableError), (450, GatewayError)):
        server.refuse_recipient = code
        with pytest.raises(kind) as raised:
            await bench.adapter.send(Place(OWNER), Outgoing(text="x"), "k")
        assert type(raised.value) is kind
    for chat in ("nobody", "a@b\nBcc: c@d", "a@b, c@d"):
        with pytest.raises(UndeliverableError):
            await bench.adapter.send(Place(chat), Outgoing(text="x"), "k")
    other = made(server, tmp_path / "other", "wrong")
    await other.start()
    with pytest.raises(BadCredentialsError):
        await other.until(lambda: False)
    with pytest.raises(BadCredentialsError):
        await other.adapter.send(Place(OWNER), Outgoing(text="x"), "k")
    await other.stop()
    server.cut()
    with pytest.raises(GatewayError):
        await bench.until(lambda: False)


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.thorough)])
async def test_restarts_lose_nothing(server: MailServer, bench: AdapterBench, times: int) -> None:
    """Also where a mail could not be stored, or was marked as read too late."""
    chance, wanted = random.Random(7), []
    for number in range(times):
        wanted.append(f"{number}")
        server.write(wanted[-1])
        bench.refuse = chance.randrange(2)
        if chance.random() < 0.5:
            server.seen -= {len(server.mails) - 1}
        await bench.restart()
    bench.refuse = 0
    await bench.restart()
    await bench.until(lambda: len(bench.stored) == len(wanted))
    assert [each.text.split("\n")[-1] for each in bench.stored.values()] == wanted


OUTLOOK = "________________________________\nFrom: Hermes <h@x>\nSent: Monday\nTo: A\nSubject: Re: x\n\nOld."


@pytest.mark.parametrize(
    "below",
    [
        "\n\nSent from my telephone",
        "\n\nOn Mon, 1 Dec 2026 at 10:00, Hermes <hermes@example.org>\nwrote:\n\n> old",
        f"\n\n{OUTLOOK}",
        "\n\n-----Original Message-----\nFrom: Hermes\n\nOld.",
    ],
)
async def test_a_reply_by_mail_is_a_command_whatever_its_program_writes_below(
    server: MailServer, bench: AdapterBench, below: str
) -> None:
    server.write(f"/steer be quick{below}", In_Reply_To="<1@example.net>")
    await bench.until(lambda: bench.stored)
    (said,) = bench.stored.values()
    found = command_of(said.text)
    assert found is not None and found[0].name == "steer"
    assert found[1].removesuffix("\n\nSent from my telephone") == "be quick"
    stopped = command_of(f"/stop{below}")
    assert stopped is not None and stopped[0].name == "stop"
