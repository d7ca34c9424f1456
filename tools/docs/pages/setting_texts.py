"""What each setting means, for its reference."""

from collections.abc import Mapping

from tocsin.providers.registry import BUILT_IN

SECTIONS: Mapping[str, str] = {
    "": "Everything",
    "http": "The HTTP listener",
    "dashboard": "The dashboard",
    "probes": "Probes of a worker, relay or gateway",
    "metrics": "Metrics",
    "auth": "Tokens of people, producers and operators",
    "oidc": "Signing in to the dashboard with OpenID Connect",
    "data": "Encryption at rest",
    "devices": "Devices",
    "pool": "Database connections",
    "delivery": "Time to live, recovery and audiences",
    "dispatch": "Workers",
    "health": "Circuit breakers",
    "rates": "Rate limits of providers",
    **{entry.name: entry.title for entry in BUILT_IN},
    "quiet_hours": "Quiet hours",
    "limits": "Limits",
    "retention": "Retention",
    "toggles": "Toggles",
    "unsubscribe": "Unsubscribe links",
    "receipts": "Receipts of devices",
    "log": "Logs",
    "periodic": "Periodic producers",
    "outboxes.NAME": "Outboxes",
    "outboxes.NAME.columns": "The columns of an outbox",
    "redis": "Redis",
    "aws": "AWS",
    "streams.NAME": "Redis Streams",
    "queues.NAME": "SQS queues",
    "archive": "The archive",
    "mailer": "Mailer",
    "directory": "The directory",
    "gateway": "The gateway",
}

RATE = "The most messages per second from all workers together; 0 means no limit."

MEANING: dict[str, str] = {
    "database_url": "The Postgres server to use. Left out, Tocsin runs its own under `data_dir`.",
    "data_dir": "The folder of the embedded Postgres. Left out: `/var/lib/tocsin` for root, else "
    "`$XDG_DATA_HOME/tocsin` or `~/.local/share/tocsin`.",
    "schema": "The schema of the tables. Several tenants can share one database.",
    "catalog": "The [catalog](../guides/catalog.md)'s folder. Left out: the one that is shipped.",
    "workers": "How many worker processes `tocsin serve` starts.",
    "admin_emails": "For each type, the recipients when its audience is `admins`. As a variable: "
    "`TOCSIN_ADMIN_EMAILS__NEW_CUSTOMER=a@example.com,b@example.com`. The type `geo.review-due` is "
    '`"geo.review-due" = ["a@example.com"]` in the file; in a variable `.` and `-` are `_`: '
    "`TOCSIN_ADMIN_EMAILS__GEO_REVIEW_DUE`, or `__` for a `.` where two types would be the same so.",
    "http.host": "The address to listen on.",
    "http.port": "The port to listen on; 0 chooses a free one.",
    "http.max_body_bytes": "The largest body a producer may send.",
    "http.max_deliveries": "The most deliveries of one request: recipients times channels, over a batch.",
    "http.max_connections": "How many connections are served at a time; further ones wait.",
    "http.header_seconds": "How long a client may take to send the headers of a request.",
    "http.body_seconds": "How long a client may take to send the body of a request.",
    "http.backlog": "How many connections may wait to be accepted.",
    "http.drain_seconds": "How long open requests may take after a stop signal.",
    "http.fisa_paths": "Whether apps can use [the paths of fisa](http.md#the-paths-of-fisa) too; needs "
    "[Amazon SNS](../start/sns.md).",
    "dashboard.enabled": "Whether the API serves [the dashboard](../guides/dashboard/index.md) at "
    "`/dashboard`.",
    "dashboard.host": "The address that a dashboard with its own port listens on. Left out: `http.host`.",
    "dashboard.port": "A port of its own: the dashboard is "
    "[there alone](../guides/dashboard/index.md#a-port-of-its-own), and not on the port of the API; "
    "0 chooses a free one.",
    "dashboard.public_url": "The origin at which browsers reach the dashboard, such as "
    "`https://tocsin.example.com`. Signing in with OpenID Connect needs it.",
    "dashboard.session_hours": "How long somebody stays signed in with an API key.",
    "dashboard.framed_by": "The origin whose pages may show it in a frame, such as `http://127.0.0.1:8480`; "
    "none by default. [The demo](../start/demo.md) sets it for its own page.",
    "probes.host": "The address on which a worker, relay or gateway answers `/healthz` and `/readyz`.",
    "probes.port": "The port for it; 0 chooses a free one. With `tocsin serve`, the first worker has it, and "
    "each further process the next; with a profile, one listener answers for all of them.",
    "probes.header_seconds": "Seconds for the headers of a request, and until an idle connection is closed.",
    "metrics.host": "The address on which Prometheus scrapes `/metrics`.",
    "metrics.port": "The port for it, see [Metrics and traces](../guides/metrics.md); 0 chooses a free one. "
    "With `tocsin serve`, this one port shows every process.",
    "metrics.names": "`galaxy` exports metrics by OpenTelemetry under "
    "[the names of the galaxy service](metrics.md#names-of-the-galaxy-service) too.",
    "auth.jwt_secret": "Accepts HS256 tokens signed with this secret, at least 32 bytes.",
    "auth.jwt_secret_previous": "The secret before it, accepted as well during a "
    "[rotation](../guides/keys.md#the-jwt-secret).",
    "auth.jwks_url": "Accepts RS256 and ES256 tokens signed by a key of this key set.",
    "auth.issuer": "The `iss` that tokens must have.",
    "auth.audience": "The `aud` that tokens must have.",
    "auth.user_claim": "The claim with the user id.",
    "auth.role_claim": "The claim with the roles of producers and operators who come with "
    "[a token instead of an API key](../guides/keys.md#tokens-instead-of-keys); a dotted path leads into "
    "a nested claim.",
    "auth.roles": "The role that each value of that claim stands for.",
    "auth.org_scoping": "Keeps whoever is bound to an [organisation](../guides/organisations.md) within it.",
    "auth.org_claim": "The claim with the organisation of a token; a dotted path leads into a nested claim.",
    "auth.unscoped_roles": "Roles whose tokens may come without that claim, bound to no organisation.",
    "auth.attribute_claims": "Attributes of a person by the claims of their token that "
    "[they are taken from](../guides/organisations.md#attributes-from-claims) when a device is registered.",
    "auth.leeway_seconds": "How far clocks may differ.",
    "auth.jwks_timeout_seconds": "How long the key set may take to answer.",
    "oidc.issuer": "The issuer at which [people sign in](../guides/dashboard/index.md#openid-connect) to the "
    "dashboard, exactly as it calls itself (`iss`). Left out, only API keys sign in.",
    "oidc.client_id": "The id of the client that is registered there.",
    "oidc.client_secret": "Its secret. A public client has none.",
    "oidc.client_secret_file": "The same, in a file, which is read at each sign-in.",
    "oidc.label": "What the button to sign in is labelled with, after *Sign in with*.",
    "oidc.scopes": "Scopes that are asked for besides `openid`, `profile` and `email`.",
    "oidc.role_claim": "The claim that decides the role; a dotted path leads into a nested claim. "
    "`email` counts only with `email_verified`.",
    "oidc.viewers": "The values of that claim that stand for the role viewer.",
    "oidc.operators": "Those that stand for the role operator.",
    "oidc.admins": "Those that stand for the role admin; of several roles the highest counts.",
    "oidc.name_claim": "The claim with the name that the pages and the audit show; `sub` if there is none.",
    "oidc.session_hours": "How long a session lasts; then the issuer is asked, and the role read, again.",
    "oidc.leeway_seconds": "How far clocks may differ.",
    "oidc.timeout_seconds": "How long each answer of the issuer may take.",
    "oidc.ca_file": "Certificates to trust at the issuer besides the usual ones, in PEM form.",
    "data.key": "Encrypts [device tokens and webhook secrets](../guides/keys.md#the-data-key) where they are "
    "stored: 32 bytes in base64.",
    "data.key_file": "The same, in a file.",
    "data.previous_keys": "Earlier keys, which only decrypt.",
    "data.previous_key_files": "The same, in files.",
    "devices.policy": "`many` keeps the devices seen last; `one_per_platform` the newest of each platform.",
    "devices.max_active": "How many active devices a person may have with `many`.",
    "devices.registrations_per_hour": "How often a person may register a device.",
    "devices.stale_after_days": "After how many days unseen a device is marked as stale; 0 means never.",
    "devices.retire_after_days": "After how many days unseen a device is retired; 0 means never.",
    "pool.size": "The most connections of each process.",
    "pool.connect_timeout": "Seconds to wait for a connection.",
    "pool.command_timeout": "Seconds a statement may take.",
    "delivery.default_ttl_days": "The time to live of types that declare no `ttl_seconds`.",
    "delivery.attempts": "How many attempts a delivery has, by every channel, where its type declares none.",
    "delivery.channel_attempts": "How many attempts a delivery by this channel has instead, such as "
    "`TOCSIN_DELIVERY__CHANNEL_ATTEMPTS__PUSH=3`.",
    "delivery.backoff": "The pauses between them where the type declares none: "
    "`exponential(1s, 5m, 2, 0.2)` or `ladder(1m, 5m, 1h)`.",
    "delivery.recover_every_seconds": "How often a delivery whose provider failed in its last attempt is "
    "tried again, unless its type declares `recover`.",
    "delivery.recover_for_days": "For how long, at most until its time to live ends; 0 means never.",
    "delivery.largest_audience": "The most people whose deliveries are stored with the intent, where an "
    "audience asks for attributes; one that finds more is a broadcast.",
    "dispatch.lease_seconds": "The duration of a worker's lease: at least four times the longest `timeout` "
    "of the providers in use; above 2.5 seconds, twice that and 5 seconds.",
    "dispatch.poll_seconds": "How often an idle worker polls, in case a notification was lost.",
    "dispatch.stop_seconds": "How long a stopping worker waits for messages in flight.",
    "health.window_seconds": "The window in which attempts are counted.",
    "health.least_attempts": "The least attempts within the window before the share counts.",
    "health.error_share": "The share of failures caused by the provider that opens the circuit breaker.",
    "health.failures_in_a_row": "How many failures in a row open it too, however far apart; "
    "not for hosts of webhooks and browsers.",
    "health.rest_seconds": "How long it stays open; doubled each time the test message fails.",
    "health.longest_rest_seconds": "The longest time, unless a quota or refused credentials require more.",
    **{
        f"rates.{entry.name}": RATE + (f" {entry.title} allows {entry.rate:g}." if entry.rate else "")
        for entry in BUILT_IN
    },
    "rates.ramp_seconds": "Within how many seconds a rate grows from a tenth to the whole after the circuit "
    "breaker closed.",
    "quiet_hours.enabled": "Whether deliveries wait for a person's allowed window.",
    "quiet_hours.start": "When the window opens, in the person's own time.",
    "quiet_hours.end": "When the window closes.",
    "quiet_hours.spread_seconds": "Held deliveries are spread over this time after the window opens.",
    "quiet_hours.default_timezone": "The time zone of people without one; unless set, they do not wait.",
    "quiet_hours.channels": "The channels that wait for the window.",
    "quiet_hours.categories": "A window for a category, `08:00-23:00` or `always`. As a variable: "
    "`TOCSIN_QUIET_HOURS__CATEGORIES__ALERTS=always`.",
    "retention.days": "For how many days notifications, deliveries and attempts are kept after the last "
    "delivery was settled; 0 means forever.",
    "retention.refused_days": "For how many days refused intents are kept; 0 means forever.",
    "retention.idempotency_days": "For how many days after settlement an idempotency key is kept at least; "
    "0 means forever.",
    "retention.inbox_days": "For how many days the items of inboxes are kept; 0 means forever.",
    "retention.audit_days": "For how many days the audit, cleared alarms and changes of toggles are kept; "
    "0 means forever.",
    "retention.share": "The share of the time that deletes take during a pass.",
    "retention.batch_size": "At most how many deliveries are deleted in one transaction.",
    "retention.schedule": "When a pass starts, in the notation of cron and in UTC.",
    "retention.hours": "The hours at which passes run, such as `01:00-05:00`; unless set, at any time.",
    "retention.timezone": "The time zone of those hours.",
    "limits.per_person_per_day": "The most a person gets in their own day.",
    "limits.per_device_per_day": "The most a device gets in its owner's day.",
    "limits.categories": "The most a person gets of a category in their own day.",
    "limits.beyond": "The rest is skipped (`skip`), or deferred to the next day (`defer`).",
    "toggles.provider": "An OpenFeature provider as `module:callable`. Left out: our own table.",
    "unsubscribe.secret": "Signs the unsubscribe links, at least 32 bytes.",
    "unsubscribe.base_url": "The public address of this API, for the links.",
    "receipts.secret": "Signs the receipt tokens in pushes, at least 32 bytes; unless set, pushes have none.",
    "receipts.per_minute": "How many receipts a minute a person may send.",
    "log.level": "The lowest level that is logged.",
    "log.format": "`auto` is `console` on a terminal and `json` elsewhere.",
    "log.sent_per_second": "How many deliveries that are sent, or skipped when they are accepted, each "
    "process logs in a second at most; the next line has the number of those left out. Every other delivery "
    "is logged.",
    "log.slow_seconds": "A request to the API that takes longer is logged at `info`, as one that failed is; "
    "others at `debug`.",
    "periodic.modules": "Python modules that declare periodic producers.",
    "periodic.folder": "A folder of scans.",
    "periodic.databases": "The databases that scans read, each with a name of your choice.",
    "periodic.lease_seconds": "The duration of a worker's lease on a run.",
    "outboxes.NAME.url": "The application's database, `postgresql://…`. `NAME` is a name of your choice.",
    "outboxes.NAME.schema": "The schema of the outbox table.",
    "outboxes.NAME.table": "The outbox table.",
    "outboxes.NAME.producer": "The producer of its intents. Left out: `NAME`.",
    "outboxes.NAME.batch": "How many rows are read at once. Left out: 500, or 100 with `topic_arn`.",
    "outboxes.NAME.poll_seconds": "How often it is polled, in case a notification was lost. Left out: 1, or "
    "0.8 with `topic_arn`.",
    "outboxes.NAME.order": "With `aggregate`, the rows of one aggregate are accepted one after the other.",
    "outboxes.NAME.keep_days": "How many days published rows are kept; 0 means for ever. Left out: 7 for "
    "`intent`, for ever otherwise.",
    "outboxes.NAME.envelope": "The format of the rows.",
    "outboxes.NAME.types": "For `fisa`: the type of the catalog for each type of the rows. For `intent` with "
    "`topic_arn`: the type of the catalog for each `event_type` that is published.",
    "outboxes.NAME.org_id": "The [organisation](../guides/organisations.md) that its recipients belong to.",
    "outboxes.NAME.topic_arn": "The [SNS topic](../guides/topics.md) that the rows are published to, instead "
    "of being accepted; one whose name ends with `.fifo` keeps the order of each user.",
    "outboxes.NAME.check_personal_data": "With `topic_arn`: whether to log where a row looks as if it held "
    "personal data.",
    "outboxes.NAME.columns.id": "The row's number.",
    "outboxes.NAME.columns.payload": "The content of the row.",
    "outboxes.NAME.columns.type": "The type of the row.",
    "outboxes.NAME.columns.aggregate": "The kind of object that the row is about.",
    "outboxes.NAME.columns.aggregate_id": "The id of the object.",
    "outboxes.NAME.columns.created_at": "When it was written.",
    "outboxes.NAME.columns.published_at": "When it was accepted.",
    "outboxes.NAME.columns.failed_attempts": "How often that failed.",
    "outboxes.NAME.columns.next_retry_at": "The time of the next attempt.",
    "outboxes.NAME.columns.last_error": "Why it failed.",
    "redis.url": "The server of the streams: `redis://…`, `rediss://…` or `unix://…`.",
    "redis.timeout": "Seconds to wait for a connection to Redis, or for its answer.",
    "aws.endpoint_url": "Another address for AWS: LocalStack's, say. Left out: AWS itself.",
    "aws.region": "The region, `ap-southeast-1` say. Left out: that of the environment.",
    "aws.access_key_id": "The id of an access key. Left out: credentials as AWS finds them, such as a role.",
    "aws.secret_access_key": "The secret of that key.",
    "aws.session_token": "The token of temporary credentials.",
    "aws.timeout": "Seconds to wait for a connection to AWS, or for its answer.",
    "aws.max_connections": "The most connections to each service in each process.",
    "streams.NAME.url": "The server of this stream. Left out: that of `redis.url`.",
    "streams.NAME.stream": "The key of the stream.",
    "streams.NAME.batch": "How many entries are read at once.",
    "streams.NAME.block_seconds": "Seconds that one read waits for entries.",
    "queues.NAME.url": "The URL of the [queue](../guides/sqs.md). `NAME` is a name of your choice.",
    "queues.NAME.envelope": "The format of the messages.",
    "queues.NAME.types": "For `fisa`: the type of the catalog for each `event_type`.",
    "queues.NAME.org_id": "The [organisation](../guides/organisations.md) that its recipients belong to.",
    "queues.NAME.refused": "Whether a refused message is left to the queue's redrive policy, or deleted.",
    "queues.NAME.receivers": "How many receives run at a time.",
    "queues.NAME.visibility_seconds": "Seconds for which a reader that died keeps its messages from others.",
    "archive.queue_url": "The URL of the queue that is [archived](../guides/archive.md).",
    "archive.destination": "A folder that exists, or `s3://BUCKET/PREFIX`.",
    "archive.roll_seconds": "A file is written at the latest so many seconds after its first message.",
    "archive.roll_messages": "The most messages of a file.",
    "archive.roll_bytes": "The most bytes of a file before compression.",
    "archive.level": "The level of compression by zstd.",
    "archive.receivers": "How many receives run at a time.",
    "archive.visibility_seconds": "Seconds for which an archive that died keeps its messages from others.",
    "directory.kind": "Where recipients of streams are looked up: in Tocsin, a service, or by a query.",
    "directory.url": "For `http`, the address of the service; for `sql`, that of the database.",
    "directory.query": "For `sql`: selects `user_id`, `email` and `preferred_language` of the user ids `$1`.",
    "directory.timeout": "Seconds to wait for the directory.",
    "directory.concurrency": "For `http`: how many people are asked for at once.",
    "directory.cache_seconds": "Seconds for which an answer is kept.",
    "streams.NAME.lease_seconds": "Seconds for which a reader that died keeps others from reading.",
    "streams.NAME.org_id": "The [organisation](../guides/organisations.md) that its recipients belong to.",
    "gateway.url": "The Redis server of the stream of client events. Left out: that of `redis.url`.",
    "gateway.stream": "The key of the stream of client events.",
    "gateway.history": "How many of its newest entries are kept in memory, for clients that resume; at least "
    "as many as the stream holds.",
    "gateway.host": "The address to listen on.",
    "gateway.port": "The port to listen on; 0 chooses a free one.",
    "gateway.allowed_origins": "The origins of other hosts whose pages may connect, such as "
    "`https://app.example.com`, or `*`.",
    "gateway.websockets": "Whether WebSockets are served beside Server-Sent Events.",
    "gateway.signalr_path": "The path at which clients of SignalR connect, such as `/v1/events/hub`. Left "
    "out: they cannot.",
    "gateway.signalr_client_seconds": "A client of SignalR from which nothing was heard for so many seconds "
    "is disconnected; the stock client pings each 15.",
    "gateway.device_session_claim": "The claim of a token that holds the `device_session_id` of its session.",
    "gateway.max_sessions": "How many sessions one process may have.",
    "gateway.max_sessions_per_user": "How many of them one person may have.",
    "gateway.queue_events": "How many events may wait for a slow client before its session is closed.",
    "gateway.queue_bytes": "How many bytes of events may wait for it.",
    "gateway.ping_seconds": "The most seconds between two pings.",
    "gateway.retry_seconds": "Clients are advised to reconnect after one to two times as many seconds.",
    "gateway.reconnect_seconds": "When the gateway stops, its clients are advised to reconnect within so "
    "many seconds, each at another moment.",
    "gateway.drain_seconds": "How many seconds a stop waits for the sessions to end.",
    "mailer.url": "The server of the stream of mail commands. Left out: that of `redis.url`.",
    "mailer.stream": "The key of the stream.",
    "mailer.batch": "How many commands are read at once.",
    "mailer.block_seconds": "Seconds that one read waits for commands.",
    "mailer.lease_seconds": "Seconds for which a mailer that died keeps others from reading.",
    "mailer.org_id": "The [organisation](../guides/organisations.md) that its recipients belong to.",
}
