-- Decisions that many sent deliveries have in common, stored once
-- depends: 0010_merged_decisions

-- migrate: apply

-- Steps without their times; the id is a hash of them, so every worker finds the same one.
create table if not exists decision_sets (
    id uuid primary key,
    steps jsonb not null
);

-- Of a delivery that was sent: the rules that it passed, all at one moment. Null where its own decisions are stored.
alter table deliveries
    add column if not exists decision_set uuid,
    add column if not exists decided_at timestamptz;

create or replace function steps_at(steps jsonb, moment timestamptz) returns jsonb
language sql immutable parallel safe strict
as $$
    select jsonb_agg(value || jsonb_build_object('at', moment) order by place)
    from jsonb_array_elements(steps) with ordinality as step (value, place)
$$;

-- The decisions of a delivery: its own, or those of its set.
create or replace function decisions_of(own jsonb, decision_set uuid, moment timestamptz) returns jsonb
language sql stable parallel safe
as $$
    select coalesce(own, (select steps_at(steps, moment) from decision_sets where id = decision_set))
$$;

-- migrate: rollback

drop function if exists decisions_of(jsonb, uuid, timestamptz);
update deliveries as d
set decisions = steps_at(s.steps, d.decided_at)
from decision_sets as s
where s.id = d.decision_set and d.decisions is null;
drop function if exists steps_at(jsonb, timestamptz);
alter table deliveries
    drop column if exists decided_at,
    drop column if exists decision_set;
drop table if exists decision_sets;
