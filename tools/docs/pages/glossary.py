"""The glossary: every term of the domain once, with the states, reasons and outcomes from the code."""

from inspect import getdoc
from typing import Any, get_args

from tocsin.domain.delivery import reasons, states
from tocsin.domain.delivery.outcome import Outcome, ReceiptOutcome
from tools.docs.markdown import code, page, table

TERMS: tuple[tuple[str, str], ...] = (
    (
        "alarm",
        "A problem that an operator has to fix, such as refused credentials. It stays until it is cleared.",
    ),
    (
        "appearance",
        "How a push looks and what it does on the device besides its texts: image, sound, badge, deep link.",
    ),
    ("archive", "The files with every message of an SQS queue, and the process that writes them."),
    ("attempt", "One try to send a delivery through its provider. The object that carries it is `Attempt`."),
    ("attribute", "A custom fact about a user, such as `plan: pro`, for texts and audiences."),
    (
        "audience",
        "Whom an intent is for: users by id or attributes, everyone, a segment, addresses, admins, a topic.",
    ),
    ("audit", "The record of who did what to which subject, stored with the change that it describes."),
    ("backoff", "The delay between two attempts: exponential with jitter, or a list of delays."),
    (
        "backpressure",
        "A part that is full stops taking work: a lane claims only as much as it has room and rate for.",
    ),
    (
        "broadcast",
        "A notification to very many people, whose deliveries are stored in chunks after it was accepted.",
    ),
    ("catalog", "The declared types: payload schema, channels, category, policies, templates."),
    ("category", "A group of types that people opt out of together, per channel."),
    ("channel", "How a person is reached: `push`, `email`, `webhook` or `inbox`."),
    ("checkpoint", "The stored position of a periodic producer; its next run continues from there."),
    (
        "circuit breaker",
        "Stops calls to a failing provider or host: closed, open, or half-open while one message tests it.",
    ),
    ("claim", "To take due deliveries of a lane with a lease, so that no other worker sends them."),
    ("client event", "An entry of the gateway's stream: something that a user's open apps show at once."),
    (
        "collapse key",
        "A newer notification of the same type and collapse key replaces an older one that still waits.",
    ),
    ("conformance suite", "The tests that every provider must pass."),
    (
        "connection token",
        "What a client of SignalR gets from the gateway to connect with: random, valid once and briefly.",
    ),
    ("cursor", "The position after the last item of a page, used to request the next page."),
    ("dashboard", "The operator's pages at `/dashboard` of the API, or on a port of their own."),
    (
        "dashboard session",
        "One sign-in to the dashboard, with an API key, with which it ends, or by OpenID Connect.",
    ),
    (
        "dead letter",
        "A delivery that ended as `dead`, `rejected` or `gone`. It can be inspected and replayed.",
    ),
    ("deadlock", "Two transactions that wait for each other. Rows are locked in id order to avoid it."),
    ("delivery", "One notification to one recipient by one channel, to one device or address."),
    (
        "delivery function",
        "A function on AWS that sends the envelopes of a topic to phones or to the gateway.",
    ),
    ("device", "One app installation that can be reached: provider, platform, token, owner."),
    ("device session", "One login of a person on a device; a client event can be for one of them alone."),
    (
        "digest",
        "One message made of several notifications of a type: a row with a window, members and a state.",
    ),
    ("directory", "The stored e-mail address, locale, time zone and attributes of each user."),
    ("dispatch", "The part of a worker that claims, decides, renders and sends."),
    ("endpoint", "A webhook URL of a user, with the secret that signs requests to it."),
    ("envelope", "One event as it travels on a topic: who it is for, its texts, its link and its extras."),
    ("erasure", "The removal of all data of a person on request. Anonymous counts stay."),
    ("failover", "A delivery by a second channel when the push was not sent in time."),
    (
        "fan-out",
        "Making one delivery per device or endpoint. Deliveries that still need it are in the lane `fanout`.",
    ),
    ("fault", "One validation error of one field in a request, a setting or a catalog file."),
    (
        "fingerprint",
        "The SHA-256 hash of an intent's canonical JSON, which detects different content with the same key.",
    ),
    (
        "gateway",
        "The process that sends client events from a Redis stream to the live sessions of their users.",
    ),
    (
        "head-of-line blocking",
        "Messages that wait behind one that cannot be sent. A lane per provider prevents it.",
    ),
    ("hint", "The advice shown with an error code: what a person can do about it."),
    (
        "hold",
        "To keep a delivery from being claimed until something else happens; `held_by` is that something.",
    ),
    ("hub", "The path of the gateway at which clients of SignalR connect."),
    (
        "idempotency key",
        "The producer's key for what happened. The same producer and key never make two notifications.",
    ),
    ("inbox", "The list of a person's messages inside an application; the channel and the provider of it."),
    ("inbox item", "One message in a person's inbox, with when it was seen, read and archived."),
    ("intent", "What a producer submits: type, version, audience, payload, idempotency key."),
    (
        "lane",
        "The queue of one provider inside the deliveries table, and the part of a worker that serves it.",
    ),
    ("lease", "A worker's time-limited claim on a delivery, by the database's clock. It is not a state."),
    ("limit", "The most a person, a device or a category gets in a person's day."),
    ("locale", "A language tag such as `tr-TR`. Texts are tried from the most specific tag to the default."),
    ("mail command", "An entry of a stream by which another service has one mail sent, from a template."),
    ("mailer", "The process that turns mail commands into mails."),
    ("notification", "An accepted intent."),
    (
        "ordering group",
        "Deliveries that must reach a person's device in accept order: a type, or a group of the catalog.",
    ),
    (
        "organisation",
        "People to whom a key, a token or a source can be bound: it reaches nobody else.",
    ),
    ("outbox", "A table in an application's own database with intents written in its own transactions."),
    ("outcome", "The result of an attempt: `Sent`, `Retry`, `Defer`, `Rejected` or `Gone`."),
    (
        "pause",
        "To stop sending through a provider for a time, by an operator or after the provider's request.",
    ),
    ("payload", "The data of a notification. It is stored once and rendered when a delivery is sent."),
    ("periodic producer", "A query or a generator that runs by a schedule and yields intents."),
    ("plan", "To decide at acceptance which deliveries a notification becomes."),
    ("platform endpoint", "A device as Amazon SNS has it. Its ARN is the token of the device."),
    ("policy", "A rule of a type in the catalog: attempts, backoff, order, throttle, digest, failover."),
    ("preference", "A person's choice for one category and channel. The default is yes."),
    ("producer", "A program that submits intents, identified by its API key."),
    ("provider", "A service that delivers messages of a channel: FCM, APNs, Expo, Web Push, SMTP, webhook."),
    ("prune", "To delete old rows in batches after the retention time."),
    ("quarantine", "To stop using a device that belongs to another sender."),
    ("quiet hours", "The hours outside a person's allowed window, in their own time zone."),
    ("rate limit", "The most messages per second to a provider by all workers together."),
    ("reason", "Why a delivery was skipped."),
    ("receipt", "A later message from a provider or device about a sent delivery: delivered, opened, gone."),
    (
        "recipient",
        "Whom a notification is for: `user:<id>`, `email:<address>`, `topic:<name>` or `condition:<text>`.",
    ),
    ("recovery sweep", "The periodic check for overdue deliveries that no worker has a lease on."),
    ("redrive policy", "A queue's own rule that moves what was received too often to a dead-letter queue."),
    ("relay", "The process that accepts or publishes the intents of outboxes, streams and queues."),
    ("replay", "To make a dead letter pending again."),
    ("retention", "How long settled notifications are kept."),
    ("retire", "To stop using a device or endpoint, with a reason. It is not deleted."),
    ("route id", "`<channel>:<recipient>`, the name of a delivery in outside contracts."),
    ("sandbox", "The emulated providers for trials and tests, with virtual devices and scripted faults."),
    ("segment", "A named list of people, uploaded as a whole, that can be the audience of a broadcast."),
    ("settle", "To store the outcome of an attempt, guarded by the lease and the state."),
    ("skip", "To decide that a delivery is not sent, with a reason."),
    ("SNS topic", "A topic of Amazon SNS that an outbox is published to; a FIFO one keeps order."),
    (
        "SSRF",
        "Server-side request forgery: a call to a private network through an address chosen by others.",
    ),
    (
        "state",
        "Where a delivery is between planned and settled; the legal transitions are one table in the code.",
    ),
    (
        "suppression",
        "An e-mail address that gets no mail, because the mailbox is gone or an operator decided so.",
    ),
    ("tenant", "One installation of several in one database; each has a schema of its own."),
    ("throttle", "At most so many notifications of a type for one person in a time window."),
    ("ticket", "Expo's id for an accepted message, used to fetch its receipt."),
    ("time to live", "How long a delivery may wait. After that it is `expired`."),
    ("toggle", "A switch for a type, a channel or a provider."),
    ("topic", "A name at FCM that devices subscribe to; a condition combines several."),
    ("type", "A kind of notification, such as `new_customer`, declared in the catalog with a version."),
    ("unread", "Said of an inbox item that its person has not opened or marked as read."),
    ("unseen", "Said of an inbox item that came after its person looked at the list last."),
    ("upgrade", "The conversion of a payload to the next version of its type."),
    ("worker", "A process that sends deliveries and runs periodic producers."),
)


def outcomes() -> list[type[Any]]:
    """List the outcomes of attempts and receipts, each once."""
    return list(dict.fromkeys((*get_args(Outcome), *get_args(ReceiptOutcome))))


def glossary_page() -> str:
    """Build the page."""
    return page(
        "Glossary",
        "The terms of the code, the API, the logs and these pages, each with one meaning.",
        table(["term", "meaning"], [[f"**{term}**", meaning] for term, meaning in TERMS]),
        "## States of a delivery",
        "[States and reasons](states.md) has the transitions.",
        table(["state", "meaning"], [[code(state), text] for state, text in states.MEANING.items()]),
        "## Reasons of a skipped delivery",
        table(["reason", "meaning"], [[code(reason), text] for reason, text in reasons.MEANING.items()]),
        "## Outcomes of an attempt or a receipt",
        table(["outcome", "meaning"], [[code(each.__name__), _summary(each)] for each in outcomes()]),
    )


def _summary(outcome: type[Any]) -> str:
    """Return the first line of an outcome's docstring."""
    return (getdoc(outcome) or "").splitlines()[0]
