-- Stored decisions that do not grow with every hold and release
-- depends: 0009_lone_dispatch

-- migrate: apply

-- Appends decisions. The same as last time, apart from their times, are counted there instead; of the rest, the
-- newest 50 are kept.
create or replace function merge_decisions(kept jsonb, given jsonb) returns jsonb
language plpgsql immutable parallel safe strict
as $$
declare
    times constant text[] := '{at,until,count}';
    most constant integer := 50;
    repeats constant integer := jsonb_array_length(given);
    earlier constant integer := jsonb_array_length(kept) - repeats;
    merged jsonb := kept || given;
begin
    if earlier >= 0 and not exists (
        select
        from generate_series(0, repeats - 1) as place
        where (kept -> earlier + place) - times is distinct from (given -> place) - times
    ) then
        select jsonb_agg(
            case
                when place <= earlier then value
                else (given -> (place - earlier - 1)::integer)
                    || jsonb_build_object('count', coalesce((value ->> 'count')::integer, 1) + 1)
            end
            order by place
        )
        into merged
        from jsonb_array_elements(kept) with ordinality as old (value, place);
    end if;
    if jsonb_array_length(merged) > most then
        select jsonb_agg(value order by place)
        into merged
        from jsonb_array_elements(merged) with ordinality as every (value, place)
        where place > jsonb_array_length(merged) - most;
    end if;
    return merged;
end
$$;

-- migrate: rollback

drop function if exists merge_decisions(jsonb, jsonb);
