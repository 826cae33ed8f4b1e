"""`gossamer fit`: train a private model."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import shared
from gossamer.cli.verify import verdict


def fit(
    epsilon: shared.Epsilon = 1.0,
    delta: shared.Delta = None,
    neighbors: shared.Neighbors = shared.NeighborsName.REPLACE_ONE,
    seed: shared.Seed = None,
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
    typer.echo(verdict(model.certificate_, model.certificate_.verify()))
    if certificate is not None:
        certificate.write_text(model.certificate_.to_json(), encoding="utf-8")
        typer.echo(f"written to {certificate}")
