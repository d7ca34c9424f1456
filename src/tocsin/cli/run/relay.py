"""`tocsin relay`."""

from tocsin.cli.run.process import prepared_settings, run_until_stopped
from tocsin.cli.run.serve import Tied
from tocsin.compose import database, run_relays
from tocsin.domain.errors import SettingsError
from tocsin.domain.faults import Fault
from tocsin.settings import setting_name


def relay(tied: Tied = False) -> None:
    """Relay the outboxes of applications into Tocsin."""
    settings = prepared_settings()
    if not settings.outboxes:
        example = setting_name(("outboxes", "shop", "url"))
        fault = Fault(field="outboxes", code="missing", message=f"none is set; set {example}, for example")
        raise SettingsError("There is nothing to relay:", [fault])
    with database(settings) as url:
        run_until_stopped(lambda stop: run_relays(settings, url, stop), tied=tied)
