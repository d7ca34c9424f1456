-- How far behind the readers of outboxes, streams and queues are, as they measured it last
-- depends: 0045_dashboard_sessions

-- migrate: apply

-- One row for each source of the settings, written every few seconds by whoever reads it; several readers of one source share it. All times are by the
-- clock of the database.
create table source_lags (
    kind text not null,
    name text not null,
    waiting bigint,
    waiting_or_more boolean not null,
    oldest_at timestamptz,
    measured_at timestamptz,
    progressed_at timestamptz,
    failing boolean not null,
    last_error text,
    last_error_at timestamptz,
    seen_at timestamptz not null,
    constraint source_lags_pkey primary key (kind, name),
    constraint source_lags_known_kind check (kind in ('outbox', 'stream', 'queue'))
);

create index source_lags_by_time on source_lags (seen_at);

-- migrate: rollback

drop table source_lags;
