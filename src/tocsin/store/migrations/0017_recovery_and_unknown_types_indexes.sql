-- Deliveries of unknown types, and those of one person within a notification
-- depends: 0017_recovery_and_unknown_types
-- transaction: false

-- migrate: apply

-- Almost always empty.
create index concurrently if not exists deliveries_of_unknown_type on deliveries (unknown_type, id)
where unknown_type is not null and state in ('scheduled', 'pending', 'retrying');

-- In place of the index by notification alone: with many recipients, finding the other deliveries of one of them
-- read those of all.
create index concurrently if not exists deliveries_by_notification_and_user on deliveries (notification_id, user_id);

drop index concurrently if exists deliveries_by_notification;

-- migrate: rollback

create index concurrently if not exists deliveries_by_notification on deliveries (notification_id);

drop index concurrently if exists deliveries_by_notification_and_user;

drop index concurrently if exists deliveries_of_unknown_type;
