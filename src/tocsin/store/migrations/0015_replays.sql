-- Replays of dead letters: what to replay, how fast, and how far each one is
-- depends: 0015_dead_letter_index

-- migrate: apply

-- `position` is the last delivery that was looked at, `through` the last one to look at. Each batch moves the
-- position in its own transaction, so a delivery is replayed once, whatever happens to the worker.
create table replays (
    id uuid primary key,
    idempotency_key text,
    filter jsonb not null,
    rate integer not null,
    force boolean not null,
    state text not null default 'running',
    created_by text not null,
    created_at timestamptz not null default now(),
    matched bigint not null,
    matched_or_more boolean not null,
    replayed bigint not null default 0,
    left_out jsonb not null default '{}',
    position uuid not null default '00000000-0000-0000-0000-000000000000',
    through uuid not null,
    next_at timestamptz not null default now(),
    finished_at timestamptz,
    stopped_by text,
    constraint replays_one_per_key unique (idempotency_key),
    constraint replays_known_state check (state in ('running', 'finished', 'stopped'))
) with (fillfactor = 50);

create index replays_running on replays (next_at) where state = 'running';

-- migrate: rollback

drop table replays;
