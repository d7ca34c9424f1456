-- The processes that run, and the catalog that each uses
-- depends: 0008_lane_indexes

-- migrate: apply

-- `reload_asked_at` is set by an operator; a process that sees it newer than `catalog_read_at` reads its catalog again.
create table processes (
    id uuid primary key,
    kind text not null,
    host text not null,
    pid integer not null,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    catalog text not null,
    catalog_fault text,
    catalog_read_at timestamptz not null default now(),
    reload_asked_at timestamptz
);

-- migrate: rollback

drop table processes;
