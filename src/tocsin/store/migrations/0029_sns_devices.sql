-- Devices of Amazon SNS, and endpoints that are to be deleted there
-- depends: 0023_sender_keys

-- migrate: apply

-- The token of a device of SNS is the ARN of its endpoint. SNS has the token of the app; here is only its hash.
alter table devices add column if not exists push_token_hash bytea;

-- Endpoints of devices that were unregistered or erased, until SNS has deleted them. `endpoint` is the token of the
-- device `device_id`, stored as it was there. One worker at a time deletes it, no sooner than `due_at`.
create table if not exists endpoint_deletions (
    endpoint_hash bytea primary key,
    device_id uuid not null,
    endpoint text not null,
    push_token_hash bytea,
    requested_at timestamptz not null,
    due_at timestamptz not null,
    leased_until timestamptz,
    failures integer not null default 0
);

create index if not exists endpoint_deletions_due on endpoint_deletions (due_at);

create index if not exists endpoint_deletions_by_push_token on endpoint_deletions (push_token_hash);

-- migrate: rollback

drop table if exists endpoint_deletions;

alter table devices drop column if exists push_token_hash;
