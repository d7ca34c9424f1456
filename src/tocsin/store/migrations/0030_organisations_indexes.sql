-- What an organisation has
-- depends: 0030_organisations
-- transaction: false

-- migrate: apply

-- Without organisations, nothing is written to any of these.
-- Audiences by attributes within an organisation, and the mail addresses of its people.
create index concurrently if not exists users_of_org on users (org_id, lower(email))
where org_id is not null;

-- Search, newest first.
create index concurrently if not exists notifications_of_org on notifications (org_id, id)
where org_id is not null;

create index concurrently if not exists refused_intents_of_org on refused_intents (org_id, id)
where org_id is not null;

-- migrate: rollback

drop index concurrently if exists refused_intents_of_org;

drop index concurrently if exists notifications_of_org;

drop index concurrently if exists users_of_org;
