-- Index of retention by the time at which notifications lost their content
-- depends: 0019_retention_indexes
-- transaction: false

-- migrate: apply

-- Notifications of which only the idempotency key is left, by the time since when. Neither accepting nor sending writes
-- to it.
create index concurrently if not exists notifications_by_pruning on notifications (pruned_at)
where pruned_at is not null;

-- migrate: rollback

drop index concurrently if exists notifications_by_pruning;
