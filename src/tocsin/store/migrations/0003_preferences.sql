-- What people want to hear of, by which channel, and at which hours
-- depends: 0001_foundation

-- migrate: apply

create table preferences (
    user_id text primary key,
    choices jsonb not null,
    updated_at timestamptz not null
);

alter table users add column allowed_window text;

-- Lays changes over choices, both {category: {channel: yes or no}}. A null takes away what it stands
-- for; a category without choices goes too. What is not of that form and not changed stays as it was.
create function merged_choices(stored jsonb, changes jsonb) returns jsonb
language sql immutable parallel safe
as $$
    select coalesce(jsonb_object_agg(category, choices) filter (where choices <> '{}'), '{}')
    from (
        select
            category,
            case
                when not changes ? category then known -> category
                when jsonb_typeof(changes -> category) <> 'object' then '{}'
                when jsonb_typeof(known -> category) = 'object'
                    then jsonb_strip_nulls((known -> category) || (changes -> category))
                else jsonb_strip_nulls(changes -> category)
            end as choices
        from (select case when jsonb_typeof(stored) = 'object' then stored else '{}' end as known) as usable,
            jsonb_object_keys(known || changes) as category
    ) as merged
$$;

-- migrate: rollback

drop function merged_choices(jsonb, jsonb);
alter table users drop column allowed_window;
drop table preferences;
