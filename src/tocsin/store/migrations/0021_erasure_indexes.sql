-- Indexes of erasure and export
-- depends: 0020_erasure
-- transaction: false

-- migrate: apply

-- What was sent to a bare address: erasure and export of the person whose address it is.
create index concurrently if not exists deliveries_of_address on deliveries (address, notification_id)
where address is not null and address <> 'erased';

-- migrate: rollback

drop index concurrently if exists deliveries_of_address;
