-- Erasures for one organisation
-- depends: 0025_erasure_leases

-- migrate: apply

-- What was sent for others, and for none, is left by an erasure that somebody bound to an organisation asked for. Null means all.
alter table erasures add column if not exists org_id text;

-- migrate: rollback

alter table erasures drop column if exists org_id;
