from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.providers.http.ssrf_guard import Guard, HostRefusedError, HostUnknownError, Lookup, is_forbidden

PRIVATE = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
PRIVATE_V6 = [IPv6Network(net) for net in ("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "::/96")]


@st.composite
def private_v4(draw: st.DrawFn) -> IPv4Address:
    network = draw(st.sampled_from(PRIVATE))
    return network[draw(st.integers(0, network.num_addresses - 1))]


@st.composite
def private_v6(draw: st.DrawFn) -> IPv6Address:
    network = draw(st.sampled_from(PRIVATE_V6))
    return network[draw(st.integers(0, network.num_addresses - 1))]


def answering(*addresses: str) -> Lookup:
    async def lookup(_: str) -> Sequence[str]:
        return addresses

    return lookup


def ways_to_write(address: IPv4Address) -> list[str]:
    """Give the hosts that a URL may name for one IPv4 address."""
    number = int(address)
    a, b, c, d = address.packed
    return [
        str(address),
        str(number),
        hex(number),
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{number & 0xFFFF}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"0x{a:x}.0x{b:X}.{c}.{d}",
        f"{address}.",
        str(address).translate(str.maketrans("0123456789.", "０１２３４５６７８９。")),  # noqa: RUF001 - another way to write digits
        f"[::ffff:{address}]",
        f"[64:ff9b::{address}]",
        f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]",
        f"[::{address}]",
    ]


@given(private_v4())
def test_no_way_of_writing_a_private_address_passes(address: IPv4Address) -> None:
    assert [host for host in ways_to_write(address) if not Guard().fault(f"https://{host}/push")] == []


@given(private_v6())
def test_no_private_ipv6_address_passes(address: IPv6Address) -> None:
    assert Guard().fault(f"https://[{address}]/") == "names a private or reserved address"


@given(private_v4() | private_v6())
async def test_no_name_that_stands_for_a_private_address_passes(address: IPv4Address | IPv6Address) -> None:
    with pytest.raises(HostRefusedError):
        await Guard(lookup=answering("93.184.215.14", str(address))).addresses("push.example.com")


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "192.0.2.1",
        "198.51.100.7",
        "203.0.113.9",
        "255.255.255.255",
        "::",
        "::1",
        "2001:db8::1",
        "2001::1",
        "3fff::1",
        "64:ff9b:1::1",
        "::ffff:0:127.0.0.1",
        "100::1",
    ],
)
def test_metadata_and_reserved_addresses_are_forbidden(address: str) -> None:
    assert is_forbidden(ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450:4001:81d::200a",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ],
)
def test_public_addresses_pass(address: str) -> None:
    assert not is_forbidden(ip_address(address))


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://push.example.com/abc", None),
        ("https://push.example.com:8443/abc", None),
        ("HTTPS://Push.Example.Com/abc", None),
        ("https://8.8.8.8/", None),
        ("http://push.example.com/abc", "does not begin with https://"),
        ("ftp://push.example.com/abc", "does not begin with https://"),
        ("file:///etc/passwd", "does not begin with https://"),
        ("push.example.com/abc", "is not a URL"),
        ("", "is not a URL"),
        ("https://", "is not a URL"),
        ("https://[fe80::1%25eth0]/", "is not a URL"),
        ("https://256.0.0.1/", "is not a URL"),
        ("https://me@push.example.com/", "carries a user name or password"),
        ("https://me:pass@push.example.com/", "carries a user name or password"),
        ("https://push.example.com@127.0.0.1/", "carries a user name or password"),
        ("https://:pass@push.example.com/", "carries a user name or password"),
        ("https://127.0.0.1\\@push.example.com/", "names a private or reserved address"),
        ("https://127.0.0.1\t/", "names a private or reserved address"),
        ("https://push.example.com./", "names a host with a dot at its end"),
        ("https://localhost/", "names a host of a local network"),
        ("https://LOCALHOST:8443/", "names a host of a local network"),
        ("https://app.localhost/", "names a host of a local network"),
        ("https://printer.local/", "names a host of a local network"),
        ("https://metadata.google.internal/", "names a host of a local network"),
        ("https://redis/", "names a host of a local network"),
    ],
)
def test_a_url_is_judged_by_what_it_says(url: str, fault: str | None) -> None:
    assert Guard().fault(url) == fault


def test_private_addresses_may_be_allowed_but_nothing_else() -> None:
    guard = Guard(allow_private=True)

    assert guard.fault("https://127.0.0.1:8443/") is None
    assert guard.fault("https://localhost/") is None
    assert guard.fault("http://127.0.0.1/") == "does not begin with https://"
    assert guard.fault("https://me@127.0.0.1/") == "carries a user name or password"


async def test_a_name_without_an_address_is_unknown() -> None:
    async def fails(_: str) -> Sequence[str]:
        raise OSError("no such name")

    for lookup in (fails, answering()):
        with pytest.raises(HostUnknownError):
            await Guard(lookup=lookup).addresses("push.example.com")


async def test_the_system_resolver_is_asked_by_default() -> None:
    assert set(await Guard(allow_private=True).addresses("localhost")) <= {"127.0.0.1", "::1"}
