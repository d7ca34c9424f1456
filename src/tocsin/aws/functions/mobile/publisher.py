"""Publishes a message to endpoints, side by side."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from threading import Lock
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
from botocore.parsers import ResponseParserError

from tocsin.aws.functions.batch import CALL_SECONDS, SecondsLeft
from tocsin.aws.functions.mobile.answers import Answer, Failed, Refused, Sent, classify
from tocsin.aws.functions.mobile.payloads import PlatformMessage
from tocsin.wire.person.endpoints import Endpoint

REMEMBERED_SECONDS = 3_600.0
MOST_REMEMBERED = 10_000
TIME_USED_UP = "time_used_up"
OTHER_REGION = "other_region"
_OF_APPLE = ":endpoint/APNS"


class SentMessages:
    """Remembers which endpoints got which event, so that the retry of a record leaves these out.

    Lambda keeps a process for the next invocations, but not for all: where another one retries, the phone
    replaces the repeat by its collapse id.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._until: OrderedDict[bytes, float] = OrderedDict()
        self._lock = Lock()

    def add(self, event_id: str, endpoint_arn: str) -> None:
        """Remember that an endpoint got an event."""
        with self._lock:
            self._until[_digest(event_id, endpoint_arn)] = self._monotonic() + REMEMBERED_SECONDS
            while len(self._until) > MOST_REMEMBERED:
                self._until.popitem(last=False)

    def has(self, event_id: str, endpoint_arn: str) -> bool:
        """Return whether an endpoint got an event lately."""
        with self._lock:
            return self._until.get(_digest(event_id, endpoint_arn), 0.0) > self._monotonic()


class EndpointPublisher:
    """Publishes by a client of SNS, on the threads of an executor."""

    def __init__(self, sns: Any, executor: Executor) -> None:
        self._sns = sns
        self._executor = executor
        self._sent = SentMessages()

    def publish(
        self, event_id: str, message: PlatformMessage, endpoints: Sequence[Endpoint], left: SecondsLeft
    ) -> list[Answer]:
        """Publish a message to endpoints that did not get it before; return an answer for each.

        With little time left no further one is begun: what Lambda cuts off forgets who got the message.
        """
        return list(self._executor.map(lambda each: self._publish(event_id, message, each, left), endpoints))

    def _publish(
        self, event_id: str, message: PlatformMessage, endpoint: Endpoint, left: SecondsLeft
    ) -> Answer:
        if self._sent.has(event_id, endpoint.endpoint_arn):
            return Sent()
        if left() < CALL_SECONDS:
            return Failed(TIME_USED_UP)
        if not self._is_of_region(endpoint.endpoint_arn):
            # SNS answers that there is no such endpoint, which would retire every device.
            return Failed(OTHER_REGION, alarm=True)
        try:
            self._sns.publish(
                TargetArn=endpoint.endpoint_arn,
                MessageStructure="json",
                Message=message.message,
                MessageAttributes=message.attributes if _OF_APPLE in endpoint.endpoint_arn else {},
            )
        except ClientError as error:
            told = error.response.get("Error", {})
            return classify(str(told.get("Code", "")), str(told.get("Message", "")))
        except ParamValidationError:
            return Refused("ParamValidationError")
        except (BotoCoreError, ResponseParserError, OSError) as error:
            return Failed(type(error).__name__)
        self._sent.add(event_id, endpoint.endpoint_arn)
        return Sent()

    def _is_of_region(self, endpoint_arn: str) -> bool:
        return endpoint_arn.split(":")[3:4] in ([], [self._sns.meta.region_name])


def _digest(event_id: str, endpoint_arn: str) -> bytes:
    return hashlib.sha256(f"{event_id}\0{endpoint_arn}".encode()).digest()
