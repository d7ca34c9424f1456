-- Indexes of lanes and ordering groups, built while the table is in use
-- depends: 0007_lanes
-- transaction: false

-- migrate: apply

create index concurrently if not exists deliveries_due_by_lane on deliveries (lane, due_at, id)
where state in ('scheduled', 'pending', 'retrying');

drop index concurrently if exists deliveries_due;

create index concurrently if not exists deliveries_in_order on deliveries (ordering_key, accept_order)
where ordering_key is not null and state in ('scheduled', 'pending', 'retrying');

drop index concurrently if exists deliveries_ordered;

create index concurrently if not exists deliveries_collapsible on deliveries (collapse_key, accept_order)
where collapse_key is not null and state in ('scheduled', 'pending', 'retrying');

drop index concurrently if exists deliveries_collapsing;

create index concurrently if not exists deliveries_carrying on deliveries (digest_id, id)
where notification_id is null;

-- migrate: rollback

drop index concurrently if exists deliveries_carrying;

create index concurrently if not exists deliveries_due on deliveries (channel, due_at, id)
where state in ('scheduled', 'pending', 'retrying');

drop index concurrently if exists deliveries_due_by_lane;

create index concurrently if not exists deliveries_ordered on deliveries (ordering_key, notification_id)
where ordering_key is not null and state in ('scheduled', 'pending', 'retrying');

drop index concurrently if exists deliveries_in_order;

create index concurrently if not exists deliveries_collapsing on deliveries (collapse_key, notification_id)
where collapse_key is not null and state in ('scheduled', 'pending', 'retrying');

drop index concurrently if exists deliveries_collapsible;
