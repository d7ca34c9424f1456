"""One queue of SQS: receive, delete, and keep messages invisible to other readers."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec
import structlog

from tocsin.domain.delivery.backoff import delay, parse_backoff
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.ingress.sqs.settings import FIFO
from tocsin.providers.aws.json_calls import AwsCallError, AwsJsonCalls, default_region
from tocsin.providers.aws.settings import AwsSettings

LARGEST_BATCH = 10
DELETE_TRIES = 4
LONGEST_NUMBER = 15
PARALLEL = 16
"""How many batches of one list are deleted, or kept invisible, at a time."""

_RETRY = parse_backoff("exponential(100ms, 2s, 2, 0)")
_REGION = re.compile(r"(?:sqs(?:-fips)?\.)?([a-z]{2}(?:-[a-z]+)+-[0-9])\.(?:queue\.)?(?:amazonaws|api\.aws)")
_T = TypeVar("_T")

_log = structlog.stdlib.get_logger(__name__)


class MessageAttribute(msgspec.Struct, frozen=True):
    """An attribute of a message; a binary one is base64."""

    string: str | None = msgspec.field(name="StringValue", default=None)
    binary: str | None = msgspec.field(name="BinaryValue", default=None)


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """A message as SQS hands it out; each time it does so the receipt is another one."""

    message_id: str = msgspec.field(name="MessageId")
    receipt: str = msgspec.field(name="ReceiptHandle")
    body: str = msgspec.field(name="Body")
    system: dict[str, str] = msgspec.field(name="Attributes", default_factory=dict)
    message_attributes: dict[str, MessageAttribute] = msgspec.field(
        name="MessageAttributes", default_factory=dict
    )

    @property
    def attributes(self) -> dict[str, str]:
        """What its sender wrote beside the body, as text."""
        return {
            name: one.string if one.string is not None else one.binary or ""
            for name, one in self.message_attributes.items()
        }

    @property
    def sent_ms(self) -> int | None:
        """When it was sent to the queue, in milliseconds since 1970, by the clock of AWS."""
        return _number(self.system.get("SentTimestamp"))

    @property
    def receives(self) -> int:
        """How often it was handed out, this time included."""
        return _number(self.system.get("ApproximateReceiveCount")) or 1

    @property
    def group(self) -> str | None:
        """Its message group, within which a FIFO queue keeps the order."""
        return self.system.get("MessageGroupId")


class _Messages(msgspec.Struct):
    messages: list[Received] = msgspec.field(name="Messages", default_factory=list)


class _FailedEntry(msgspec.Struct):
    id: str = msgspec.field(name="Id")
    code: str = msgspec.field(name="Code", default="")
    is_own_fault: bool = msgspec.field(name="SenderFault", default=False)


class _Results(msgspec.Struct):
    failed: list[_FailedEntry] = msgspec.field(name="Failed", default_factory=list)


class _Attributes(msgspec.Struct):
    attributes: dict[str, str] = msgspec.field(name="Attributes", default_factory=dict)


_messages = msgspec.json.Decoder(_Messages)
_results = msgspec.json.Decoder(_Results)
_attributes = msgspec.json.Decoder(_Attributes)
_SYSTEM = [
    *("SentTimestamp", "ApproximateReceiveCount", "MessageGroupId", "MessageDeduplicationId"),
    "SequenceNumber",
]
_COUNTS = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")


class SqsQueue:
    """Makes the calls about one queue; `name` is what logs call it."""

    def __init__(self, name: str, url: str, settings: AwsSettings) -> None:
        self.name = name
        self.is_fifo = url.endswith(FIFO)
        self._url = url
        parts = urlsplit(url)
        endpoint = settings.endpoint_url or f"{parts.scheme}://{parts.netloc}"
        region = region_of(url) or settings.region or default_region()
        if not region:
            message = "must be set: the URL of the queue has no region"
            fault = Fault(field="aws.region (TOCSIN_AWS__REGION)", code="missing", message=message)
            raise SettingsError("The queue cannot be read:", [fault])
        self._calls = AwsJsonCalls(settings, "sqs", endpoint, region)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._calls.aclose()

    async def receive(self, *, wait: float, visibility: int) -> list[Received]:
        """Return some messages, none if there is none within `wait` seconds; raise AwsCallError."""
        fields = {
            "QueueUrl": self._url,
            "MaxNumberOfMessages": LARGEST_BATCH,
            "WaitTimeSeconds": round(wait),
            "VisibilityTimeout": visibility,
            "MessageSystemAttributeNames": _SYSTEM,
            # moto knows the older name only, and AWS knows both.
            "AttributeNames": _SYSTEM,
            "MessageAttributeNames": ["All"],
        }
        answer = await self._calls.call("AmazonSQS.ReceiveMessage", fields, _messages, wait=wait)
        return answer.messages

    async def redrive_policy(self) -> bool:
        """Return whether the queue moves messages elsewhere that were received too often."""
        fields = {"QueueUrl": self._url, "AttributeNames": ["RedrivePolicy"]}
        found = await self._calls.call("AmazonSQS.GetQueueAttributes", fields, _attributes)
        return "RedrivePolicy" in found.attributes

    async def count_messages(self) -> int:
        """Return about how many messages the queue has, with those that are being worked on."""
        fields = {"QueueUrl": self._url, "AttributeNames": list(_COUNTS)}
        found = await self._calls.call("AmazonSQS.GetQueueAttributes", fields, _attributes)
        return sum(_number(found.attributes.get(name)) or 0 for name in _COUNTS)

    async def delete(self, receipts: Sequence[str]) -> int:
        """Delete messages, and return how many could not be deleted within a few tries.

        These come again: whoever reads them has to notice.
        """
        left = await _in_parallel(receipts, self._delete_batch)
        if left:
            _log.warning("queue messages not deleted", queue=self.name, messages=left)
        return left

    async def change_visibility(self, receipts: Sequence[str], seconds: int) -> int:
        """Make messages invisible for some seconds from now, and return for how many that failed."""

        async def change(batch: Sequence[str]) -> int:
            extra = {"VisibilityTimeout": seconds}
            try:
                return len(await self._batch("AmazonSQS.ChangeMessageVisibilityBatch", batch, extra))
            except AwsCallError as error:
                _log.warning("queue messages not extended", queue=self.name, error=error.code)
                return len(batch)

        return await _in_parallel(receipts, change)

    async def _delete_batch(self, batch: Sequence[str]) -> int:
        left, hopeless = list(batch), 0
        for number in range(1, DELETE_TRIES + 1):
            if number > 1:
                await asyncio.sleep(delay(_RETRY, number - 1, 0.5).total_seconds())
            try:
                failed = await self._batch("AmazonSQS.DeleteMessageBatch", left, {})
            except AwsCallError as error:
                _log.debug("queue delete failed", queue=self.name, error=error.code)
                continue
            # An old receipt of a FIFO queue, say: another try does not help.
            hopeless += sum(each.is_own_fault for each in failed)
            left = [left[int(each.id)] for each in failed if not each.is_own_fault]
            if not left:
                break
        return len(left) + hopeless

    async def _batch(
        self, target: str, receipts: Sequence[str], extra: Mapping[str, object]
    ) -> list[_FailedEntry]:
        """Make a call about several messages, and return the entries for which it failed."""
        entries = [
            {"Id": str(number), "ReceiptHandle": receipt, **extra} for number, receipt in enumerate(receipts)
        ]
        answer = await self._calls.call(target, {"QueueUrl": self._url, "Entries": entries}, _results)
        known = {str(number) for number in range(len(receipts))}
        return [each for each in answer.failed if each.id in known]


def region_of(url: str) -> str | None:
    """Return the region in the URL of a queue of AWS itself."""
    found = _REGION.match(urlsplit(url).hostname or "")
    return found[1] if found else None


async def _in_parallel(receipts: Sequence[str], work: Callable[[Sequence[str]], Awaitable[int]]) -> int:
    """Work on batches of ten, some at a time, and return the sum of what they return."""
    batches = batched(receipts, LARGEST_BATCH)
    total = 0

    async def take() -> None:
        nonlocal total
        for batch in batches:
            total += await work(batch)

    async with asyncio.TaskGroup() as running:
        for _ in range(min(PARALLEL, -(-len(receipts) // LARGEST_BATCH))):
            running.create_task(take())
    return total


def batched(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    """Split a sequence into lists of a size, the last of which may be shorter."""
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER else None
