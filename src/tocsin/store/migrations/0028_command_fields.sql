-- Language of a notification, and the id that its producer has for its delivery
-- depends: 0026_streams

-- migrate: apply

-- `locale` is the language for recipients of whom no other is known. `reference` is the producer's own id, such as the
-- delivery_id of a mail command; it goes with the mail.
alter table notifications
    add column if not exists locale text,
    add column if not exists reference text;

-- migrate: rollback

alter table notifications
    drop column if exists reference,
    drop column if exists locale;
