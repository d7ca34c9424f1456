-- Recovery and unknown types, apart from what holds a delivery
-- depends: 0009_lone_dispatch

-- migrate: apply

-- A process one version older releases every second what is held by something that it does not know. It neither
-- claims nor releases a row that has no holder and is due at infinity, as one of an unknown type is.
-- `recovering`: its attempts are used up by faults of its provider. `unknown_type`: the type and version, as in
-- `comment@2`, that no worker which claimed it has had.
alter table deliveries
    add column if not exists recovering boolean not null default false,
    add column if not exists unknown_type text;

-- migrate: rollback

update deliveries
set held_by = 'type_unknown:' || unknown_type
where unknown_type is not null and held_by is null and state in ('scheduled', 'pending', 'retrying');

alter table deliveries
    drop column if exists recovering,
    drop column if exists unknown_type;
