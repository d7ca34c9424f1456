-- Sessions of the dashboard, and counts of what was accepted and skipped
-- depends: 0041_erasure_organisations

-- migrate: apply

-- A session is bound to the API key that signed in: it ends with the key. Its id is known to the browser alone.
create table dashboard_sessions (
    id_hash bytea primary key,
    key_id uuid not null references api_keys (id) on delete cascade,
    created_at timestamptz not null,
    expires_at timestamptz not null
);

create index dashboard_sessions_of_key on dashboard_sessions (key_id);
create index dashboard_sessions_by_end on dashboard_sessions (expires_at);

-- What attempts do not count: `accepted` notifications and `skipped` deliveries, by minute.
create table activity_counts (
    minute timestamptz not null,
    event text not null,
    count bigint not null,
    constraint activity_counts_pkey primary key (minute, event),
    constraint activity_counts_known_event check (event in ('accepted', 'skipped'))
);

-- migrate: rollback

drop table activity_counts;
drop table dashboard_sessions;
