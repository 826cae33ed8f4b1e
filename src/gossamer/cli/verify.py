"""`gossamer verify`: recompute what a certificate says."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import shared


def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate in JSON, or the folder of a run.")],
    as_json: shared.AsJson = False,
) -> None:
    """Recompute a certificate's ε; exit code 1 if it does not hold."""
    from gossamer.certificate import Certificate

    path = certificate / "certificate.json" if certificate.is_dir() else certificate
    read = Certificate.from_json(path.read_text(encoding="utf-8"))
    outcome = read.verify()
    content = {
        "holds": bool(outcome),
        "epsilon": number(read.epsilon),
        "recomputed_epsilon": number(outcome.epsilon),
        "delta": read.delta,
        "accountant": outcome.accountant,
    }
    shared.say(as_json, content, verdict(read, outcome))
    if not outcome:
        raise typer.Exit(1)


def verdict(certificate: Any, outcome: Any) -> str:
    """Return the outcome of a recomputation in one line."""
    return (
        f"{'holds' if outcome else 'DOES NOT HOLD'}: recomputed ε = {outcome.epsilon:.4g} at δ = {certificate.delta:g} "
        f"by {outcome.accountant}; the certificate says ε = {certificate.epsilon:g}"
    )


def number(value: float) -> float | str:
    """Return a number as JSON can hold it."""
    return value if math.isfinite(value) else "inf"
