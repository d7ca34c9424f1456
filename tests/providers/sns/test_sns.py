from datetime import timedelta
from typing import Any

import pytest

from tests.aws_servers import AwsServer
from tests.providers.conformance import NOW, ProviderConformance, a_message, send_to
from tests.providers.sns.rig import APNS, AWS, GCM, SnsRig
from tocsin.domain.delivery.message import PushAppearance
from tocsin.domain.delivery.outcome import Defer, Gone, Outcome, Rejected, Retry, Sent
from tocsin.domain.errors import SettingsError
from tocsin.providers.aws.settings import AwsSettings
from tocsin.providers.sns.answers import RULES, classify
from tocsin.providers.sns.provider import SnsProvider
from tocsin.providers.sns.settings import SnsSettings, service_of
from tocsin.sandbox import Refuse
from tocsin.sandbox.appearance import appearance
from tocsin.settings.load import load_settings

FIVE_MINUTES = timedelta(minutes=5)


class TestConformance(ProviderConformance):
    pass


async def test_the_payload_of_the_endpoint_s_own_service_is_published(rig: SnsRig) -> None:
    provider = rig.provider(apns_topic="com.example.fisa")
    look = PushAppearance(deep_link="fisa://work-item/7", severity="critical", badge=3)
    android = a_message(rig.endpoint("phone"), appearance=look, collapse_key="work-item-7")
    iphone = a_message(rig.endpoint("phone", APNS), appearance=look, collapse_key="work-item-7")

    outcomes = await provider.send([android, iphone], now=NOW)

    assert [type(outcome) for outcome in outcomes] == [Sent, Sent]
    by_service = {arrived.message["service"]: arrived for arrived in rig.arrivals}
    gcm = by_service["GCM"].message["payload"]["fcmV1Message"]["message"]
    assert gcm["notification"] == {"title": "New customer", "body": "Ali Veli"}
    assert gcm["data"]["deep_link"] == "fisa://work-item/7"
    assert gcm["android"]["ttl"] == "3600s"
    assert "token" not in gcm
    assert by_service["GCM"].message["attributes"] == {}
    apple = by_service["APNS"].message
    assert apple["payload"]["aps"]["alert"] == {"title": "New customer", "body": "Ali Veli"}
    assert apple["payload"]["deep_link"] == "fisa://work-item/7"
    assert apple["attributes"] == {
        "AWS.SNS.MOBILE.APNS.PUSH_TYPE": "alert",
        "AWS.SNS.MOBILE.APNS.PRIORITY": "10",
        "AWS.SNS.MOBILE.APNS.COLLAPSE_ID": "work-item-7",
        "AWS.SNS.MOBILE.APNS.TOPIC": "com.example.fisa",
        "AWS.SNS.MOBILE.APNS.TTL": "3600",
    }
    assert {appearance(arrived).link for arrived in rig.arrivals} == {"fisa://work-item/7"}


async def test_a_development_build_has_the_time_to_live_of_its_own_service(rig: SnsRig) -> None:
    sandboxed = APNS.replace("APNS", "APNS_SANDBOX")
    provider = rig.provider(apns_app_arn=sandboxed)

    await provider.send([a_message(rig.endpoint("phone", sandboxed))], now=NOW)

    (arrived,) = rig.arrivals
    assert arrived.message["service"] == "APNS_SANDBOX"
    assert arrived.message["attributes"]["AWS.SNS.MOBILE.APNS_SANDBOX.TTL"] == "3600"
    assert arrived.message["attributes"]["AWS.SNS.MOBILE.APNS.PUSH_TYPE"] == "alert"


@pytest.mark.parametrize(
    ("push_type", "shown"), [("background", ("background", "5")), ("voip", ("alert", "10"))]
)
async def test_apple_s_push_types_are_kept_where_sns_has_them(
    rig: SnsRig, push_type: Any, shown: tuple[str, str]
) -> None:
    look = PushAppearance(push_type=push_type)

    await rig.provider().send([a_message(rig.endpoint("phone", APNS), appearance=look)], now=NOW)

    (arrived,) = rig.arrivals
    attributes = arrived.message["attributes"]
    assert (attributes["AWS.SNS.MOBILE.APNS.PUSH_TYPE"], attributes["AWS.SNS.MOBILE.APNS.PRIORITY"]) == shown
    assert "AWS.SNS.MOBILE.APNS.TOPIC" not in attributes


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("EndpointDisabled", Gone("EndpointDisabled", "Endpoint is disabled")),
        ("NotFound", Gone("NotFound", "Endpoint does not exist")),
        (
            "InvalidParameter",
            Rejected("InvalidParameter", "Invalid parameter: Message Reason: Invalid notification for [arn]"),
        ),
        (
            "PlatformApplicationDisabled",
            Defer(
                "PlatformApplicationDisabled",
                FIVE_MINUTES,
                "Platform application is disabled",
                pauses=False,
                alarm=True,
            ),
        ),
        ("Throttled", Defer("Throttled", timedelta(seconds=5), "Rate exceeded")),
        ("Throttling", Defer("Throttling", timedelta(seconds=5), "Rate exceeded")),
        (
            "ExpiredToken",
            Defer(
                "ExpiredTokenException",
                FIVE_MINUTES,
                "The security token included in the request is expired",
                alarm=True,
            ),
        ),
        (
            "InternalError",
            Retry("InternalError", "An internal error occurred while [arn] was looked up"),
        ),
    ],
)
async def test_an_answer_is_understood(rig: SnsRig, code: str, expected: Outcome) -> None:
    rig.script("phone", Refuse(code))

    assert await send_to(rig, rig.provider(), "phone") == expected


def outcome(status: int, code: str, message: str = "") -> str:
    return type(classify(status, code, message, None)).__name__


def test_every_row_of_the_table_decides_about_its_own_code() -> None:
    for rule in RULES:
        assert isinstance(rule.status, int)
        text = {"endpoint": "Invalid parameter: TargetArn", "payload": "", None: ""}[rule.about]
        assert outcome(rule.status, rule.code, text).lower() == rule.outcome
        # Some of them come with several statuses.
        assert outcome(400, rule.code, text) == outcome(rule.status, rule.code, text)


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (400, "SomethingNew", "Retry"),
        (403, "SomethingNew", "Defer"),
        (404, "SomethingNew", "Defer"),
        (429, "SomethingNew", "Defer"),
        (502, "502", "Retry"),
        (503, "", "Retry"),
        (302, "302", "Defer"),
        (400, "<html>" * 1_000, "Retry"),
    ],
)
def test_what_is_not_in_the_table_retires_no_device(status: int, code: str, expected: str) -> None:
    assert outcome(status, code) == expected


def test_no_arn_is_left_in_what_is_recorded() -> None:
    said = classify(
        400, "InvalidParameter", f"Invalid parameter: TargetArn {GCM} and '{APNS}'" + "x" * 5_000, None
    )

    assert GCM not in said.detail
    assert APNS not in said.detail
    assert len(said.detail) <= 300


async def test_an_endpoint_of_another_account_waits_for_an_operator_and_pauses_nobody(rig: SnsRig) -> None:
    foreign = rig.endpoint("phone").replace(":123456789012:", ":210987654321:")

    (elsewhere, here) = await rig.provider().send(
        [a_message(foreign), a_message(rig.endpoint("phone"))], now=NOW
    )

    assert isinstance(elsewhere, Defer)
    assert (elsewhere.alarm, elsewhere.pauses) == (True, False)
    assert isinstance(here, Sent)


async def test_without_credentials_an_operator_has_to_act(
    rig: SnsRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")

    said = await send_to(rig, rig.provider(aws=AwsSettings()), "phone")

    assert isinstance(said, Defer)
    assert (said.code, said.alarm, said.pauses) == ("no_credentials", True, True)


@pytest.mark.usefixtures("expired_credentials")
async def test_credentials_that_are_renewed_as_expired_need_an_operator(rig: SnsRig) -> None:
    said = await send_to(rig, rig.provider(aws=AwsSettings()), "phone")

    assert isinstance(said, Defer)
    assert (said.code, said.alarm, said.pauses) == ("no_credentials", True, True)


async def test_a_topic_is_no_target(rig: SnsRig) -> None:
    said = await send_to(rig, rig.provider(), "phone", target_kind="topic")

    assert isinstance(said, Rejected)
    assert said.code == "target_not_supported"


async def test_moto_takes_what_the_stand_in_takes(aws_server: AwsServer) -> None:
    """Another implementation of SNS, by other people."""
    sns = aws_server.client("sns")
    made = sns.create_platform_application(Name="provider", Platform="GCM", Attributes={})
    application = made["PlatformApplicationArn"]
    arn = sns.create_platform_endpoint(PlatformApplicationArn=application, Token="t1")["EndpointArn"]
    provider = SnsProvider(SnsSettings(gcm_app_arn=application), aws_server.settings)
    try:
        (sent,) = await provider.send([a_message(arn)], now=NOW)
        sns.set_endpoint_attributes(EndpointArn=arn, Attributes={"Enabled": "false"})
        (disabled,) = await provider.send([a_message(arn)], now=NOW)
        sns.delete_endpoint(EndpointArn=arn)
        (deleted,) = await provider.send([a_message(arn)], now=NOW)
    finally:
        await provider.aclose()

    assert isinstance(sent, Sent)
    assert sent.message_id
    assert isinstance(disabled, Gone)
    assert isinstance(deleted, Gone)


@pytest.mark.parametrize(
    ("arn", "service"),
    [
        (f"{GCM.replace(':app/', ':endpoint/')}/1f2e", "GCM"),
        (f"{APNS.replace(':app/', ':endpoint/')}/1f2e", "APNS"),
        ("arn:aws-cn:sns:cn-north-1:123456789012:endpoint/APNS_SANDBOX/a/b", "APNS_SANDBOX"),
        (f"{GCM.replace(':app/', ':endpoint/').replace('GCM', 'ADM')}/1f2e", None),
        (GCM, None),
        ("arn:aws:sns:ap-southeast-1:123456789012:fisa-notify.fifo", None),
        ("", None),
    ],
)
def test_an_endpoint_shows_its_push_service(arn: str, service: str | None) -> None:
    assert service_of(arn) == service


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"GCM_APP_ARN": "fisa-android"}, "sns.gcm_app_arn"),
        ({"GCM_APP_ARN": APNS}, "sns.gcm_app_arn"),
        ({"APNS_APP_ARN": GCM}, "sns.apns_app_arn"),
        (
            {"GCM_APP_ARN": GCM, "APNS_APP_ARN": APNS.replace("ap-southeast-1", "eu-west-1")},
            "sns.apns_app_arn",
        ),
        ({"GCM_APP_ARN": GCM, "BASE_URL": "localhost"}, "sns.base_url"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(given: dict[str, str], field: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings({f"TOCSIN_SNS__{name}": value for name, value in given.items()})

    assert field in {fault.field.partition(" ")[0] for fault in raised.value.faults}


def test_one_platform_application_is_enough() -> None:
    assert not SnsSettings().is_configured
    assert SnsSettings(apns_app_arn=APNS).is_configured
    assert SnsSettings(gcm_app_arn=GCM).is_configured
    assert SnsSettings(apns_app_arn=APNS).region == "ap-southeast-1"
    assert AWS.region == ""
