-- The index of dead letters, in the order in which they are grouped, exported and replayed
-- depends: 0015_audit
-- transaction: false

-- migrate: apply

-- Only a delivery that fails for good or is replayed writes to it. It takes the place of one that nothing read.
create index concurrently if not exists deliveries_dead_letters on deliveries (id)
where state in ('dead', 'rejected', 'gone') and notification_id is not null;

drop index concurrently if exists deliveries_failed;

-- migrate: rollback

create index concurrently if not exists deliveries_failed on deliveries (settled_at)
where state in ('dead', 'rejected');

drop index concurrently if exists deliveries_dead_letters;
