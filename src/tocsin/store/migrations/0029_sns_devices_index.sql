-- Devices of Amazon SNS by the token of the app
-- depends: 0029_sns_devices
-- transaction: false

-- migrate: apply

create index concurrently if not exists devices_by_push_token on devices (push_token_hash)
where push_token_hash is not null;

-- migrate: rollback

drop index concurrently if exists devices_by_push_token;
