import os
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable

import http_ece  # type: ignore[import-untyped]
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from tocsin.domain.errors import ProviderSetupError
from tocsin.providers.webpush import crypto as webpush_crypto
from tocsin.providers.webpush.crypto import (
    PLAINTEXT_BYTES,
    Vapid,
    encrypt,
    new_private_key_pem,
    point,
    public_key_of,
)

HOUR = 3_600
ORIGIN = "https://push.example.com"
SUBJECT = "mailto:ops@example.com"

BROWSER = ec.generate_private_key(ec.SECP256R1())
AUTH = bytes(range(16))


def decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def scalar(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(decoded(text), "big"), ec.SECP256R1())


def test_the_example_of_rfc_8291_comes_out_byte_for_byte() -> None:
    browser = scalar("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94")

    body = encrypt(
        b"When I grow up, I want to be a watermelon",
        browser.public_key(),
        decoded("BTBZMqHH6r4Tts7J_aSIgg"),
        sender_key=scalar("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),
        salt=decoded("DGv6ra1nlYgDCS1FRnbzlw"),
    )

    assert body == decoded(
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz"
        "AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


@given(st.binary(max_size=PLAINTEXT_BYTES))
def test_http_ece_reads_every_body_with_the_keys_of_the_browser(plaintext: bytes) -> None:
    body = encrypt(plaintext, BROWSER.public_key(), AUTH)

    assert http_ece.decrypt(body, private_key=BROWSER, auth_secret=AUTH, version="aes128gcm") == plaintext


def test_the_longest_plaintext_fills_one_record_of_what_a_push_service_takes() -> None:
    assert PLAINTEXT_BYTES == 3_993
    assert len(encrypt(b"x" * PLAINTEXT_BYTES, BROWSER.public_key(), AUTH)) == 4_096


def test_no_two_bodies_share_a_salt_or_a_key() -> None:
    bodies = [encrypt(b"same", BROWSER.public_key(), AUTH) for _ in range(200)]

    assert len({body[:16] for body in bodies}) == 200
    assert len({body[21:86] for body in bodies}) == 200


def test_a_forked_process_uses_none_of_its_parents_keys() -> None:
    encrypt(b"the first leaves some keys made ahead", BROWSER.public_key(), AUTH)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"".join(encrypt(b"", BROWSER.public_key(), AUTH)[21:86] for _ in range(40)))
        os._exit(0)
    os.waitpid(child, 0)
    points = os.read(reading, 10_000)
    os.close(reading)
    os.close(writing)

    of_child = {points[start : start + 65] for start in range(0, len(points), 65)}
    of_parent = {encrypt(b"", BROWSER.public_key(), AUTH)[21:86] for _ in range(40)}
    assert len(of_child) == 40
    assert not of_child & of_parent


def parts(header: str) -> tuple[str, str]:
    scheme, _, parameters = header.partition(" ")
    given_parameters = dict(part.split("=", 1) for part in parameters.split(", "))
    assert scheme == "vapid"
    return given_parameters["t"], given_parameters["k"]


def test_the_signature_says_who_we_are_and_for_whom_it_is() -> None:
    pem = new_private_key_pem()

    token, key = parts(Vapid(pem, SUBJECT).authorization(ORIGIN))

    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), decoded(key))
    claims = jwt.decode(token, public, algorithms=["ES256"], audience=ORIGIN)
    assert key == public_key_of(pem)
    assert claims["sub"] == SUBJECT
    assert time.time() + 11 * HOUR < claims["exp"] <= time.time() + 24 * HOUR


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def vapid(clock: Callable[[], float]) -> Vapid:
    return Vapid(new_private_key_pem(), SUBJECT, clock=clock)


def test_a_signature_serves_for_hours_and_is_renewed_hours_before_its_end(clock: Clock, vapid: Vapid) -> None:
    first = vapid.authorization(ORIGIN)
    clock.now += 5 * HOUR
    assert vapid.authorization(ORIGIN) == first
    clock.now += 2 * HOUR
    renewed = vapid.authorization(ORIGIN)

    assert renewed != first
    token, _ = parts(renewed)
    expires = jwt.decode(token, options={"verify_signature": False})["exp"]
    assert expires == clock.now + 12 * HOUR


def test_a_clock_that_was_put_back_leads_to_a_new_signature(clock: Clock, vapid: Vapid) -> None:
    first = vapid.authorization(ORIGIN)
    clock.now -= 48 * HOUR

    assert vapid.authorization(ORIGIN) != first


def test_each_push_service_gets_its_own_signature(vapid: Vapid) -> None:
    assert vapid.authorization(ORIGIN) != vapid.authorization("https://other.example.com")


def test_a_refused_signature_is_not_shown_again(vapid: Vapid) -> None:
    first = vapid.authorization(ORIGIN)
    vapid.forget(ORIGIN)

    assert vapid.authorization(ORIGIN) != first


def test_signatures_for_hosts_from_outside_do_not_pile_up(
    vapid: Vapid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webpush_crypto, "MOST_ORIGINS", 2)
    first = vapid.authorization(ORIGIN)
    vapid.authorization("https://a.example.com")
    assert vapid.authorization(ORIGIN) == first
    vapid.authorization("https://b.example.com")

    assert vapid.authorization(ORIGIN) == first
    assert len(vapid._headers) == 2


def test_the_public_key_is_the_point_that_browsers_take() -> None:
    pem = new_private_key_pem()

    key = decoded(public_key_of(pem))

    assert (len(key), key[0]) == (65, 4)
    assert point(ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), key)) == key


def pem_of(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.mark.parametrize(
    "pem",
    [
        "",
        "s3cret",
        "-----BEGIN PRIVATE KEY-----\ns3cret\n-----END PRIVATE KEY-----\n",
        pem_of(ec.generate_private_key(ec.SECP384R1())),
        pem_of(rsa.generate_private_key(65_537, 2_048)),
    ],
)
def test_another_kind_of_key_stops_the_start_and_stays_secret(pem: str) -> None:
    with pytest.raises(ProviderSetupError, match="P-256") as caught:
        Vapid(pem, SUBJECT)

    assert "s3cret" not in str(caught.value)


def test_the_key_shows_up_nowhere() -> None:
    pem = new_private_key_pem()
    vapid = Vapid(pem, SUBJECT)

    assert pem[40:80] not in repr(vapid) + repr(vars(vapid))
