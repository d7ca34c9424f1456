"""Signatures, compared with those of botocore."""

from datetime import UTC, datetime
from unittest import mock

import pytest
from botocore import auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tocsin.providers.aws.signing import CONTENT_TYPE, AccessKey, RequestSigner

NOW = datetime(2026, 11, 18, 23, 59, 59, tzinfo=UTC)
TARGET = "AmazonSQS.ReceiveMessage"


@pytest.mark.parametrize("token", [None, "temporary/token+="])
@pytest.mark.parametrize("body", [b"{}", '{"QueueUrl":"Tiêu đề"}'.encode()])
def test_a_signature_is_the_one_that_botocore_makes(token: str | None, body: bytes) -> None:
    host = "sqs.ap-southeast-1.amazonaws.com"
    headers = {"content-type": CONTENT_TYPE, "x-amz-target": TARGET}
    request = AWSRequest("POST", f"https://{host}/", headers=headers, data=body)
    signer = auth.SigV4Auth(Credentials("AKIA", "secret", token), "sqs", "ap-southeast-1")
    with mock.patch.object(auth, "get_current_datetime", return_value=NOW.replace(tzinfo=None)):
        signer.add_auth(request)

    own = RequestSigner("sqs", "ap-southeast-1")
    for _ in range(2):
        signed = own.headers(AccessKey("AKIA", "secret", token), host, TARGET, body, NOW)
        assert signed["authorization"] == request.headers["Authorization"]
        assert signed["x-amz-date"] == request.headers["X-Amz-Date"]


def test_the_key_of_another_day_or_of_other_credentials_is_another() -> None:
    own = RequestSigner("sqs", "eu-west-1")
    tomorrow = NOW.replace(day=19)
    first, second = AccessKey("a", "1"), AccessKey("a", "2")
    signed = [own.headers(key, "h", TARGET, b"", at) for key in (first, second) for at in (NOW, tomorrow)]

    assert len({each["authorization"] for each in signed}) == 4
    assert signed[0] == RequestSigner("sqs", "eu-west-1").headers(first, "h", TARGET, b"", NOW)


def test_credentials_are_not_shown() -> None:
    assert "secret" not in repr(AccessKey("AKIA", "secret", "token"))
