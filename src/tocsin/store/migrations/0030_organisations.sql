-- Organisations of people, notifications, refused intents and API keys
-- depends: 0028_command_fields

-- migrate: apply

-- A person belongs to at most one organisation. A notification has the one that its intent was for, a key the one that
-- it is bound to; null means none.
alter table users add column if not exists org_id text;

alter table notifications add column if not exists org_id text;

alter table refused_intents add column if not exists org_id text;

alter table api_keys add column if not exists org_id text;

-- migrate: rollback

alter table api_keys drop column if exists org_id;

alter table refused_intents drop column if exists org_id;

alter table notifications drop column if exists org_id;

alter table users drop column if exists org_id;
