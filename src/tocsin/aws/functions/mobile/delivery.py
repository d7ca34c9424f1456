"""Delivers a record to the phones of the people that it is for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol, assert_never

from tocsin.aws.functions.batch import CALL_SECONDS, SecondsLeft
from tocsin.aws.functions.envelopes import open_record
from tocsin.aws.functions.logs import FunctionLog
from tocsin.aws.functions.mobile.answers import Answer, Failed, Gone, Refused, Sent
from tocsin.aws.functions.mobile.payloads import platform_message
from tocsin.aws.functions.mobile.publisher import TIME_USED_UP, EndpointPublisher
from tocsin.aws.functions.records import Record
from tocsin.aws.functions.results import NeverDeliveredError, RetryLaterError
from tocsin.wire.fisa.envelope import type_of
from tocsin.wire.person.endpoints import Endpoint, PersonEndpoints

_log = FunctionLog(__name__)


class Endpoints(Protocol):
    """Where the endpoints of people are found, and retired once SNS has given them up."""

    def find(self, user_ids: Sequence[str], type_: str, org_id: str | None) -> list[PersonEndpoints]:
        """Find the endpoints of people of an organisation who have not opted out of a type.

        Raise RetryLaterError if they cannot be found now.
        """

    def retire(self, endpoint: Endpoint, code: str) -> bool:
        """Retire an endpoint; return whether it was active; raise RetryLaterError if that fails."""

    def close(self) -> None:
        """Close the connections."""


class MobileDelivery:
    """Delivers records; `types` maps events to types of the catalog."""

    def __init__(self, endpoints: Endpoints, publisher: EndpointPublisher, types: Mapping[str, str]) -> None:
        self._endpoints = endpoints
        self._publisher = publisher
        self._types = types

    def deliver(self, record: Record, left: SecondsLeft) -> None:
        """Publish the envelope of a record to every endpoint of its recipients.

        Raise RetryLaterError if an endpoint can get it later, NeverDeliveredError if none ever will.
        """
        envelope, users = open_record(record)
        if not users:
            return
        message = platform_message(envelope)
        if message.is_cut:
            _log.warning("body cut")
        org_id = None if envelope.org_id is None else str(envelope.org_id)
        people = self._endpoints.find(users, type_of(envelope, self._types), org_id)
        # An endpoint belongs to one person; in two answers it would get the message twice.
        found = {each.endpoint_arn: each for person in people for each in person.endpoints}
        answers = self._publisher.publish(envelope.event_id, message, list(found.values()), left)
        for endpoint, answer in zip(found.values(), answers, strict=True):
            self._settle(endpoint, answer, left)
        counts = Counter(type(answer).__name__.lower() for answer in answers)
        _log.info(
            "message published",
            recipients=len(users),
            opted_out=sum(person.skipped == "opted_out" for person in people) or None,
            not_your_organisation=sum(person.skipped == "not_your_organisation" for person in people) or None,
            unreadable=sum(person.unreadable for person in people) or None,
            sent=counts["sent"],
            gone=counts["gone"] or None,
            refused=counts["refused"] or None,
            failed=counts["failed"] or None,
        )
        _raise_for(answers)

    def _settle(self, endpoint: Endpoint, answer: Answer, left: SecondsLeft) -> None:
        """Log what became of one endpoint, and retire it if it is gone."""
        device_id = str(endpoint.device_id)
        match answer:
            case Sent():
                return
            case Gone(code=code):
                try:
                    retired = self._retire(endpoint, code, left)
                except RetryLaterError as error:
                    # The next message to it finds out again.
                    _log.warning("endpoint not retired", device_id=device_id, code=code, error=error.code)
                else:
                    _log.info("endpoint gone", device_id=device_id, code=code, retired=retired)
            case Refused(code=code):
                _log.error("publish refused", device_id=device_id, code=code)
            case Failed(code=code, alarm=alarm):
                log = _log.error if alarm else _log.warning
                log("publish failed", device_id=device_id, code=code, alarm=alarm or None)
            case _:
                assert_never(answer)

    def _retire(self, endpoint: Endpoint, code: str, left: SecondsLeft) -> bool:
        if left() < CALL_SECONDS:
            raise RetryLaterError(TIME_USED_UP)
        return self._endpoints.retire(endpoint, code)


def _raise_for(answers: Sequence[Answer]) -> None:
    for answer in answers:
        if isinstance(answer, Failed):
            raise RetryLaterError(answer.code)
    if any(isinstance(answer, Sent) for answer in answers):
        # Each time that it is received again, the phones that have it would get it again.
        return
    for answer in answers:
        if isinstance(answer, Refused):
            raise NeverDeliveredError(answer.code)
