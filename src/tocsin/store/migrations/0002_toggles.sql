-- Toggles: what is switched off, and who changed what
-- depends: 0001_foundation

-- migrate: apply

-- A toggle without a row is on.
create table toggles (
    name text primary key,
    enabled boolean not null,
    updated_at timestamptz not null,
    updated_by text not null
);

create table toggle_changes (
    id bigint generated always as identity primary key,
    name text not null,
    was_enabled boolean not null,
    enabled boolean not null,
    changed_by text not null,
    reason text,
    changed_at timestamptz not null
);

create index toggle_changes_by_name on toggle_changes (name, id);

-- migrate: rollback

drop table toggle_changes;
drop table toggles;
