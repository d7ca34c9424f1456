create table customers (
    id bigint generated always as identity primary key,
    name text not null,
    -- The colleague who looks after the customer, and hears of them first.
    seller text not null,
    created_at timestamptz not null default now()
);
