"""The retention of every table: rows that go by their time, and the tables that are kept."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

import msgspec

from tocsin.domain.ids import first_id_at
from tocsin.domain.retention import Cutoffs
from tocsin.store.pool import Connection

CIRCUITS_KEPT = timedelta(days=1)


class TimeRule(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a table that are pruned once `column`, which an index covers, is long past.

    The column is a time, or the primary key `id` if that is a UUIDv7.
    """

    table: str
    column: str
    kept: timedelta | Literal["content", "emptied", "refused", "inbox", "audit"]
    condition: str = "true"

    @property
    def delete(self) -> str:
        """The statement that deletes at most $2 rows from before $1, oldest first."""
        return f"""
delete from {self.table}
where ctid = any(array(
    select ctid
    from {self.table}
    where {self.column} < $1 and {self.condition}
    order by {self.column}
    limit $2
    for update skip locked
))
"""  # noqa: S608 - made of constants

    @property
    def count(self) -> str:
        """The statement that counts the rows from before $1."""
        return f"select count(*) from {self.table} where {self.column} < $1 and {self.condition}"  # noqa: S608 - made of constants

    def cutoff(self, cutoffs: Cutoffs) -> datetime | UUID | None:
        """Return the value of the column before which rows go; None keeps all of them."""
        match self.kept:
            case "content":
                before = cutoffs.content
            case "emptied":
                before = cutoffs.emptied
            case "refused":
                before = cutoffs.refused
            case "inbox":
                before = cutoffs.inbox
            case "audit":
                before = cutoffs.audit
            case timedelta() as kept:
                before = cutoffs.now - kept
        return first_id_at(before) if before and self.column == "id" else before


RULES = (
    # Those that lost their content, and were left for their idempotency key alone.
    TimeRule(table="notifications", column="pruned_at", kept="emptied"),
    TimeRule(table="refused_intents", column="refused_at", kept="refused"),
    TimeRule(table="receipts", column="received_at", kept="content"),
    TimeRule(table="receipt_counts", column="day", kept="audit"),
    TimeRule(table="inbox_items", column="id", kept="inbox"),
    TimeRule(table="limit_counters", column="window_ends_at", kept=timedelta(days=2)),
    TimeRule(table="registration_rates", column="window_started_at", kept=timedelta(days=1)),
    TimeRule(table="provider_counts", column="minute", kept=timedelta(days=7)),
    TimeRule(table="activity_counts", column="minute", kept=timedelta(days=7)),
    # The index begins with the measure.
    TimeRule(
        table="latency_counts",
        column="minute",
        kept=timedelta(days=7),
        condition="measure in ('accepted', 'due')",
    ),
    TimeRule(table="dashboard_sessions", column="expires_at", kept=timedelta()),
    # A row of an outbox is retried every day; one that was deleted there is not, and is never taken again.
    TimeRule(table="publications", column="updated_at", kept=timedelta(days=30)),
    # Of a source that is not in the settings any more.
    TimeRule(table="source_lags", column="seen_at", kept=timedelta(days=30)),
    TimeRule(table="audit", column="id", kept="audit"),
    TimeRule(table="replays", column="id", kept="audit", condition="state <> 'running'"),
    TimeRule(table="broadcasts", column="finished_at", kept="audit", condition="state <> 'expanding'"),
    TimeRule(table="erasures", column="id", kept="audit", condition="finished_at is not null"),
    # One that stands is not pruned however old it is.
    TimeRule(table="alarms", column="raised_at", kept="audit", condition="cleared_at < $1"),
    # The last change of each toggle is shown as the reason of its state.
    TimeRule(
        table="toggle_changes",
        column="changed_at",
        kept="audit",
        condition="""(
        select true
        from toggle_changes as later
        where later.name = toggle_changes.name and later.id > toggle_changes.id
        limit 1
    ) is not null""",
    ),
)

PRUNED_OTHERWISE: Mapping[str, str] = {
    "notifications": "with their deliveries",
    "deliveries": "when all of their notification, or their digest, were settled `retention.days` ago",
    "attempts": "with their delivery",
    "tickets": "with their delivery; usually much earlier, when the receipt came",
    "digests": "when neither they nor their members wait, `retention.days` after the last was settled",
    "circuits": "a day after their last use",
    "processes": "a day after the process was last seen",
    "segments": "ten minutes after they were replaced or deleted, unless a broadcast reads them",
    "segment_members": "with their segment; erasure deletes those of a person",
    "endpoint_deletions": "when Amazon SNS has deleted the endpoint",
}

KEPT: Mapping[str, str] = {
    "devices": "retired devices answer late registrations; erasure deletes them",
    "users": "the directory is the application's; erasure deletes a row",
    "preferences": "a choice holds until the person changes it; erasure deletes them",
    "suppressed_addresses": "no mail may ever go to a dead or unsubscribed address again",
    "toggles": "one row for each toggle",
    "progress": "one row for each periodic producer",
    "api_keys": "one row for each key, revoked ones included: old records name them",
    "kept_secrets": "one row for each secret",
    "stream_offsets": "one row for each stream",
    "decision_sets": "one row for what many deliveries have in common; a worker makes at most 1,000",
}


async def prune_by_time(connection: Connection, rule: TimeRule, before: datetime | UUID, limit: int) -> int:
    """Delete the oldest rows of a rule, at most `limit`; return how many."""
    status: str = await connection.execute(rule.delete, before, limit)
    return int(status.rpartition(" ")[2])


async def count_by_time(connection: Connection, rule: TimeRule, before: datetime | UUID) -> int:
    """Count the rows of a rule that would be deleted."""
    count: int = await connection.fetchval(rule.count, before)
    return count
