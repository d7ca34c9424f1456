"""`tocsin providers`."""

from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.access import By, Reason, at_database_time, database_time, over_http, with_pool
from tocsin.cli.operate import toggle
from tocsin.cli.operate.toggle import OptionalReason, waiting_deliveries
from tocsin.cli.output import AsJson, fail, moment, plural, print_lines, print_result, print_rows
from tocsin.domain.toggles import toggle_of

if TYPE_CHECKING:
    from tocsin.engine.health.provider_health import CircuitHealth, ProviderHealth, Waiting
    from tocsin.settings.tree import Settings
    from tocsin.store.pool import Pool

app = typer.Typer(
    name="providers",
    help="The health of the providers in use; pause one, resume it, try it.",
    invoke_without_command=True,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A provider in use, e.g. fcm.")]


@app.callback()
def list_providers(context: typer.Context, as_json: AsJson = False) -> None:
    """List the providers in use: state, rate, errors of the last five minutes, backlog, alarms."""
    if context.invoked_subcommand is not None:
        return
    print_rows(
        _health(),
        as_json,
        empty="No provider is set up. Name the credentials of one in the settings.",
        cells=_cells,
    )


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one provider with its circuit breakers, outcomes and alarms."""
    provider = _in_use(name)
    print_result(provider, as_json, *_lines(provider))


@app.command()
def pause(name: Name, reason: Reason, by: By = None, as_json: AsJson = False) -> None:
    """Pause a provider: within a second nothing is sent by it, and its deliveries wait."""
    _in_use(name)
    toggle.switch(toggle_of(name), enabled=False, reason=reason, by=by, as_json=as_json)
    if not as_json:
        print_lines(f"What is for {name} waits until: tocsin providers resume {name}")


@app.command()
def resume(name: Name, reason: OptionalReason = None, by: By = None, as_json: AsJson = False) -> None:
    """Resume a paused provider: its deliveries continue."""
    _in_use(name)
    toggle.switch(toggle_of(name), enabled=True, reason=reason, by=by, as_json=as_json)


@app.command("try")
def try_now(name: Name, as_json: AsJson = False) -> None:
    """Try a provider whose circuit breaker is open now, once its fault is fixed."""
    from tocsin.engine.health.provider_health import ProviderHealth
    from tocsin.store.health.circuit_breakers import end_rests

    open_before = [circuit.name for circuit in _in_use(name).circuits if circuit.state == "open"]
    if remote := over_http():
        remote.call(ProviderHealth, "POST", "admin", "providers", name, "try")
        tried = open_before
    else:
        tried = at_database_time(lambda connection, now: end_rests(connection, name, now))
    names = ", ".join(tried)
    line = f"Tried with the next message: {names}" if tried else f"No circuit of {name} is open."
    print_result({"provider": name, "circuits": tried}, as_json, line)


def _health() -> list["ProviderHealth"]:
    """Load the health of the providers in use."""
    if remote := over_http():
        from tocsin.api.bodies import ProviderList

        return remote.call(ProviderList, "GET", "admin", "providers").providers

    from tocsin.compose.providers_in_use import provider_summaries
    from tocsin.engine.health.provider_health import ProviderHealth, providers_health

    async def work(settings: "Settings", pool: "Pool") -> list[ProviderHealth]:
        async with pool.acquire() as connection:
            now = await database_time(connection)
            return await providers_health(connection, provider_summaries(settings), now)

    return with_pool(work)


def _in_use(name: str) -> "ProviderHealth":
    """Return a provider in use, or fail with those that are."""
    from tocsin.engine.health.provider_health import ProviderInUse, not_in_use

    providers = {provider.name: provider for provider in _health()}
    known = [ProviderInUse(name=each.name, channel=each.channel, rate=None) for each in providers.values()]
    if unknown := not_in_use(name, known):
        fail(unknown)
    return providers[name]


def _cells(provider: "ProviderHealth") -> dict[str, object]:
    rate = provider.rate
    limit = "" if rate.limit is None else f" of {rate.limit:g}"
    return {
        "provider": provider.name,
        "channel": provider.channel,
        "circuit": provider.state,
        "sent/s": f"{rate.sent_per_second:g}{limit}",
        "errors": _errors(provider),
        "waiting": _waiting(provider.waiting),
        "alarm": ", ".join(alarm.code for alarm in provider.alarms),
    }


def _errors(provider: "ProviderHealth") -> str:
    """Return the share of attempts that were not sent, and their most frequent code."""
    if not provider.outcomes:
        return "-"
    failed = [each for each in provider.outcomes if each.outcome != "sent"]
    share = sum(each.share for each in failed)
    return f"{share:.0%} {failed[0].code}" if failed else "0%"


def _waiting(waiting: "Waiting") -> str:
    return f"{waiting.count}{'+' if waiting.or_more else ''}"


def _lines(provider: "ProviderHealth") -> list[str]:
    rate, paused = provider.rate, provider.paused
    counted, one = waiting_deliveries(provider.waiting)
    limit = "no limit" if rate.limit is None else f"at most {rate.limit:g}"
    state = "paused" if paused else f"circuit {provider.state.replace('_', '-')}"
    lines = [f"{provider.name} ({provider.channel}): {state}"]
    if paused:
        lines.append(f"  paused {moment(paused.at)} by {paused.by}: {paused.reason or 'no reason given'}")
    lines += [
        f"  {rate.sent_per_second:g} sent a second, {limit}",
        f"  {plural(rate.attempts_last_minute, 'attempt', 'attempts')} in the last minute",
        f"  {counted} wait{'s' * one} for it",
    ]
    if provider.outcomes:
        lines.append("  the last five minutes:")
    lines += [
        f"    {each.share:6.1%} {each.count:>8}  {each.outcome} {each.code}".rstrip()
        for each in provider.outcomes
    ]
    if provider.circuits:
        lines.append(f"  circuits that are not closed: {provider.circuits_in_trouble}")
    lines += [line for circuit in provider.circuits for line in _circuit(circuit)]
    if hidden := provider.circuits_in_trouble - len(provider.circuits):
        lines.append(f"    and {hidden} more")
    if provider.alarms:
        lines.append("  alarms:")
    for alarm in provider.alarms:
        lines += [
            f"    {alarm.alarm_id}  {alarm.code}, {plural(alarm.count, 'time', 'times')}",
            f"      since {moment(alarm.raised_at)}: {alarm.detail or 'no detail given'}",
        ]
    return lines


def _circuit(circuit: "CircuitHealth") -> list[str]:
    return [
        f"    {circuit.name} is {circuit.state} since {moment(circuit.since)}",
        f"      tried next at {moment(circuit.retry_at)}",
        f"      {circuit.code}: {circuit.detail or 'no detail given'}",
    ]
