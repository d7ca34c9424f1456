-- Inboxes
-- depends: 0041_erasure_organisations

-- migrate: apply

-- One row for each message in a person's inbox. Who got it and what it says is written once; what the person did
-- with it are the last three times. Of the organisation of its notification, if all it tells of has the same.
create table if not exists inbox_items (
    id uuid primary key,
    user_id text not null,
    delivery_id uuid not null,
    type text not null,
    category text not null,
    title text not null,
    body text not null,
    link text,
    icon text,
    data jsonb not null,
    org_id text,
    created_at timestamptz not null,
    seen_at timestamptz,
    read_at timestamptz,
    archived_at timestamptz,
    constraint inbox_items_bounded check (
        octet_length(title) + octet_length(body) + octet_length(data::text) <= 65536
        and coalesce(length(link), 0) <= 2048 and coalesce(length(icon), 0) <= 2048
    )
);

-- However often a delivery is tried, it makes one item.
create unique index if not exists inbox_items_by_delivery on inbox_items (delivery_id);

create index if not exists inbox_items_of_user on inbox_items (user_id, id);

-- The numbers on the bell are counted in these, up to a hundred.
create index if not exists inbox_items_unread on inbox_items (user_id, id)
where read_at is null and archived_at is null;

create index if not exists inbox_items_unseen on inbox_items (user_id, id)
where seen_at is null and archived_at is null;

-- migrate: rollback

drop table if exists inbox_items;
