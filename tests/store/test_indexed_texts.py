"""What is indexed is bounded: a value beyond Postgres's limit would fail the statement of a whole batch."""

from collections import defaultdict

from tocsin.store.pool import Pool

LARGEST_ENTRY = 2_704
"""Bytes that an entry of a B-tree may have."""

CHARACTER = 4
"""The most bytes of a character in UTF-8."""

USER_ID = 128 * CHARACTER
ADDRESS = 254 * CHARACTER
PROVIDER = 64 * CHARACTER
CODE = 100 * CHARACTER
TYPE = 100
ORG_ID = 128 * CHARACTER
SLOT = len("webhook:email:") + ADDRESS
"""A channel and a recipient; those of a topic or a condition have at most 1,000 bytes."""

LONGEST = {
    "activity_counts.event": 16,
    "alarms.code": CODE,
    "alarms.provider": PROVIDER,
    "audit.subject": 1_200,
    "circuits.name": PROVIDER + 1 + 300,
    "deliveries.address": ADDRESS,
    "deliveries.collapse_key": SLOT + 1 + 64 + 1 + TYPE,
    "deliveries.held_by": len("host:") + PROVIDER + 1 + 300,
    "deliveries.lane": PROVIDER,
    "deliveries.last_error_code": CODE,
    "deliveries.ordering_key": SLOT + 1 + TYPE,
    "deliveries.reason": 64,
    "deliveries.state": 16,
    "deliveries.unknown_type": TYPE + len("@10000"),
    "deliveries.user_id": USER_ID,
    "devices.user_id": USER_ID,
    "digests.key": SLOT + 1 + TYPE + len("@10000:") + 64,
    "erasures.user_id": USER_ID,
    "inbox_items.user_id": USER_ID,
    "kept_secrets.name": TYPE,
    "latency_counts.measure": 16,
    "limit_counters.key": len("category:") + 64 + 1 + USER_ID,
    "notifications.external_id": 100,  # an id of SQS or SNS; one of a stream is shorter
    "notifications.idempotency_key": 200 * CHARACTER,
    "notifications.org_id": ORG_ID,
    "notifications.producer": 100 * CHARACTER,
    "notifications.type": TYPE,
    "preferences.user_id": USER_ID,
    "progress.name": TYPE,
    "provider_counts.code": CODE,
    "provider_counts.outcome": 16,
    "provider_counts.provider": PROVIDER,
    "publications.outbox": 40,
    "receipt_counts.channel": 16,
    "receipt_counts.event": 16,
    "receipt_counts.type": TYPE,
    "refused_intents.message_id": 100,
    "refused_intents.org_id": ORG_ID,
    "refused_intents.producer": 100 * CHARACTER,
    "registration_rates.user_id": USER_ID,
    "replays.idempotency_key": 200 * CHARACTER,
    "schema_migrations.id": 100,
    "segment_members.user_id": USER_ID,
    "segments.name": 64,
    "segments.org_id": ORG_ID,
    "source_lags.kind": 16,
    "source_lags.name": 40,
    "stream_offsets.name": 40,
    "stream_offsets.stream": 512 * CHARACTER,
    "suppressed_addresses.address": ADDRESS,
    "tickets.provider": PROVIDER,
    "toggle_changes.name": len("type:") + TYPE + len(":webhook"),
    "toggles.name": len("type:") + TYPE + len(":webhook"),
    # Its index has the address besides.
    "users.org_id": ORG_ID + ADDRESS,
    "users.user_id": USER_ID,
}
"""The most bytes that the API, an outbox, a periodic producer, a setting or a provider gets into a column."""

# Other columns of an index are of fixed size.
REST = 64

INDEXED = """
select indexes.relname as index, tables.relname as table, columns.attname as column
from pg_index
join pg_class as indexes on indexes.oid = indexrelid
join pg_class as tables on tables.oid = indrelid
join pg_attribute as columns on columns.attrelid = tables.oid and columns.attnum = any(indkey)
where tables.relnamespace = current_schema()::regnamespace
    and columns.atttypid in ('text'::regtype, 'varchar'::regtype)
    and tables.relname not like '\\_%'
"""


async def test_every_indexed_text_fits_into_its_index(pool: Pool) -> None:
    sizes: defaultdict[str, int] = defaultdict(lambda: REST)
    columns = set()
    for row in await pool.fetch(INDEXED):
        column = f"{row['table']}.{row['column']}"
        columns.add(column)
        sizes[row["index"]] += LONGEST.get(column, LARGEST_ENTRY)

    assert {index: size for index, size in sizes.items() if size > LARGEST_ENTRY} == {}
    assert columns == LONGEST.keys()
