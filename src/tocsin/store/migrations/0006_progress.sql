-- Periodic producers: how far each one is, and who runs it
-- depends: 0005_channels

-- migrate: apply

-- `next_run_at` is a time of the schedule and only ever moves forward; `retry_at` stands beside it
-- while runs fail. A run is one lease: whoever holds another one can no longer move `last_value`.
create table progress (
    name text primary key,
    kind text not null,
    schedule text not null,
    timezone text not null,
    catch_up text not null,
    value_type text,
    last_value jsonb,
    status text not null default 'idle',
    next_run_at timestamptz not null,
    retry_at timestamptz,
    run_requested_at timestamptz,
    lease uuid,
    leased_until timestamptz,
    last_run_at timestamptz,
    last_success_at timestamptz,
    failures integer not null default 0,
    last_error text,
    note text,
    accepted bigint not null default 0,
    duplicates bigint not null default 0,
    refused bigint not null default 0,
    seen_at timestamptz not null,
    constraint progress_known_status check (status in ('idle', 'running', 'failed')),
    constraint progress_known_kind check (kind in ('python', 'scan', 'upkeep'))
) with (fillfactor = 50);

-- migrate: rollback

drop table progress;
