create table comments (
    id bigint generated always as identity primary key,
    work_item text not null,
    author text not null,
    words text not null,
    created_at timestamptz not null default now()
);

-- What happened, written in the transaction in which it happened; Tocsin publishes it.
create table outbox_events (
    id bigint generated always as identity primary key,
    aggregate text not null,
    aggregate_id text not null,
    event_type text not null,
    payload jsonb not null,
    created_at timestamptz not null default now(),
    published_at timestamptz,
    failed_attempts integer not null default 0,
    next_retry_at timestamptz,
    last_error text
);

create index outbox_events_pending on outbox_events (id) where published_at is null;
create index outbox_events_retries on outbox_events (next_retry_at) where published_at is null;
