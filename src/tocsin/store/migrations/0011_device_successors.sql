-- The device that a replaced token belongs to since
-- depends: 0008_lane_indexes

-- migrate: apply

-- A refreshed token is written to its device's own row, which keeps its id. The old token stays in a retired row
-- that names that device, so that a late or repeated request still finds it.
alter table devices add column successor uuid;

-- migrate: rollback

alter table devices drop column successor;
