"""How messages are kept invisible."""

from contextlib import aclosing

from tests.aws.scripted_sqs import Answer, scripted_sqs
from tocsin.ingress.sqs.queue import Received, SqsQueue
from tocsin.ingress.sqs.visibility import HeldMessages


def message(receipt: str) -> Received:
    return Received(message_id="m", receipt=receipt, body="")


async def test_the_time_of_messages_is_extended_when_half_of_it_is_over() -> None:
    answers: list[Answer] = [(500, b""), (200, b"{}"), (200, b"{}")]
    async with (
        scripted_sqs(lambda *_: answers.pop(0)) as server,
        aclosing(SqsQueue("shop", server.queue_url, server.settings)) as queue,
    ):
        held = HeldMessages(queue, 60)
        held.add([message("old"), message("done")])
        # As if more than half of their time had passed.
        held._until = {receipt: until - 31 for receipt, until in held._until.items()}
        held.add([message("new")])

        await held.extend()
        held.drop(["done"])
        # It failed, so the next look asks again; the one after that has nothing to ask for.
        await held.extend()
        await held.extend()

    asked = [
        [(entry["ReceiptHandle"], entry["VisibilityTimeout"]) for entry in fields["Entries"]]
        for _, fields in server.asked
    ]
    assert asked == [[("old", 60), ("done", 60)], [("old", 60)]]
    assert len(held) == 2
