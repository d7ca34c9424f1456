-- Receipts of devices
-- depends: 0043_inbox

-- migrate: apply

-- What a person's device reported of a delivery, each event at the time of the first report.
create table if not exists receipts (
    delivery_id uuid primary key,
    received_at timestamptz not null,
    delivered_at timestamptz,
    opened_at timestamptz,
    dismissed_at timestamptz
);

create index if not exists receipts_by_time on receipts (received_at);

-- How many deliveries were sent on a day, in UTC, and how many of those were delivered, opened and dismissed.
create table if not exists receipt_counts (
    day timestamptz not null,
    type text not null,
    channel text not null,
    event text not null,
    count bigint not null,
    primary key (day, type, channel, event)
);

-- migrate: rollback

drop table if exists receipt_counts;

drop table if exists receipts;
