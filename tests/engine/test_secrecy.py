"""An e-mail address is in no log line and no stored error, whatever becomes of its delivery."""

import logging
from datetime import timedelta
from functools import partial

import pytest
import structlog

from tests.engine.stage import Stage
from tests.waiting import found
from tocsin.domain.intent import Audience
from tocsin.domain.people.recipient import EmailRecipient, UserRecipient, logged_route_id
from tocsin.providers.smtp.provider import SmtpProvider
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.sandbox import Cut, Refuse, Sandbox
from tocsin.sandbox.faults.rules import Fault

ADDRESS = "s3cret.person@private.example"
SECRETS = ("s3cret.person", "private.example", "p4ssword")


async def tried(stage: Stage, count: int) -> bool:
    """Return whether so many attempts of the only delivery failed and are settled."""
    statement = "select count(*) >= $1 and bool_and(lease is null) from attempts, deliveries"
    return bool(await stage.pool.fetchval(statement, count))


@pytest.mark.parametrize(
    ("faults", "state"),
    [
        ([], "sent"),
        ([Refuse("451 4.3.2"), Cut()], "sent"),
        ([Refuse("550 5.1.1")], "gone"),
        ([Refuse("554 5.6.0")], "rejected"),
        ([Refuse("535 5.7.8")], "sent"),
    ],
)
async def test_an_address_is_in_no_log_line_and_no_error(
    stage: Stage, faults: list[Fault], state: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    stage.acceptor = stage.an_acceptor({"email": ("smtp",)})
    async with Sandbox() as sandbox:
        if faults:
            sandbox.faults_of("smtp").script(ADDRESS, *faults)
        provider = SmtpProvider(
            SmtpSettings(
                host="127.0.0.1",
                port=sandbox.smtp_port,
                username="sandbox",
                password="sandbox",
                sender="notify@acme.example",
                ca_file=sandbox.ca_file,
            )
        )
        with structlog.testing.capture_logs() as lines:
            async with stage.working(provider):
                accepted = await stage.accept(
                    audience=Audience(emails=[ADDRESS]), type="mail_only", payload={}
                )
                for number in range(len(faults)):
                    await found(partial(tried, stage, number + 1))
                    stage.clock.advance(timedelta(minutes=10))
                await stage.settled(accepted, state)
        await provider.aclose()

    stored = await stage.pool.fetch("select to_jsonb(attempts)::text as row from attempts")
    alarms = await stage.pool.fetch("select to_jsonb(alarms)::text as row from alarms")
    (delivery,) = await stage.deliveries(accepted)
    told = [
        repr(lines),
        caplog.text,
        str(delivery["last_error"]),
        *(row["row"] for row in (*stored, *alarms)),
    ]
    assert lines
    assert not [text for text in told for secret in SECRETS if secret in text]


def test_a_logged_route_id_tells_people_apart_and_hides_addresses() -> None:
    first, again, other = (
        logged_route_id("email", EmailRecipient(address)) for address in (ADDRESS, ADDRESS, f"x{ADDRESS}")
    )

    assert first == again != other
    assert first.startswith("email:email:sha256-")
    assert logged_route_id("push", UserRecipient("ada")) == "push:user:ada"
