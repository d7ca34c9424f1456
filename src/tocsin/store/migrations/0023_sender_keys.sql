-- Rotation of the key of Web Push: a subscription can only be sent to with the key that it was made with
-- depends: 0022_key_rotation

-- migrate: apply

-- The id of the key that a browser subscribed with; null where only one key had ever been in use.
alter table devices add column if not exists sender_key text;

-- migrate: rollback

alter table devices drop column if exists sender_key;
