"""The command line: `gossamer fit | plan | verify | reproduce`."""

import dataclasses
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gossamer.experiments import NAMES, Settings, run

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Private training beyond DP-SGD: a model, and a certificate of what was promised.",
)


class MethodName(StrEnum):
    """Methods that the command line offers."""

    GD = "GD"
    SGD = "SGD"
    SVRG = "SVRG"
    SVRGPP = "SVRGpp"
    ACCMD = "AccMD"
    SPIDER = "Spider"
    STO_SPIDER = "StoSpider"
    ADA_SPIDER = "AdaSpider"
    SGDA = "SGDA"
    PRIVATE_DIFF = "PrivateDiff"
    RGDA = "RGDA"
    DOUBLE_SPIDER = "DoubleSpider"
    RECURSIVE_SPIDER = "RecursiveSpider"
    O2NC = "O2NC"


class NeighborsName(StrEnum):
    """What neighbouring tables are."""

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


Epsilon = Annotated[float, typer.Option(help="ε of the guarantee.")]
Delta = Annotated[float | None, typer.Option(help="δ of the guarantee; n ** -1.1 if not given.")]
NeighborsOption = Annotated[NeighborsName, typer.Option(help="Which tables count as neighbours.")]


@app.command()
def fit(
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    neighbors: NeighborsOption = NeighborsName.REPLACE_ONE,
    seed: Annotated[int | None, typer.Option(help="Fixes the noise: for tests only.")] = None,
    certificate: Annotated[Path | None, typer.Option(help="Where to write the certificate as JSON.")] = None,
) -> None:
    """Train a private logistic regression on scikit-learn's breast-cancer table and show its certificate."""
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import train_test_split

    from gossamer import datasets
    from gossamer.learn import PrivateLogisticRegression

    table = datasets.breast_cancer()
    # Which rows are tested is not secret; the seed of the split has nothing to do with the noise.
    X, X_test, y, y_test = train_test_split(table.X, table.y, test_size=0.25, stratify=table.y, random_state=0)
    model = PrivateLogisticRegression(
        epsilon,
        delta,
        data_norm=table.row_norm,
        classes=table.classes,
        neighbors=neighbors.value,
        random_state=seed,
        progress=True,
    )
    model.fit(X, y)
    scores = model.decision_function(X_test)
    typer.echo(f"Private logistic regression on the breast-cancer table: {len(y)} records, {len(y_test)} held out.")
    typer.echo(
        f"accuracy {model.score(X_test, y_test):.3f}   AUC {roc_auc_score(y_test, scores):.3f}   (held-out rows)\n"
    )
    typer.echo(f"Certificate\n{model.certificate_}\n")
    typer.echo(_verdict(model.certificate_))
    if certificate is not None:
        certificate.write_text(model.certificate_.to_json(), encoding="utf-8")
        typer.echo(f"written to {certificate}")


@app.command()
def plan(
    n: Annotated[int, typer.Option(help="Number of records.")],
    epsilon: Epsilon = 1.0,
    delta: Delta = None,
    method: Annotated[MethodName, typer.Option(help="Which method.")] = MethodName.SGD,
    steps: Annotated[int | None, typer.Option(help="Iterations.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Expected size of a sample, for methods that sample.")] = None,
    clip: Annotated[float | None, typer.Option(help="Bound on one record's gradient.")] = None,
    neighbors: NeighborsOption = NeighborsName.REPLACE_ONE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a method would ask and with how much noise, before any data is read."""
    import gossamer as gs

    kind = getattr(gs.methods, method.value)
    given = {"steps": steps, "batch_size": batch_size, "clip": clip}
    given = {name: value for name, value in given.items() if value is not None}
    unknown = sorted(set(given) - {field.name for field in dataclasses.fields(kind)})
    if unknown:
        raise ValueError(f"{method.value} has no {' and no '.join(unknown)}. Leave the option out.")
    configured = kind(**given)
    budget = gs.Budget(epsilon, n**-1.1 if delta is None else delta, neighbors.value)
    planned = gs.plan(configured, n, budget)
    if as_json:
        content = {
            "method": method.value,
            "n": n,
            "epsilon": epsilon,
            "delta": budget.delta,
            "neighbors": neighbors.value,
            "schedule": planned.schedule.to_dicts(),
        }
        typer.echo(json.dumps(content, indent=2))
    else:
        typer.echo(str(planned))


@app.command()
def verify(certificate: Annotated[Path, typer.Argument(help="A certificate in JSON.")]) -> None:
    """Recompute a certificate's ε; exit code 1 if it does not hold."""
    from gossamer import Certificate

    read = Certificate.from_json(certificate.read_text(encoding="utf-8"))
    typer.echo(_verdict(read))
    if not read.verify():
        raise typer.Exit(1)


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(help=f"Which experiment: {', '.join(NAMES)}.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data files are; else $GOSSAMER_DATA, else a cache directory.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write results; ./reproduce/NAME if not given.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version that only shows that it works.")] = False,
    seed: Annotated[int, typer.Option(help="Fixes all randomness: the data sets are public.")] = 0,
    data: Annotated[str | None, typer.Option(help="Which data set, where an experiment has a choice.")] = None,
) -> None:
    """Make a paper's tables and figures again, from public data."""
    settings = Settings(data_dir, out if out is not None else Path("reproduce", name), quick, seed, data)
    run(name, settings)
    typer.echo(f"written to {settings.out}")


def _verdict(certificate) -> str:
    outcome = certificate.verify()
    said = (
        f"{'holds' if outcome else 'DOES NOT HOLD'}: recomputed ε = {outcome.epsilon:.4g} at δ = {certificate.delta:g}"
    )
    return f"{said} by {outcome.accountant}; the certificate says ε = {certificate.epsilon:g}"


def main() -> None:
    """Run the command; a mistake in the input is one line, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        typer.echo(f"gossamer: {error}", err=True)
        raise SystemExit(2) from None
