"""The form is ours, the signature is botocore's: it must be that of what was sent, or AWS refuses it."""

import re
from datetime import UTC, datetime

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.aws.publisher.office import Office, Publishing, envelope
from tests.aws.publisher.stand_in import StandInTopic
from tests.aws_servers import REGION

SIGNED = re.compile(r"SignedHeaders=([^,]+), Signature=([0-9a-f]{64})")


async def test_the_signature_is_that_of_the_form_which_was_sent(
    office: Office, publishing: Publishing, topic: StandInTopic
) -> None:
    await office.write(envelope("ada", title="Tiêu đề & <more> +1"))
    async with publishing.running():
        await office.done()

    [(head, body)] = topic.requests
    headers = dict(line.split(": ", 1) for line in head.strip().split("\r\n")[1:])
    found = SIGNED.search(headers["Authorization"])
    assert found is not None
    names, signature = found[1].split(";"), found[2]
    lower = {name.lower(): value for name, value in headers.items()}
    assert lower["content-type"] == "application/x-www-form-urlencoded; charset=utf-8"
    assert {"content-type", "host", "x-amz-date"} <= set(names)
    request = AWSRequest("POST", topic.url + "/", headers={name: lower[name] for name in names}, data=body)
    request.context["timestamp"] = lower["x-amz-date"]
    signer = SigV4Auth(Credentials("testing", "testing"), "sns", REGION)
    expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)

    assert signature == expected
    sent = datetime.strptime(lower["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    assert abs((datetime.now(UTC) - sent).total_seconds()) < 60
