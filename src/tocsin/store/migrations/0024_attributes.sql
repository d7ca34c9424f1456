-- Custom attributes of users
-- depends: 0003_preferences

-- migrate: apply

-- A flat object of the application's own, such as {"plan": "pro"}; null for those who have none.
alter table users add column if not exists attributes jsonb;

-- migrate: rollback

alter table users drop column if exists attributes;
