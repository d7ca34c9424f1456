import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from tests.databases import SCHEMA
from tests.engine.stage import MovableClock, Stage
from tocsin.catalog.catalog import Catalog
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.store.pool import Pool, PoolSettings, open_pool

ALERT = """
alert:
  version: 1
  category: alerts
  channels: [push, email]
  default_locale: en
  payload:
    type: object
    properties:
      text: {type: string, examples: [Fire]}
  policies:
    attempts: {push: 3}
    backoff: ladder(10s)
"""
TEXTS = {
    "push.title": "Alert",
    "push.body": "Alert: {{ text | default('unknown') }}",
    "email.subject": "Alert",
    "email.text": "-",
}

# Its texts depend on what is known of the recipient.
PERSONAL = """
personal:
  version: 1
  category: alerts
  channels: [push, email]
  default_locale: en
  payload: {type: object}
  attributes:
    plan: {type: string, default: free, examples: [pro]}
    seats: {type: integer, default: 1}
    interests: {type: array, default: [news]}
  policies: {POLICIES}
"""
PERSONAL_TEXTS = {
    "push.title": "You have {{ user.attributes.plan }}",
    "push.body": "{{ user.attributes.seats }} seats, {{ user.attributes['interests'] | join(' and ') }}",
    "email.subject": "{{ user.attributes.plan }}",
    "email.text": "-",
    "email.html": "<p title='{{ user.attributes.plan }}'>{{ user.attributes.plan }}</p>",
}

# Types that go by other channels than push, or by several.
ELSEWHERE = {
    "everywhere": ("[push, email, webhook]", "{}"),
    "mail_only": ("[email]", "{}"),
    "hook_only": ("[webhook]", "{}"),
    "listed": ("[push, inbox]", "{}"),
    "rarely_listed": ("[inbox]", "{throttle: {limit: 1, per: 1h}}"),
    "listed_together": ("[inbox]", "{digest: {window: 1s}}"),
    "must_know": (
        "[push, email]",
        "{attempts: {push: 9}, backoff: 'ladder(1h)', failover: {to: email, after: 10m}}",
    ),
}
BY_SEVERAL = """
{name}:
  version: 1
  category: alerts
  channels: {channels}
  default_locale: en
  payload:
    type: object
    properties:
      text: {{type: string, examples: [Fire]}}
  policies: {policies}
"""
TEXTS_OF = {
    "push": {"push.title": "Alert", "push.body": "-"},
    "email": {
        "email.subject": "Alert {{ text | default('') }}",
        "email.text": "It says: {{ text | default('') }}",
        "email.html": "<style>p { color: red }</style><p>{{ text | default('') }}</p>",
    },
    "webhook": {},
    "inbox": {"inbox.title": "Alert", "inbox.body": "{{ text | default('nothing') }}"},
}

# Types that go by push alone and differ only in how they are treated.
POLICIES = {
    "plain": "backoff: 'ladder(10s)'",
    "step": "{ordered: true, ordering_group: steps, attempts: {push: 100},"
    " backoff: 'exponential(10ms, 50ms, 2, 0)'}",
    "grouped_step": "{ordered: true, ordering_group: steps}",
    "brittle_step": "{ordered: true, attempts: {push: 2}, backoff: 'exponential(10ms, 50ms, 2, 0)'}",
    "urgent": "urgent: true",
    "critical": "critical: true",
    "rare": "throttle: {limit: 2, per: 1h}",
    "paced": "throttle: {limit: 2, per: 1h, beyond: defer}",
    "fleeting": "ttl_seconds: 3600",
    "collected": "{digest: {window: 2s}, backoff: 'ladder(10s)'}",
    "gathered": "digest: {window: 1h}",
    "lasting": "{attempts: {push: 2}, backoff: 'ladder(5s)', recover: {every: 5m, for: 15m}}",
    "lasting_step": "{ordered: true, attempts: {push: 2}, backoff: 'ladder(1ms)', ttl_seconds: 3600,"
    " recover: {every: 5m, for: 1d}}",
}
BY_PUSH = """
{name}:
  version: 1
  category: {category}
  channels: [push]
  default_locale: en
  payload: {{type: object}}
  policies: {policies}
"""


def written_policies(text: str) -> str:
    return text if text.startswith("{") else f"{{{text}}}"


def add_type(folder: Path, name: str, declaration: str, texts: Mapping[str, str]) -> None:
    (folder / "types" / f"{name}.yaml").write_text(declaration)
    place = folder / "templates" / name / "en"
    place.mkdir(parents=True)
    for part, text in texts.items():
        (place / f"{part}.j2").write_text(text)


@pytest.fixture(scope="session")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    """Give the shipped types, one that takes any payload by two channels, and one for each policy."""
    folder: Path = tmp_path_factory.mktemp("catalog") / "catalog"
    shutil.copytree(shipped_catalog(), folder)
    add_type(folder, "alert", ALERT, TEXTS)
    add_type(folder, "personal", PERSONAL.replace("POLICIES", ""), PERSONAL_TEXTS)
    personal_digest = PERSONAL.replace("personal:", "personal_digest:").replace(
        "POLICIES", "digest: {window: 1s}"
    )
    add_type(folder, "personal_digest", personal_digest, PERSONAL_TEXTS)
    texts = {"push.title": "News", "push.body": "-"}
    for name, policies in POLICIES.items():
        declaration = BY_PUSH.format(name=name, category=f"{name}_news", policies=written_policies(policies))
        add_type(folder, name, declaration, texts)
    for name, (channels, policies) in ELSEWHERE.items():
        declaration = BY_SEVERAL.format(name=name, channels=channels, policies=policies)
        used = [part for channel, part in TEXTS_OF.items() if channel in channels]
        add_type(folder, name, declaration, {key: text for part in used for key, text in part.items()})
    return load_catalog(folder)


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture
async def worker_pool(database_url: str) -> AsyncIterator[Pool]:
    async with open_pool(database_url, SCHEMA, PoolSettings(), lookups_only=True) as opened:
        yield opened


@pytest.fixture
def stage(database_url: str, pool: Pool, worker_pool: Pool, catalog: Catalog, clock: MovableClock) -> Stage:
    return Stage(database_url, pool, worker_pool, catalog, clock)
