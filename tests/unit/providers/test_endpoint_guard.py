"""The guard of push endpoints answers as the plain guard does, whatever it remembers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.providers.http.ssrf_guard import Guard
from tocsin.providers.webpush.endpoint_guard import MOST_ORIGINS, EndpointGuard

GUARDS = [(Guard(allow_private=each), EndpointGuard(allow_private=each)) for each in (False, True)]

ENDPOINTS = (
    "https://fcm.googleapis.com/wp/abc",
    "https://fcm.googleapis.com:8443/wp/abc",
    "https://fcm.googleapis.com:99999/wp/abc",
    "https://fcm.googleapis.com@10.0.0.1/wp",
    "https://fcm.googleapis.com\\@10.0.0.1/wp",
    "https://fcm.googleapis.com:443@10.0.0.1/",
    "https://fcm.googleapis.com#@10.0.0.1/",
    "https://fcm.googleapis.com?@10.0.0.1/",
    "https://fcm.google\tapis.com/wp",
    "https://fcm.googleapis.com/wp@10.0.0.1/\\x",
    "https://127.0.0.1/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://[::1]/",
    "https://localhost/",
    "https://a./",
    "https://-a.example/",
    "https://xn--a.example/",
    "https://.../",
    "https:///a",
    "http://fcm.googleapis.com/wp",
    "HTTPS://FCM.googleapis.com/wp",
    "https://fcm.googleapis.com",
    "",
)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(("plain", "remembering"), GUARDS)
def test_it_finds_what_the_plain_guard_finds(plain: Guard, remembering: Guard, endpoint: str) -> None:
    assert [remembering.fault(endpoint) for _ in range(2)] == [plain.fault(endpoint)] * 2


@given(st.from_regex(r"https://[a-z0-9.:@\\/?#%\[\]-]{0,20}[!-~]{0,8}", fullmatch=True), st.booleans())
def test_it_agrees_on_every_url(endpoint: str, allow_private: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    plain, remembering = GUARDS[allow_private]

    assert remembering.fault(endpoint) == plain.fault(endpoint)


def test_it_remembers_a_bounded_number_of_origins() -> None:
    guard = EndpointGuard()
    for number in range(MOST_ORIGINS + 10):
        assert guard.fault(f"https://push{number}.example.com/a") is None

    assert guard.remembered == MOST_ORIGINS
