-- Broadcasts, and the segments that can be their audience
-- depends: 0041_erasure_organisations

-- migrate: apply

-- A row is one upload of a segment; the current one of its name is what an intent finds. A replaced or deleted one is kept
-- while a broadcast reads it.
create table segments (
    id uuid primary key,
    name text not null,
    org_id text,
    state text not null,
    members bigint not null default 0,
    updated_at timestamptz not null,
    constraint segments_known_state check (state in ('uploading', 'current', 'replaced'))
) with (fillfactor = 50);

create unique index segments_current on segments (name, org_id) nulls not distinct where state = 'current';

create index segments_dropped on segments (updated_at) where state <> 'current';

-- No foreign key: the upload locks its row of `segments` with each batch, and what it checks would cost more than it saves.
create table segment_members (
    segment_id uuid not null,
    user_id text not null,
    primary key (segment_id, user_id)
);

create index segment_members_of_user on segment_members (user_id);

-- `position` is the last person that was looked at, by user id. Each chunk moves it in the transaction that stores the
-- deliveries, so everybody is expanded once, whatever happens to the worker. `chunk_size` and `chunk_at` pace the next chunk.
create table broadcasts (
    notification_id uuid primary key,
    state text not null default 'expanding',
    segment_id uuid,
    position text not null default '',
    expanded bigint not null default 0,
    total bigint,
    chunk_size integer not null,
    chunk_at timestamptz,
    next_at timestamptz not null,
    waiting_for text,
    finished_at timestamptz,
    constraint broadcasts_known_state check (state in ('expanding', 'finished', 'cancelled', 'expired'))
) with (fillfactor = 50);

create index broadcasts_expanding on broadcasts (next_at) where state = 'expanding';

create index broadcasts_finished on broadcasts (finished_at) where state <> 'expanding';

create index broadcasts_of_segment on broadcasts (segment_id) where state = 'expanding';

-- migrate: rollback

drop table broadcasts;

drop table segment_members;

drop table segments;
