-- Indexes of search, each in the order of its answers: by notification, newest first
-- depends: 0008_lane_indexes
-- transaction: false

-- migrate: apply

-- What one person got: search, the overview of a person, erasure and export.
create index concurrently if not exists deliveries_of_user on deliveries (user_id, notification_id)
where user_id is not null;

-- Neither accepting nor sending what is sent at once writes to the following three.
create index concurrently if not exists deliveries_unusual on deliveries (state, notification_id)
where state in (
    'scheduled', 'retrying', 'rejected', 'gone', 'dead', 'skipped', 'cancelled', 'expired'
);

create index concurrently if not exists deliveries_by_reason on deliveries (reason, notification_id)
where reason is not null;

create index concurrently if not exists deliveries_by_code on deliveries (last_error_code, notification_id)
where last_error_code is not null;

-- Notifications of a type or a producer, walked in their order without reading the notifications themselves: one index
-- to write when one is accepted, where an index by type and one by producer would be two.
create index concurrently if not exists notifications_in_order on notifications (id) include (type, producer);

-- migrate: rollback

drop index concurrently if exists notifications_in_order;
drop index concurrently if exists deliveries_by_code;
drop index concurrently if exists deliveries_by_reason;
drop index concurrently if exists deliveries_unusual;
drop index concurrently if exists deliveries_of_user;
