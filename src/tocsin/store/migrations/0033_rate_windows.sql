-- Slots of a rate limit within its window
-- depends: 0005_channels

-- migrate: apply

-- When the latest slots begin and how many messages each is for: those within one window of the rate, oldest first.
-- A worker one version older reserves slots without listing them.
alter table circuits
    add column if not exists slots_at timestamptz [],
    add column if not exists slot_sizes integer [];

-- migrate: rollback

alter table circuits
    drop column if exists slot_sizes,
    drop column if exists slots_at;
