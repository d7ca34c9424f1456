-- Erasure: who is being erased, and addresses that stay suppressed without being known
-- depends: 0016_retention

-- migrate: apply

-- An erasure keeps the id and the address of the person until it is finished, so that it can be continued.
-- After that only the hash is left, by which one can check that a given person was erased.
create table if not exists erasures (
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

create unique index if not exists erasures_one_unfinished on erasures (user_id) where finished_at is null;

-- What an address is suppressed by: itself, or its hash once its owner was erased.
create or replace function suppression_keys(address text) returns text[]
language sql stable parallel safe
as $$
    select array[lower(address), 'sha256:' || encode(sha256(convert_to(lower(address), 'UTF8')), 'hex')]
$$;

-- migrate: rollback

drop function if exists suppression_keys(text);
drop table if exists erasures;
