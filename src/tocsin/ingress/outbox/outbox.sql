-- One table and one function, in the application's own database (PostgreSQL 15 or newer).
-- Running it again changes nothing.

create table if not exists public.tocsin_outbox (
    id bigint generated always as identity primary key,
    intent jsonb not null,
    aggregate text,
    aggregate_id text,
    created_at timestamptz not null default clock_timestamp(),
    published_at timestamptz,
    failed_attempts integer not null default 0,
    next_retry_at timestamptz,
    last_error text
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

create index if not exists tocsin_outbox_waiting on public.tocsin_outbox (id)
where published_at is null;

create index if not exists tocsin_outbox_retrying on public.tocsin_outbox (next_retry_at)
where published_at is null and next_retry_at is not null;

create index if not exists tocsin_outbox_published on public.tocsin_outbox (published_at)
where published_at is not null;

-- Puts an intent into the outbox within the caller's transaction and gives the row's id.
-- What it can see to be wrong fails here, where the mistake was made; the relay checks the rest.
create or replace function public.tocsin_publish(
    intent jsonb, aggregate text default null, aggregate_id text default null
)
returns bigint
language plpgsql
as $function$
declare
    audience constant jsonb := intent -> 'audience';
    wrong text;
    outbox_id bigint;
begin
    if jsonb_typeof(intent) is distinct from 'object' then
        raise invalid_parameter_value using
            message = 'tocsin_publish: the intent must be a JSON object',
            hint = 'For example {"type": "new_customer", "audience": {"users": ["ada"]}, "payload": {}}.';
    end if;

    select string_agg(quote_ident(field), ', ' order by field)
    into wrong
    from jsonb_object_keys(intent) as field
    where field <> all (array[
        'type', 'version', 'audience', 'payload', 'idempotency_key', 'send_at', 'send_at_local', 'ttl_seconds',
        'collapse_key', 'request_id', 'trace_id', 'occurred_at', 'locale', 'org_id'
    ]);
    if wrong is not null then
        raise invalid_parameter_value using
            message = 'tocsin_publish: an intent has no field ' || wrong,
            hint = 'What the notification says belongs into payload.';
    end if;

    if jsonb_typeof(intent -> 'type') is distinct from 'string' or intent ->> 'type' = '' then
        raise invalid_parameter_value using
            message = 'tocsin_publish: type must be the name of a type, as the catalog has it';
    end if;

    if jsonb_typeof(audience) is distinct from 'object'
        or (select count(*) from jsonb_object_keys(audience)) <> 1
        or not audience ?| array['users', 'emails', 'admins', 'topic', 'condition', 'attributes']
    then
        raise invalid_parameter_value using
            message = 'tocsin_publish: audience must name exactly one of users, emails, admins, topic, condition, attributes',
            hint = 'For example {"users": ["ada"]}.';
    end if;

    -- Nested, because the parts of a single condition may be looked at in any order.
    if audience ?| array['users', 'emails'] then
        if jsonb_typeof(coalesce(audience -> 'users', audience -> 'emails')) <> 'array'
            or coalesce(audience -> 'users', audience -> 'emails') = '[]'
        then
            raise invalid_parameter_value using
                message = 'tocsin_publish: audience must list at least one of the people it is for';
        end if;
    end if;

    if jsonb_typeof(intent -> 'payload') is distinct from 'object' then
        raise invalid_parameter_value using
            message = 'tocsin_publish: payload must be a JSON object, {} if the type needs nothing';
    end if;

    if intent ->> 'idempotency_key' ~ '^[0-9]+$' then
        raise invalid_parameter_value using
            message = 'tocsin_publish: idempotency_key must not be a bare number',
            hint = 'Left out, the id of the row in the outbox is the key; a bare number could be taken for one.';
    end if;

    if aggregate is not null and aggregate_id is null then
        raise invalid_parameter_value using
            message = 'tocsin_publish: aggregate ' || quote_literal(aggregate) || ' was given without aggregate_id';
    end if;

    insert into public.tocsin_outbox (intent, aggregate, aggregate_id)
    values (tocsin_publish.intent, tocsin_publish.aggregate, tocsin_publish.aggregate_id)
    returning id into outbox_id;

    -- Heard by the relay when this transaction commits, and not at all when it rolls back.
    perform pg_notify('public.tocsin_outbox', '');
    return outbox_id;
end
$function$;
