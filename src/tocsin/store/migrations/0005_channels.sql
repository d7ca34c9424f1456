-- Every way to reach a person: endpoints, mail addresses, receipts, the health of providers
-- depends: 0004_decisions

-- migrate: apply

-- A webhook endpoint is a device whose provider is `webhook`; its secret signs what is sent there.
alter table devices
    add column token_kind text not null default 'token',
    add column secret text,
    add column stale_at timestamptz,
    -- squawk-ignore constraint-missing-not-valid
    add constraint devices_known_token_kind check (token_kind in ('token', 'fid'));

create index devices_by_last_seen on devices (last_seen_at) where retired_at is null;

create index devices_fresh_by_last_seen on devices (last_seen_at) where retired_at is null and stale_at is null;

-- What is sent by this channel only if the one named here has not reached the person in time.
alter table deliveries add column fallback_for text;

create table suppressed_addresses (
    address text primary key,
    reason text not null,
    detail text not null default '',
    delivery_id uuid,
    suppressed_at timestamptz not null
);

create index suppressed_addresses_by_time on suppressed_addresses (suppressed_at);

create table kept_secrets (
    name text primary key,
    value text not null,
    created_at timestamptz not null
);

-- A message that its provider took and will say more of later.
create table tickets (
    delivery_id uuid primary key references deliveries (id) on delete cascade,
    provider text not null,
    message_id text not null,
    sent_at timestamptz not null,
    ask_at timestamptz not null,
    lease uuid,
    leased_until timestamptz
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);

create index tickets_to_ask on tickets (provider, ask_at);

-- One row for each credential, or host of a provider that has many, that was ever in trouble or is paced.
-- A circuit without a row is closed.
create table circuits (
    name text primary key,
    provider text not null,
    state text not null default 'closed',
    code text,
    detail text,
    openings integer not null default 0,
    changed_at timestamptz not null,
    retry_at timestamptz,
    probe_until timestamptz,
    free_at timestamptz,
    ramp_from timestamptz,
    constraint circuits_known_state check (state in ('closed', 'open', 'half_open'))
) with (fillfactor = 50);

create table provider_counts (
    provider text not null,
    minute timestamptz not null,
    outcome text not null,
    code text not null,
    count bigint not null,
    primary key (provider, minute, outcome, code)
) with (fillfactor = 50);

create index provider_counts_by_minute on provider_counts (minute);

create table alarms (
    id uuid primary key,
    provider text not null,
    code text not null,
    detail text not null,
    raised_at timestamptz not null,
    last_at timestamptz not null,
    count bigint not null,
    cleared_at timestamptz,
    cleared_by text
);

create unique index alarms_one_standing on alarms (provider, code) where cleared_at is null;

create index alarms_by_time on alarms (raised_at);

-- migrate: rollback

drop table alarms;
drop table provider_counts;
drop table circuits;
drop table tickets;
drop table kept_secrets;
drop table suppressed_addresses;
alter table deliveries drop column fallback_for;
drop index devices_fresh_by_last_seen;
drop index devices_by_last_seen;
alter table devices
    drop column token_kind,
    drop column secret,
    drop column stale_at;
