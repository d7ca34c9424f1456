-- Deliveries dispatched alone after a lost lease
-- depends: 0008_lane_indexes

-- migrate: apply

-- Whether the lease is that of a delivery dispatched alone: only the loss of such a lease spends an attempt.
alter table deliveries add column if not exists alone boolean not null default false;

-- migrate: rollback

alter table deliveries drop column if exists alone;
