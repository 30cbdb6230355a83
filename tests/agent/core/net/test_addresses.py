"""Addresses that are never reached, in whatever form they are written."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.net.addresses import canonical, embedded_ipv4, readings, refusal, refused_among, refused_name


def words(text: str) -> list[str]:
    return text.split()


REFUSED = words("""
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.254 127.0.0.1 127.255.255.254 169.254.1.1
169.254.169.254 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.170 192.0.2.1 192.88.99.1 192.168.0.1
198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
168.63.129.16 100.100.100.200 192.0.0.192
:: ::1 ::2 ::ffff:127.0.0.1 ::ffff:10.1.1.1 ::ffff:0:10.1.1.1 ::127.0.0.1 ::10.0.0.1
64:ff9b::127.0.0.1 64:ff9b::a00:1 64:ff9b::169.254.169.254 64:ff9b:1::808:808 64:ff9b:1::1
2002:7f00:1:: 2002:a00:1::1 2002:c0a8:1::5 2001:0:7f00:1::1 2001:0:808:808::f5ff:fffe
2001:2::1 2001:5::1 2001:10::1 2001:db8::1 3fff::1 3fff:fff::1 5f00::1 100::1 100:0:0:1::1 4000::1 1::1
fc00::1 fd12:3456::1 fd00:ec2::254 fd20:ce::254 fe80::1 febf::1 fec0::1 ff02::1 ff0e::1 2a00::5efe:10.0.0.1
2a00::200:5efe:192.168.1.1
""")
REACHED = words("""
1.1.1.1 8.8.8.8 9.9.9.9 93.184.216.34 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 172.15.255.255
172.32.0.1 192.0.0.9 192.0.0.10 192.0.1.1 192.31.196.1 192.52.193.1 192.175.48.1 198.17.255.255 198.20.0.1
223.255.255.255 2606:4700:4700::1111 2a00:1450:4001::200e 2001:4860:4860::8888 2001:1::1 2001:3::1
2001:4:112::1 2001:20::1 2001:30::1 2001:200::1 2620:4f:8000::1 ::ffff:8.8.8.8 64:ff9b::808:808
2002:808:808::1 2001:0:808:808::f7f7:f7f7
""")


@pytest.mark.sample(45)
@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_globally_reachable_is_refused(text: str):
    assert refusal(ip_address(text)) is not None


@pytest.mark.parametrize("text", REACHED)
def test_public_addresses_are_reached(text: str):
    assert refusal(ip_address(text)) is None


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_what_python_calls_private_is_refused_and_what_carries_an_address_is_judged_by_it(plain: IPv4Address):
    if not plain.is_global:
        assert refusal(plain) is not None
    number = int(plain)
    forms = [
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(0xFFFF << 48 | number),
        IPv6Address((0x64FF9B << 96) | number),
        IPv6Address((0x2002 << 112) | number << 80 | 1),
        IPv6Address((0x20010000 << 96) | 0x08080808 << 64 | (number ^ 0xFFFFFFFF)),
        IPv6Address((0x20010000 << 96) | number << 64 | (0x08080808 ^ 0xFFFFFFFF)),
    ]
    for form in forms:
        assert plain in embedded_ipv4(form)
        assert (refusal(form) is None) == (refusal(plain) is None)


@given(st.integers(0, 2**128 - 1).map(IPv6Address))
def test_outside_of_what_was_given_out_nothing_is_reached_but_translated_addresses(address: IPv6Address):
    if refusal(address) is None and address not in IPv6Network("2000::/3"):
        assert embedded_ipv4(address) and refusal(embedded_ipv4(address)[0]) is None


@given(st.integers(0, 2**32 - 1).map(IPv4Address), st.integers(0, 5), st.booleans(), st.booleans())
def test_every_way_to_write_an_address_is_read(plain: IPv4Address, way: int, wide: bool, dot: bool):
    number, octets = int(plain), plain.packed
    text = (
        str(plain),
        str(number),
        hex(number),
        f"0{number:o}" if number else "0",
        ".".join(map(hex, octets)),
        f"{octets[0]}.{number & 0xFFFFFF}",
    )[way]
    if wide:
        text = "".join(chr(ord(each) + 0xFEE0) if each.isdigit() else each for each in text)
    assert plain in readings(text + "." * dot)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("Example.ORG.", "example.org"),
        ("MÜNCHEN.de", "xn--mnchen-3ya.de"),
        ("example\u3002org", "example.org"),
        ("ｅxample.org", "example.org"),
        ("127.1", "127.0.0.1"),
        ("1.2.3", "1.2.0.3"),
        ("①②⑦.⓪.⓪.①", "127.0.0.1"),
        ("127.0.0.1\u00ad", "127.0.0.1"),
        ("[::FFFF:7f00:1]", "::ffff:7f00:1"),
        ("[fe80::1%25eth0]", "fe80::1"),
        ("_dmarc.example.org", "_dmarc.example.org"),
        ("LOCALHOST\u200b", "localhost"),
    ],
)
def test_a_host_has_one_form_in_which_it_is_compared(host: str, expected: str):
    assert canonical(host) == expected
    assert canonical(expected) == expected


@pytest.mark.parametrize(
    "host",
    [
        "",
        ".",
        "a b",
        "a..b",
        "a/b",
        "a@b",
        "a:b",
        "1.2.3.4.5",
        "256.1.1.1",
        "010.8.8.8",
        "0x1ffffffff",
        *[
            "example.org\r\nX: y",
            "example.org\0",
            "%31.2.3.4",
            "-a.org",
            "a" * 64 + ".org",
            "99999999999",
            "a.1",
        ],
        *[".".join(["abcdefg"] * 40), "[::1", "1:2"],
    ],
)
def test_what_is_no_host_is_refused_with_a_reason(host: str):
    with pytest.raises(ValueError, match=r"^(is|ends)"):
        canonical(host)


@pytest.mark.thorough
@given(st.text(max_size=40))
def test_any_text_is_a_host_in_one_form_or_none(text: str):
    try:
        found = canonical(text)
    except ValueError:
        return
    assert canonical(found) == found and found.isascii() and not set(found) & set(" /@\r\n\0[]%")


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        (each, True)
        for each in words("10.0.0.1 192.168.1.1 172.16.0.1 100.64.0.1 203.0.113.80 fd12::1 8.8.8.8")
    ]
    + [(each, False) for each in words("127.0.0.1 ::1 0.0.0.0 169.254.1.1 fe80::1 224.0.0.1 ff02::1")]
    + [(each, False) for each in words("169.254.169.254 fd00:ec2::254 100.100.100.200 168.63.129.16")]
    + [(each, False) for each in words("::ffff:127.0.0.1 64:ff9b::a9fe:a9fe 2002:7f00:1::1")],
)
def test_a_network_of_the_person_is_reached_but_for_this_machine_and_its_credentials(
    text: str, reached: bool
):
    assert (refused_among([ip_address(text)], inside=True) is None) is reached


def test_one_refused_answer_refuses_the_name():
    found = refused_among(map(ip_address, ["8.8.8.8", "10.0.0.1", "127.0.0.1"]))
    assert found is not None and str(found[0]) == "10.0.0.1"
    assert refused_among(map(ip_address, ["8.8.8.8", "2606:4700:4700::1111"])) is None


@pytest.mark.parametrize("name", ["localhost", "a.localhost", "metadata.google.internal", "instance-data"])
def test_names_of_this_machine_and_of_its_credentials_are_refused(name: str):
    assert refused_name(name) is not None
    assert refused_name("example.org") is None
