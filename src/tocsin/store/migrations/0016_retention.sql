-- Retention and erasure: what was pruned of a notification, who is being erased
-- depends: 0013_processes

-- migrate: apply

-- When its deliveries and its content were pruned. The row keeps its idempotency key, which the unique
-- constraint checks, until that may be used again.
alter table notifications add column pruned_at timestamptz;

-- A pass deletes a small share of a large table: without these, its dead rows would wait for a fifth of it.
alter table notifications set (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 100000
);
alter table attempts set (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 100000
);

-- An erasure keeps the id and the address of the person until it is finished, so that it can be continued.
-- After that only the hash is left, by which one can check that a given person was erased.
create table erasures (
    id uuid primary key,
    user_id text,
    email text,
    user_hash bytea not null,
    requested_at timestamptz not null,
    finished_at timestamptz,
    constraint erasures_finished_without_person check (
        (finished_at is null) = (user_id is not null) and (finished_at is null or email is null)
    )
);

create unique index erasures_one_unfinished on erasures (user_id) where finished_at is null;

-- What an address is suppressed by: itself, or its hash once its owner was erased.
create function suppression_keys(address text) returns text[]
language sql stable parallel safe
as $$
    select array[lower(address), 'sha256:' || encode(sha256(convert_to(lower(address), 'UTF8')), 'hex')]
$$;

-- migrate: rollback

drop function suppression_keys(text);
drop table erasures;

alter table attempts reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
alter table notifications reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
alter table notifications drop column pruned_at;
