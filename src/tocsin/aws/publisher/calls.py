"""One call of PublishBatch, and what came of each of its messages."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, TypeAlias

from botocore.exceptions import ClientError, NoCredentialsError, ParamValidationError

from tocsin.aws.publisher.form import publish_form, set_form, use_form
from tocsin.aws.publisher.messages import Message
from tocsin.domain.errors import TocsinError
from tocsin.ingress.outbox.handler import RowsBlockedError
from tocsin.providers.aws.clients import AwsClients
from tocsin.telemetry import metrics

CALL_SECONDS = 20.0
"""The rows of the call are locked meanwhile, whatever `aws.timeout` is."""

LONGEST_CODE = 100
NO_CREDENTIALS = (
    "no credentials of AWS were found: set aws.access_key_id and aws.secret_access_key"
    " (TOCSIN_AWS__ACCESS_KEY_ID, TOCSIN_AWS__SECRET_ACCESS_KEY), or give the machine a role"
)

# SNS refused the content of a batch. Any other code is about the topic, the credentials or the rate.
CONTENT_CODES = frozenset(
    {
        "BatchRequestTooLong",
        "InvalidBatchEntryId",
        "InvalidParameter",
        "InvalidParameterValue",
        "MalformedInput",
        "MalformedQueryString",
        "ParameterValueInvalid",
        "ValidationError",
        "ValidationException",
    }
)

# As in: Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements.
_ABOUT_TOPIC = "TopicArn"

Refusal: TypeAlias = str
"""The code by which SNS refused a message."""


class TopicUnavailableError(RowsBlockedError):
    """The topic cannot be published to."""


class ContentRefusedError(TocsinError):
    """SNS refused a whole batch for the content of one of its messages; the text is the code."""


class Topic:
    """One topic of SNS."""

    def __init__(self, outbox: str, arn: str, clients: AwsClients) -> None:
        self._outbox = outbox
        self._arn = arn
        self._clients = clients
        self._client: Any = None

    async def publish(self, messages: Sequence[Message]) -> list[Refusal | None]:
        """Publish up to ten messages; return for each in order None, or why it was refused.

        Raise TopicUnavailableError if no message is to blame, ContentRefusedError if one of them is.
        """
        began = time.perf_counter()
        try:
            return await self._call(messages)
        except ParamValidationError as error:
            raise ContentRefusedError("ParamValidationError") from error
        except ClientError as error:
            told = error.response.get("Error", {})
            code = str(told.get("Code", "Unknown"))[:LONGEST_CODE]
            if code in CONTENT_CODES and _ABOUT_TOPIC not in str(told.get("Message", "")):
                raise ContentRefusedError(code) from error
            raise TopicUnavailableError(f"SNS refuses calls to the topic ({code})") from error
        except NoCredentialsError as error:
            raise TopicUnavailableError(NO_CREDENTIALS) from error
        except Exception as error:  # the client raises errors of several libraries
            # Its text may hold addresses.
            raise TopicUnavailableError(f"SNS does not answer ({type(error).__name__})") from error
        finally:
            metrics.topic_calls.observe((self._outbox,), time.perf_counter() - began)

    async def _call(self, messages: Sequence[Message]) -> list[Refusal | None]:
        async with asyncio.timeout(CALL_SECONDS):
            sns = await self._clients.client("sns")
            if sns is not self._client:
                use_form(sns)
                self._client = sns
            set_form(publish_form(self._arn, messages))
            answer: dict[str, Any] = await sns.publish_batch(
                TopicArn=self._arn, PublishBatchRequestEntries=[]
            )
        published = {each["Id"] for each in answer.get("Successful", ())}
        refused = {
            each["Id"]: str(each.get("Code", "Unknown"))[:LONGEST_CODE] for each in answer.get("Failed", ())
        }
        # A message that the answer does not mention was not published, as far as anybody knows.
        return [
            None if str(place) in published else refused.get(str(place), "NotAnswered")
            for place in range(len(messages))
        ]
