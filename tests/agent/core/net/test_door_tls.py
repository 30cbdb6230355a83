"""Encrypted connections of the client: a certificate counts for its name, its time and a known authority."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agent.core.net import door as doors
from agent.core.net.door import WebClient, WebError, WebRequest
from tests.agent.core.net.doors import PUBLIC, TestNetwork, respond, server

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


class Signed(NamedTuple):
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def written(self, path: Path) -> Path:
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM) + key)
        return path


def signed(name: str, by: Signed | None, *, until: dt.datetime = NOW + DAY) -> Signed:
    """A certificate for `name`; without `by` one that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer = by.certificate.subject if by else subject
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 30 * DAY)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        # From Python 3.13 on certificates are held to what the standard demands of them.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((by.key if by else key).public_key()),
            critical=False,
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=by is None,
                crl_sign=by is None,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    return Signed(made.sign((by.key if by else key), hashes.SHA256()), key)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Signed]:
    """An authority of this test, the only one that is known."""
    made = signed("Authority of a test", None)
    (tmp_path / "ca.pem").write_bytes(made.certificate.public_bytes(serialization.Encoding.PEM))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    doors.tls_context.cache_clear()
    yield made
    doors.tls_context.cache_clear()


async def fetched(certificate: Signed, tmp_path: Path) -> tuple[str, list[str]]:
    """What comes back from https://example.org with this certificate; and what it was asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.written(tmp_path / "server.pem"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    asked: list[str] = []

    def serve(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as secured:
                asked.append(
                    f"{secured.selected_alpn_protocol()} {secured.recv(65_536).split(b' ')[0].decode()}"
                )
                secured.sendall(respond(b"secret page"))
        except (ssl.SSLError, OSError):
            return

    with server(serve) as port:
        network = TestNetwork({"example.org": (str(PUBLIC),)}, port)

        async def permit(_url: str, _source: str) -> None: ...

        try:
            answer = await WebClient(network=network).fetch(
                WebRequest(url="https://example.org/"), permit=permit
            )
        except WebError as error:
            return str(error), asked
        return answer.body.decode(), asked


async def test_a_certificate_of_a_known_authority_opens_the_way(authority: Signed, tmp_path: Path) -> None:
    assert await fetched(signed("example.org", authority), tmp_path) == ("secret page", ["http/1.1 GET"])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("wrong name", "mismatch"),
        ("expired", "expired"),
        ("self-signed", "self-signed"),
        ("unknown authority", "unable to get local issuer"),
    ],
)
async def test_any_other_is_refused_and_nothing_is_asked(
    authority: Signed, tmp_path: Path, kind: str, words: str
) -> None:
    shown = {
        "wrong name": lambda: signed("other.example", authority),
        "expired": lambda: signed("example.org", authority, until=NOW - DAY),
        "self-signed": lambda: signed("example.org", None),
        "unknown authority": lambda: signed("example.org", signed("Somebody", None)),
    }[kind]()
    said, asked = await fetched(shown, tmp_path)
    assert words in said.lower() and asked == []
