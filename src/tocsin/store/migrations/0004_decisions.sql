-- Decisions about each person: holds, order, limits, digests, cancelling
-- depends: 0001_foundation

-- migrate: apply

alter table notifications
    add column send_at_local timestamp,
    add column cancelled_at timestamptz;

alter table deliveries
    add column ordering_key text,
    add column collapse_key text,
    add column digest_key text,
    add column digest_id uuid,
    add column held_by text,
    add column reserved boolean not null default false,
    add column decisions jsonb;

-- Each covers only what waits and asks for it, so that other deliveries do not pay for it.
create index deliveries_ordered on deliveries (ordering_key, notification_id)
where ordering_key is not null and state in ('scheduled', 'pending', 'retrying');

create index deliveries_held on deliveries (held_by, id)
where held_by is not null and state in ('scheduled', 'pending', 'retrying');

create index deliveries_collapsing on deliveries (collapse_key, notification_id)
where collapse_key is not null and state in ('scheduled', 'pending', 'retrying');

create index deliveries_digested on deliveries (digest_key, id)
where digest_key is not null and state in ('scheduled', 'pending', 'retrying');

create index deliveries_of_digest on deliveries (digest_id, id) where digest_id is not null;

create table limit_counters (
    key text not null,
    window_ends_at timestamptz not null,
    used integer not null,
    primary key (key, window_ends_at)
);

create index limit_counters_by_end on limit_counters (window_ends_at);

-- migrate: rollback

drop table limit_counters;
alter table deliveries
    drop column ordering_key,
    drop column collapse_key,
    drop column digest_key,
    drop column digest_id,
    drop column held_by,
    drop column reserved,
    drop column decisions;
alter table notifications
    drop column send_at_local,
    drop column cancelled_at;
