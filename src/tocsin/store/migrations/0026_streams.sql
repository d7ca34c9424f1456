-- Offsets of the streams that intents are read from, and the ids by which their notifications are known there
-- depends: 0021_erasure_indexes

-- migrate: apply

-- One row for each stream that a name of the settings stood for. The offset moves in the transaction that accepts or refuses what lies before it; who holds
-- the lease is the only one to move it. `entries_read` counts what was ever added up to the offset, as far as
-- the server can say, so that a gap can be counted.
create table stream_offsets (
    name text not null,
    stream text not null,
    entry_id text not null default '0-0',
    entries_read bigint,
    moved_at timestamptz,
    lease uuid,
    leased_until timestamptz,
    primary key (name, stream)
) with (fillfactor = 50);

alter table notifications add column external_id text;

-- migrate: rollback

alter table notifications drop column external_id;

drop table stream_offsets;
