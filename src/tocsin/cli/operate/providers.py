"""`tocsin providers`."""

from typing import Annotated

import typer

from tocsin.cli.access import with_pool
from tocsin.cli.operate import toggle
from tocsin.cli.operate.toggle import By
from tocsin.cli.output import AsJson, complain, console, moment, print_json, table
from tocsin.compose import provider_summaries
from tocsin.domain.toggles import toggle_of
from tocsin.engine.clock import utc_now
from tocsin.engine.health.provider_health import (
    CircuitHealth,
    ProviderHealth,
    Rate,
    Waiting,
    not_in_use,
    providers_health,
)
from tocsin.settings import Settings, load_settings
from tocsin.store.health.circuit_breakers import end_rests
from tocsin.store.pool import Pool

app = typer.Typer(
    help="How the providers in use do; pause one, resume it, try it.", invoke_without_command=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A provider in use, e.g. fcm.")]


@app.callback()
def list_providers(context: typer.Context, as_json: AsJson = False) -> None:
    """List the providers in use: state, rate, errors of the last five minutes, what waits, alarms."""
    if context.invoked_subcommand is not None:
        return

    async def work(settings: Settings, pool: Pool) -> list[ProviderHealth]:
        async with pool.acquire() as connection:
            return await providers_health(connection, provider_summaries(settings), utc_now())

    providers = with_pool(work)
    if as_json:
        print_json(providers)
        return
    if not providers:
        console.print("No provider is set up. Name the credentials of one in the settings.")
        return
    shown = table("provider", "channel", "state", "sent/s", "errors", "waiting", "alarm")
    for provider in providers:
        shown.add_row(
            provider.name,
            provider.channel,
            provider.state,
            _rate(provider.rate),
            _errors(provider),
            _waiting(provider.waiting),
            ", ".join(alarm.code for alarm in provider.alarms) or "-",
        )
    console.print(shown, markup=False)


@app.command()
def show(name: Name, as_json: AsJson = False) -> None:
    """Show one provider with its circuits, outcomes and alarms."""
    _check_in_use(name, load_settings())

    async def work(settings: Settings, pool: Pool) -> ProviderHealth:
        asked_for = [provider for provider in provider_summaries(settings) if provider.name == name]
        async with pool.acquire() as connection:
            (found,) = await providers_health(connection, asked_for, utc_now())
        return found

    provider = with_pool(work)
    if as_json:
        print_json(provider)
    else:
        _print(provider)


@app.command()
def pause(
    name: Name,
    reason: Annotated[str, typer.Option(help="Why; the next person will want to know.")],
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Pause a provider: nothing leaves for it within a second, what is for it waits."""
    _check_in_use(name, load_settings())
    toggle.off(toggle_of(name), reason=reason, by=by, as_json=as_json)
    if not as_json:
        console.print(f"What is for {name} waits until: tocsin providers resume {name}")


@app.command()
def resume(
    name: Name,
    reason: Annotated[str | None, typer.Option(help="Why.")] = None,
    by: By = None,
    as_json: AsJson = False,
) -> None:
    """Resume a paused provider: what waited goes on."""
    _check_in_use(name, load_settings())
    toggle.on(toggle_of(name), reason=reason, by=by, as_json=as_json)


@app.command("try")
def try_now(name: Name, as_json: AsJson = False) -> None:
    """Let a provider that is left alone be tried now, when what was wrong with it is mended."""
    _check_in_use(name, load_settings())

    async def work(_: Settings, pool: Pool) -> list[str]:
        async with pool.acquire() as connection:
            return await end_rests(connection, name, utc_now())

    tried = with_pool(work)
    if as_json:
        print_json({"provider": name, "circuits": tried})
    elif tried:
        console.print(f"Tried with the next message: {', '.join(tried)}", markup=False, soft_wrap=True)
    else:
        console.print(f"No circuit of {name} is open.", markup=False)


def _check_in_use(name: str, settings: Settings) -> None:
    if unknown := not_in_use(name, provider_summaries(settings)):
        complain(unknown)
        raise typer.Exit(1)


def _rate(rate: Rate) -> str:
    return (
        f"{rate.sent_per_second:g}" if rate.limit is None else f"{rate.sent_per_second:g} of {rate.limit:g}"
    )


def _errors(provider: ProviderHealth) -> str:
    """Tell the share of attempts that were not sent, and what they came to most often."""
    if not provider.outcomes:
        return "-"
    failed = [each for each in provider.outcomes if each.outcome != "sent"]
    share = sum(each.share for each in failed)
    return f"{share:.0%} {failed[0].code}" if failed else "0%"


def _waiting(waiting: Waiting) -> str:
    return f"{waiting.count}{'+' if waiting.or_more else ''}"


def _print(provider: ProviderHealth) -> None:
    rate, paused = provider.rate, provider.paused
    limit = "no limit" if rate.limit is None else f"at most {rate.limit:g}"
    lines = [f"{provider.name} ({provider.channel}) is {provider.state}"]
    if paused:
        lines.append(f"  paused {moment(paused.at)} by {paused.by}: {paused.reason or 'no reason given'}")
    lines += [
        f"  {rate.sent_per_second:g} sent a second, {limit}",
        f"  {rate.attempts_last_minute} attempts in the last minute",
        f"  {_waiting(provider.waiting)} deliveries wait for it",
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
            f"    {alarm.alarm_id}  {alarm.code}, {alarm.count} times",
            f"      since {moment(alarm.raised_at)}: {alarm.detail or 'no detail given'}",
        ]
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def _circuit(circuit: CircuitHealth) -> list[str]:
    return [
        f"    {circuit.name} is {circuit.state} since {moment(circuit.since)}",
        f"      tried next at {moment(circuit.retry_at)}",
        f"      {circuit.code}: {circuit.detail or 'no detail given'}",
    ]
