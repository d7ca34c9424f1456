"""What the mailer takes from catalog and settings, and when it does not start."""

import re
from pathlib import Path

import pytest

from tests.edges.command_line import run
from tests.engine.conftest import TEXTS_OF, add_type
from tocsin.catalog.load import load_catalog, shipped_catalog
from tocsin.cli.run.mailer import mail_settings, mailer_faults
from tocsin.ingress.mail_commands.catalog import MailCatalog
from tocsin.providers.smtp.settings import SmtpSettings
from tocsin.settings.load import load_settings
from tocsin.settings.tree import Settings, providers_in_use

DOCS = Path(__file__).parents[3] / "docs"

TYPE = """
{name}:
  version: 1
  category: alerts
  channels: [push, email]
  default_locale: en
  payload: {{type: object, properties: {{text: {{type: string}}}}}}
  {more}
"""


def written(folder: Path, **types: str) -> Path:
    (folder / "types").mkdir(exist_ok=True)
    for name, more in types.items():
        texts = TEXTS_OF["push"] | TEXTS_OF["email"]
        add_type(folder, name, TYPE.format(name=name, more=more), texts)
    return folder


def test_the_catalog_of_the_mailer_has_the_mail_alone(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        plain="",
        ordered="policies: {ordered: true, failover: {to: email, after: 10m}, throttle: {limit: 1, per: 1d}}",
        admins_only="audiences: {admins: [email], users: [push]}",
        collected="policies: {digest: {window: 1h}}",
    )
    catalog = MailCatalog(load_catalog(folder))
    types = catalog.types

    assert sorted(types) == ["admins_only", "ordered", "plain"]
    assert all((each.channels, each.audiences) == (("email",), None) for each in types.values())
    policies = types["ordered"].policies
    assert (policies.ordered, policies.failover, policies.throttle) == (False, None, None)
    assert catalog.render(types["plain"], "email", "en", {"text": "x"}).parts["subject"] == "Alert x"

    catalog.replace(load_catalog(written(tmp_path, later="")))
    assert sorted(catalog.types) == ["admins_only", "later", "ordered", "plain"]


def test_smtp_is_the_only_provider_of_the_mailer() -> None:
    given = {
        "TOCSIN_SMTP__HOST": "mail.example",
        "TOCSIN_SMTP__SENDER": "a@b.example",
        "TOCSIN_WEBHOOK__ENABLED": "true",
        "TOCSIN_REDIS__URL": "redis://redis",
        "TOCSIN_CATALOG": str(shipped_catalog()),
    }
    settings = load_settings(given)
    assert not list(mailer_faults(settings))
    assert sorted(providers_in_use(settings)) == ["smtp", "webhook"]
    assert list(providers_in_use(mail_settings(settings))) == ["smtp"]


def test_a_provider_that_hands_mail_back_to_the_stream_is_refused() -> None:
    settings = load_settings({"TOCSIN_MAIL_STREAM__ENABLED": "true", "TOCSIN_REDIS__URL": "redis://redis"})
    faults = {fault.field.partition(" ")[0]: fault for fault in mailer_faults(settings)}

    assert {field: fault.code for field, fault in faults.items()} == {
        "smtp.host": "missing",
        "mail_stream.enabled": "contradiction",
        "catalog": "missing",
    }
    assert "go round for ever" in faults["mail_stream.enabled"].message


@pytest.mark.parametrize("variable", ["TOCSIN_MAILER__BLOCK_SECONDS", "TOCSIN_MAILER__URL"])
def test_faults_of_the_stream_are_those_of_any_stream(variable: str, tmp_path: Path) -> None:
    ran = run(["mailer"], {variable: "9"}, tmp_path)
    assert (ran.code, "mailer." in ran.said) == (2, True)


def test_a_mailer_without_settings_lists_what_to_set(tmp_path: Path) -> None:
    ran = run(["mailer"], {}, tmp_path)
    assert ran.code == 2
    assert "smtp.host (TOCSIN_SMTP__HOST): must be set" in ran.said
    assert "mailer.url (TOCSIN_MAILER__URL): or redis.url, must be set" in ran.said
    assert "catalog (TOCSIN_CATALOG): must be set: the texts of the mails are there." in ran.said
    assert "in a Redis stream" in run(["mailer", "--help"], {}, tmp_path).said


@pytest.mark.parametrize("guide", ["mailer", "galaxy"])
def test_the_settings_of_the_guides_are_all_that_a_mailer_needs(guide: str, tmp_path: Path) -> None:
    text = (DOCS / "guides" / f"{guide}.md").read_text()
    (block,) = re.findall(r"```toml[^\n]*\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "mailer.toml"
    file.write_text(re.sub(r"(?m)^catalog = .*", f'catalog = "{shipped_catalog()}"', block))
    settings = load_settings({}, file)
    assert settings.schema != Settings().schema
    assert not list(mailer_faults(settings))
    assert settings.provider(SmtpSettings).sender
