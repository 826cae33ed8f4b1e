"""`gossamer audit`: attack what a run did."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import shared
from gossamer.cli.verify import number, verdict


def audit(
    run: Annotated[Path, typer.Argument(help="The folder of a run, as `gossamer fit --out` wrote it.")],
    reading: shared.Reading,
    runs: Annotated[int, typer.Option(help="How many runs are attacked with the canary, and how many without.")] = 1000,
    table: Annotated[
        Path | None,
        typer.Option(help="A table for membership inference, such as the run's own: what comes out is NOT private."),
    ] = None,
    canaries: Annotated[
        int | None,
        typer.Option(
            help="Only rehearse the run once, on a made-up table of so many canaries. What comes out is kept in "
            "RUN/audits.json, for a bundle.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Fixes the attacks.")] = 0,
    as_json: shared.AsJson = False,
) -> None:
    """Attack the run's method, problem and budget on made-up records; exit code 1 if the certificate is beaten.

    Canaries: runs with one hostile record are told from runs with its opposite, which proves a lower bound on ε.
    Membership inference: who was in models trained on random halves of a table? And the certificate is recomputed.
    An attack that finds little proves nothing; one that finds too much proves that the certificate is wrong.
    """
    from gossamer.runs.auditing import attack_canary, attack_members, most_provable
    from gossamer.runs.folder import load, load_certificate

    if runs < 100:
        raise ValueError(f"--runs {runs} must be at least 100: fewer prove nothing.")
    loaded, certificate = load(run), load_certificate(run)
    if not math.isfinite(certificate.epsilon):
        raise ValueError(f"{run} promises no privacy, ε is infinite: there is nothing to attack.")
    if canaries is not None:
        _rehearse(run, canaries, seed, as_json)
        return
    records = None if table is None else reading.read(table)
    with shared.warnings_as_lines():
        outcome = certificate.verify()
        typer.echo(f"attacking {2 * runs} runs by a canary ...", err=True)
        canary = attack_canary(loaded, certificate, runs, seed)
        typer.echo("attacking 64 models by membership inference ...", err=True)
        members = attack_members(loaded, certificate, records, seed)
    most = most_provable(canary)
    stands = bool(outcome) and bool(canary) and bool(members)
    content: dict[str, Any] = {
        "stands": stands,
        "certificate": {"holds": bool(outcome), "recomputed_epsilon": number(outcome.epsilon)},
        "canary": {
            "stands": bool(canary),
            "epsilon_lower_bound": number(canary.lower_bound),
            "claimed_epsilon": number(canary.claimed),
            "most_provable_epsilon": number(most),
            "confidence": canary.confidence,
            "runs": canary.runs,
        },
        "membership": {
            "stands": bool(members),
            "private": table is None,
            "auc": {name: attack.auc.value for name, attack in members.attacks.items()},
            "auc_limit": members.scheduled.auc,
        },
    }
    source = "a table made from the schema" if table is None else f"{table}; these figures are NOT private"
    lines = [
        f"certificate   {verdict(certificate, outcome)}",
        f"canary        {'stands' if canary else 'BEATEN'}: {canary.runs} runs with the canary and as many "
        f"without prove, with 95 % confidence, that ε is at least {canary.lower_bound:.3g}. So many runs can prove "
        f"{most:.3g} at most. Training claims ε = {canary.claimed:g}",
        f"membership    {'stands' if members else 'BEATEN'}, on {source}",
        str(members),
    ]
    shared.say(as_json, content, "\n".join(lines))
    if not stands:
        raise typer.Exit(1)


def _rehearse(run: Path, canaries: int, seed: int, as_json: bool) -> None:
    """Audit one rehearsal, and keep what it proved beside the run."""
    import json

    from gossamer.base import atomic
    from gossamer.runs.auditing import attack_one_run
    from gossamer.runs.folder import load, load_certificate

    if canaries < 100:
        raise ValueError(f"--canaries {canaries} must be at least 100: fewer prove nothing.")
    with shared.warnings_as_lines():
        found = attack_one_run(load(run), load_certificate(run), canaries, seed)
    content: dict[str, Any] = {
        "attack": "one rehearsal with canaries, all answers seen",
        "epsilon_lower_bound": found.lower_bound,
        "epsilon_claimed": found.claimed,
        "confidence": found.confidence,
        "canaries": found.canaries,
        "records": "made up",
    }
    atomic.write_text(run / "audits.json", json.dumps([content], indent=2))
    text = (
        f"one run       {'stands' if found else 'BEATEN'}: one rehearsal with {found.canaries} canaries proves, with "
        f"95 % confidence, that ε is at least {found.lower_bound:.3g}. Training claims ε = {found.claimed:g}"
    )
    shared.say(as_json, {"stands": bool(found), **content}, text)
    if not found:
        raise typer.Exit(1)
