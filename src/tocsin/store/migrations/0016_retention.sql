-- Retention: what was pruned of a notification whose idempotency key is still kept
-- depends: 0013_processes

-- migrate: apply

-- When its deliveries and its content were pruned. The row keeps its idempotency key, which the unique
-- constraint checks, until that may be used again.
alter table notifications add column pruned_at timestamptz;

-- A pass deletes a small share of a large table: without these, its dead rows would wait for a fifth of it.
alter table notifications set (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 100000
);
alter table attempts set (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 100000
);

-- migrate: rollback

alter table attempts reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
alter table notifications reset (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
alter table notifications drop column pruned_at;
