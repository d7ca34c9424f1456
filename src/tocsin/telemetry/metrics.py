"""Every metric of Tocsin, and whether they are counted.

Labels come from closed sets or from the catalog and the settings: types, channels, providers, lanes, states,
reasons and codes. No label has a person, an address, a host or a token. What a provider's answers decide,
such as codes, is bounded by the most series of a metric.
"""

from typing import Final

from tocsin.telemetry.instruments import Counter, Gauge, Histogram, Instrument

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600, 21_600, 86_400)
CALL_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 4_000)


class Switch:
    """Whether this process counts: only while its metrics are exported somewhere."""

    on = False


switch: Final = Switch()

accepted = Counter(
    "tocsin_notifications_accepted_total",
    "Notifications accepted, by type and where the intent came from.",
    ("type", "source"),
)
duplicates = Counter(
    "tocsin_intents_duplicate_total",
    "Intents answered with the notification that has their idempotency key already.",
    ("type", "source"),
)
refused = Counter(
    "tocsin_intents_refused_total",
    "Intents refused, by code; the type is `other` where the intent has none that the catalog declares.",
    ("type", "source", "code"),
)
planned = Counter(
    "tocsin_deliveries_planned_total",
    "Deliveries planned when their notification was accepted, those skipped at once included.",
    ("type", "channel"),
)
settled = Counter(
    "tocsin_deliveries_settled_total",
    "Deliveries settled, by state: sent, rejected, gone, dead, skipped, cancelled or expired; skipped ones "
    "have a reason. Those that expire in a lane that is not claimed for have no type and channel. Those that "
    "producers cancel or newer messages replace are not counted.",
    ("type", "channel", "provider", "state", "reason"),
)
attempts_failed = Counter(
    "tocsin_attempts_failed_total",
    "Attempts that failed, by outcome (retry, defer, rejected, gone), code, and the state of the delivery "
    "after it: retrying, dead, rejected or gone.",
    ("channel", "provider", "outcome", "code", "state"),
    most_series=500,
)
accepted_to_sent = Histogram(
    "tocsin_delivery_accepted_to_sent_seconds",
    "Time from acceptance until the provider took the message.",
    ("channel", "provider"),
    bounds=SECONDS,
)
due_to_sent = Histogram(
    "tocsin_delivery_due_to_sent_seconds",
    "Time from when a delivery was due, for the first time or again, until the provider took the message.",
    ("channel", "provider"),
    bounds=SECONDS,
)
provider_call = Histogram(
    "tocsin_provider_call_seconds",
    "Duration of calls to providers; some take a batch of messages.",
    ("provider",),
    bounds=CALL_SECONDS,
)
in_flight = Gauge(
    "tocsin_provider_messages_in_flight", "Messages that wait for their provider's answer.", ("provider",)
)
receipts = Counter(
    "tocsin_receipts_total",
    "Receipts of providers: delivered, refused, not_yet, or missing when they are not kept any longer.",
    ("provider", "result"),
)
claim_size = Histogram(
    "tocsin_claim_deliveries", "Deliveries taken by one claim, if it took any.", ("lane",), bounds=SIZES
)
settle_size = Histogram("tocsin_settle_deliveries", "Settlements written together.", bounds=SIZES)
settle_duration = Histogram(
    "tocsin_settle_seconds", "Duration of writing settlements together.", bounds=CALL_SECONDS
)
settlements_waiting = Gauge("tocsin_settlements_waiting", "Settlements that wait to be written.")
leases_lost = Counter(
    "tocsin_leases_lost_total", "Settlements that were not written because another worker had the lease."
)
rate_slots = Counter(
    "tocsin_rate_limit_slots_total",
    "Messages that got a slot within the rate limit of their provider.",
    ("provider",),
)
rate_waited = Counter(
    "tocsin_rate_limit_waited_seconds_total", "Time spent waiting for slots of a rate limit.", ("provider",)
)
rate_limit = Gauge(
    "tocsin_rate_limit_per_second",
    "The rate limit of a provider in messages per second, for all workers together.",
    ("provider",),
    largest=True,
)
http_requests = Histogram(
    "tocsin_http_request_seconds",
    "Duration of requests to the API, by route and class of status, such as `2xx`; probes are left out.",
    ("method", "path", "status"),
    bounds=CALL_SECONDS,
)
relayed = Counter(
    "tocsin_relay_rows_total", "Rows of outboxes relayed: published or failed.", ("outbox", "result")
)
relay_lag = Gauge(
    "tocsin_relay_lag_seconds",
    "Age of the oldest row of an outbox that waits to be relayed; 0 if none does. It grows while the outbox "
    "cannot be read.",
    ("outbox",),
    largest=True,
)
topic_messages = Counter(
    "tocsin_topic_messages_total",
    "Messages to topics: published, refused by SNS, or held behind a refused one of the same recipient.",
    ("outbox", "result"),
)
topic_calls = Histogram(
    "tocsin_topic_publish_seconds",
    "Duration of calls that publish up to ten messages to a topic.",
    ("outbox",),
    bounds=CALL_SECONDS,
)
personal_data = Counter(
    "tocsin_personal_data_suspected_total",
    "Rows published to topics that look as if they held personal data, by kind: card, email, iban, phone or "
    "national_id.",
    ("outbox", "kind"),
)
stream_entries = Counter(
    "tocsin_stream_entries_total", "Entries of streams that were accepted or refused.", ("stream",)
)
lookups = Counter(
    "tocsin_directory_lookups_total",
    "People looked up in a directory of another service: found, missing or failed.",
    ("result",),
)
stream_lag = Gauge(
    "tocsin_stream_lag_seconds",
    "Age of the oldest entry of a stream that was neither accepted nor refused; 0 if none waits. It grows "
    "while the stream cannot be read.",
    ("stream",),
    largest=True,
)
sqs_messages = Counter(
    "tocsin_sqs_messages_total",
    "Messages of SQS queues: accepted, refused (each time that the queue hands one out) or archived.",
    ("queue", "result"),
)
sqs_reading = Gauge(
    "tocsin_sqs_reading", "Whether SQS answered when the queue was last read: 1 or 0.", ("queue",)
)
sqs_held = Gauge(
    "tocsin_sqs_messages_held",
    "Messages of a queue that were received and are neither deleted nor given back.",
    ("queue",),
)
archive_files = Counter("tocsin_archive_files_total", "Files that the archive has written.")
archive_bytes = Counter("tocsin_archive_bytes_total", "Compressed bytes of these files.")
archive_writing = Gauge(
    "tocsin_archive_writing", "Whether the destination of the archive took the last file: 1 or 0."
)
gateway_sessions = Gauge(
    "tocsin_gateway_sessions",
    "Open sessions of clients, by transport: sse, websocket, signalr_sse or signalr_websocket.",
    ("transport",),
)
gateway_sessions_ended = Counter(
    "tocsin_gateway_sessions_ended_total",
    "Sessions of clients that ended, by reason: closed_by_client, token_expired, slow, restart, "
    "message_received, protocol_error or client_timeout.",
    ("transport", "reason"),
)
gateway_sessions_refused = Counter(
    "tocsin_gateway_sessions_refused_total",
    "Sessions that were refused, by the code of the problem; the transport is signalr where the client has "
    "not chosen one yet.",
    ("transport", "code"),
)
gateway_reading = Gauge(
    "tocsin_gateway_reading", "Whether the gateway could read its stream when it last tried: 1 or 0."
)
gateway_entries = Counter(
    "tocsin_gateway_entries_total",
    "Entries of the stream of client events that were read, by result: published, no_session (nobody of that "
    "user is connected here), or what was wrong with it: field_missing, not_text, not_json "
    "or too_large.",
    ("result",),
)
gateway_events_sent = Counter(
    "tocsin_gateway_events_sent_total",
    "Events sent to sessions; one goes to each session of its user.",
    ("transport",),
)
pool_connections = Gauge(
    "tocsin_pool_connections", "Connections to the database, by state: used or idle.", ("state",)
)
pool_size = Gauge("tocsin_pool_connections_max", "The most connections that the pools may open.")
processes = Gauge("tocsin_processes", "Processes of the tree that run, by kind.", ("kind",))
restarts = Counter(
    "tocsin_process_restarts_total",
    "Processes of the tree that died and were started again, by kind.",
    ("kind",),
)

database_up = Gauge("tocsin_database_up", "Whether the database answered when it was last queried: 1 or 0.")
queue_depth = Gauge(
    "tocsin_queue_deliveries",
    "Deliveries that wait in a lane, by what they wait for: due (to be sent), scheduled (for their time) or "
    "held. Counted up to 10,000 each.",
    ("lane", "waits"),
)
queue_age = Gauge(
    "tocsin_queue_oldest_seconds",
    "How long the oldest due delivery of a lane has waited since it was due; 0 if none waits.",
    ("lane",),
)
circuit_open = Gauge(
    "tocsin_circuit_open",
    "Whether the circuit breaker of a provider is open (1), half open (0.5) or closed (0).",
    ("provider",),
)
hosts_open = Gauge(
    "tocsin_host_circuits_open",
    "Hosts of webhooks or browsers whose circuit breaker is not closed, counted up to 10,000.",
    ("provider",),
)
dead_letters = Gauge(
    "tocsin_dead_letters",
    "Dead letters that are kept: dead, rejected or gone, up to 10,000 each.",
    ("state",),
)
alarms = Gauge("tocsin_alarms", "Alarms that stand until they are cleared, by code.", ("code",))
periodic_lag = Gauge(
    "tocsin_periodic_lag_seconds",
    "How long the run of a periodic producer is overdue; 0 if it is not.",
    ("producer",),
)
periodic_failures = Gauge(
    "tocsin_periodic_failures", "Runs of a periodic producer that failed in a row.", ("producer",)
)

FROM_DATABASE: Final[tuple[Gauge, ...]] = (
    database_up,
    queue_depth,
    queue_age,
    circuit_open,
    hosts_open,
    dead_letters,
    alarms,
    periodic_lag,
    periodic_failures,
)
"""Read from the database when somebody scrapes: the same from every process, so take the `max`."""

EVERY: Final[tuple[Instrument, ...]] = tuple(
    each for each in list(globals().values()) if isinstance(each, Instrument)
)
BY_NAME: Final = {each.name: each for each in EVERY}
