-- The way of a notification: intents, deliveries, attempts, devices, users, keys
-- depends:

-- migrate: apply

create table notifications (
    id uuid primary key,
    producer text not null,
    idempotency_key text not null,
    fingerprint bytea not null,
    type text not null,
    version integer not null,
    audience jsonb not null,
    payload jsonb not null,
    collapse_key text,
    request_id text,
    trace_id text,
    occurred_at timestamptz,
    send_at timestamptz,
    expires_at timestamptz,
    accepted_at timestamptz not null,
    constraint notifications_accepted_once unique (producer, idempotency_key)
);

-- A claim only sets the lease, which no index covers, so it stays on its page
-- (a HOT update) as long as the page has room for a second version of each row: hence the
-- fill factor.
-- Vacuum runs by count, not by share, so that the head of the due index stays
-- short however large the table grows.
create table deliveries (
    id uuid primary key,
    notification_id uuid not null references notifications (id) on delete cascade,
    channel text not null,
    user_id text,
    address text,
    device_id uuid,
    state text not null,
    reason text,
    attempts smallint not null default 0,
    due_at timestamptz not null,
    lease uuid,
    leased_until timestamptz,
    provider text,
    provider_message_id text,
    last_error_code text,
    last_error text,
    created_at timestamptz not null,
    settled_at timestamptz,
    constraint deliveries_known_state check (
        state in (
            'scheduled', 'pending', 'retrying', 'sent', 'delivered', 'rejected',
            'gone', 'dead', 'skipped', 'cancelled', 'expired'
        )
    ),
    constraint deliveries_skipped_with_reason check (state <> 'skipped' or reason is not null)
) with (
    fillfactor = 45,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 20000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 200000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 100000,
    autovacuum_vacuum_cost_delay = 0
);

create index deliveries_due on deliveries (channel, due_at, id)
where state in ('scheduled', 'pending', 'retrying');

create index deliveries_by_notification on deliveries (notification_id);

create index deliveries_failed on deliveries (settled_at)
where state in ('dead', 'rejected');

create table attempts (
    id bigint generated always as identity primary key,
    delivery_id uuid not null references deliveries (id) on delete cascade,
    outcome text not null,
    code text not null,
    detail text not null,
    at timestamptz not null
);

create index attempts_by_delivery on attempts (delivery_id);

create table devices (
    id uuid primary key,
    user_id text not null,
    provider text not null,
    platform text not null,
    token text not null,
    token_hash bytea not null,
    locale text,
    timezone text,
    app_version text,
    device_model text,
    push_enabled boolean not null default true,
    notification_count integer not null default 0,
    last_sent_at timestamptz,
    registered_at timestamptz not null,
    last_seen_at timestamptz not null,
    retired_at timestamptz,
    retired_reason text,
    constraint devices_one_per_token unique (token_hash),
    constraint devices_retired_with_reason check ((retired_at is null) = (retired_reason is null))
) with (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.02);

create index devices_active on devices (user_id) where retired_at is null;

create table registration_rates (
    user_id text primary key,
    window_started_at timestamptz not null,
    registrations integer not null
);

create table users (
    user_id text primary key,
    email text,
    locale text,
    timezone text,
    gmt_offset_seconds integer,
    updated_at timestamptz not null
);

create table api_keys (
    id uuid primary key,
    producer text not null,
    role text not null,
    key_hash bytea not null,
    hint text not null,
    created_at timestamptz not null,
    last_used_at timestamptz,
    revoked_at timestamptz,
    constraint api_keys_one_per_hash unique (key_hash),
    constraint api_keys_known_role check (role in ('producer', 'operator', 'viewer', 'admin'))
);

create table refused_intents (
    id uuid primary key,
    producer text not null,
    source text not null,
    code text not null,
    type text,
    idempotency_key text,
    faults jsonb not null,
    content text not null,
    refused_at timestamptz not null
);

create index refused_intents_by_time on refused_intents (refused_at);

create function uuid7() returns uuid
language sql volatile parallel safe
as $$
    select encode(
        set_byte(
            overlay(
                uuid_send(gen_random_uuid())
                placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
                from 1 for 6
            ),
            6,
            112 | (get_byte(uuid_send(gen_random_uuid()), 0) & 15)
        ),
        'hex'
    )::uuid
$$;

-- migrate: rollback

drop function uuid7();
drop table refused_intents;
drop table api_keys;
drop table users;
drop table registration_rates;
drop table devices;
drop table attempts;
drop table deliveries;
drop table notifications;
