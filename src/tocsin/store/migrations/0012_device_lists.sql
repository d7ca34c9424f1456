-- The devices and endpoints of a person, in the order in which they are listed
-- depends: 0008_lane_indexes
-- transaction: false

-- migrate: apply

create index concurrently if not exists devices_of_user
on devices (user_id, retired_at desc nulls first, last_seen_at desc, id desc);

-- migrate: rollback

drop index concurrently if exists devices_of_user;
