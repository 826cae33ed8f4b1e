"""`gossamer fit`: train a private model."""

import contextlib
import functools
import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli import shared
from gossamer.cli.verify import leaks, number, verdict

if TYPE_CHECKING:
    from gossamer.runs.predicting import Scores
    from gossamer.tables.schema import Schema
    from gossamer.tables.table import Table

_DATA, _HOW, _RUN = "What is public about the table", "How to train", "The run"
_NAMES = {
    "logistic": "logistic regression",
    "auc": "classifier for the AUC",
    "dro": "classifier for the worst case",
    "worst-group": "classifier for the worst group",
}


def fit(
    table: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet, one row a person; if not given, a public table as a demo.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    objective: Annotated[shared.ObjectiveName, typer.Option(help="What to train for.")] = shared.ObjectiveName.LOGISTIC,
    out: Annotated[
        Path | None, typer.Option(help="A new folder for the model, the certificate and the report.")
    ] = None,
    epsilon: shared.Epsilon = 1.0,
    delta: shared.Delta = None,
    neighbors: shared.Neighbors = shared.NeighborsName.REPLACE_ONE,
    schema: Annotated[
        Path | None, typer.Option(help="A schema file, see `gossamer schema`.", rich_help_panel=_DATA)
    ] = None,
    bounds: Annotated[
        list[str] | None, typer.Option(help="A column's bounds, such as age=17:90.", rich_help_panel=_DATA)
    ] = None,
    amount: Annotated[
        list[str] | None, typer.Option(help="An amount's upper bound, such as gain=100000.", rich_help_panel=_DATA)
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="A column's values, such as sex=Female|Male.", rich_help_panel=_DATA)
    ] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out.", rich_help_panel=_DATA)] = None,
    classes: Annotated[
        str | None,
        typer.Option(help="The target's values, such as no|yes: of two, the last is positive.", rich_help_panel=_DATA),
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="The column of groups, for worst-group.", rich_help_panel=_DATA)
    ] = None,
    groups: Annotated[str | None, typer.Option(help="The groups, such as a|b|c.", rich_help_panel=_DATA)] = None,
    group_shares: Annotated[
        str | None,
        typer.Option(
            help="Each group's public share, such as 0.6,0.3,0.1; need not be exact. If not given, 5 % of the budget "
            "buy it.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    encoding: shared.Encoding = None,
    delimiter: shared.Delimiter = None,
    decimal: shared.Decimal = ".",
    method: Annotated[
        shared.MethodName | None, typer.Option(help="The objective's own if not given.", rich_help_panel=_HOW)
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Iterations.", rich_help_panel=_HOW)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the model.", rich_help_panel=_HOW)] = None,
    clip: Annotated[
        float | None, typer.Option(help="Bound on one record's gradient in the model.", rich_help_panel=_HOW)
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Expected size of a sample, for methods that sample.", rich_help_panel=_HOW)
    ] = None,
    hidden: Annotated[
        str | None, typer.Option(help="Sizes of hidden layers, such as 64,32; not for logistic.", rich_help_panel=_HOW)
    ] = None,
    divergence: Annotated[
        str | None, typer.Option(help="For dro: chi-square, kl, kl-cvar:0.1 or cressie-read:3.", rich_help_panel=_HOW)
    ] = None,
    penalty: Annotated[
        float | None, typer.Option(help="For dro: the price of one unit of divergence.", rich_help_panel=_HOW)
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="For dro: the most divergence, in place of a penalty.", rich_help_panel=_HOW)
    ] = None,
    budget: Annotated[
        Path | None, typer.Option(help="A budget file to pay from, see `gossamer budget`.", rich_help_panel=_RUN)
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            help="Steps between two times that the run saves itself in OUT/checkpoint; a tenth of the run if not "
            "given. Until the run is done that folder holds the key of the noise: whoever reads it can subtract the "
            "noise. 0 never saves: a run that is interrupted is then lost, with its budget.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run; nothing is paid twice.", rich_help_panel=_RUN)
    ] = False,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Another table, to print accuracy and AUC on: NOT private. --encoding, --delimiter and --decimal are "
            "for it too.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="A new file for one more copy of the certificate.", rich_help_panel=_RUN)
    ] = None,
    seed: shared.Seed = None,
    as_json: shared.AsJson = False,
) -> None:
    """Train a private model on a table: the model, a certificate of what was promised, and a report.

    Every mistake in the table or in the options is found before anything is spent.
    """
    from gossamer import atomic
    from gossamer.runs import declaring, fitting, folder
    from gossamer.runs.predicting import score_table
    from gossamer.runs.recipe import Recipe
    from gossamer.tables.reading import read_table

    _require_out(table, out, budget, epsilon, checkpoint_every, resume)
    if out is not None and resume and folder.is_finished(out):
        fitting.remove_checkpoint(out)
        shared.say(as_json, {"folder": str(out), "finished": True}, f"{out} is finished: nothing to do, nothing spent.")
        return
    if certificate is not None:
        shared.require_writable("--certificate", certificate)
    given = {"steps": steps, "learning_rate": learning_rate, "clip": clip, "batch_size": batch_size}
    recipe = Recipe(
        objective.value,
        None if method is None else method.value,
        {name: value for name, value in given.items() if value is not None},
        _numbers("hidden", hidden, int) or (),
        divergence,
        penalty,
        radius,
        _numbers("group-shares", group_shares, float),
    )
    flags = {"bounds": bounds, "amounts": amount, "categories": category, "ignore": ignore, "classes": classes}
    flags |= {"groups": groups}
    with shared.warnings_as_lines():
        read = functools.partial(read_table, encoding=encoding, delimiter=delimiter, decimal=decimal)
        records, held_out, declared = declaring.gather(read, table, test, schema, target, group, flags)
        shared.note(declared.remarks(records))
        promise = fitting.promise(records, epsilon, delta, neighbors.value)
        test_rows = None if held_out is None else (declared.encode(held_out), declared.labels(held_out))
        begun = time.monotonic()
        place = contextlib.nullcontext() if out is None else fitting.run_folder(out, checkpoint_every != 0, resume)
        with place as checkpoints:
            reserve = None
            if budget is not None:
                reserve = functools.partial(
                    fitting.reserve_from, budget, records, promise, objective.value, out, checkpoints
                )
            model = fitting.fit_table(
                records,
                declared,
                recipe,
                promise,
                seed=seed,
                progress=True,
                checkpoints=checkpoints,
                every=checkpoint_every,
                reserve=reserve,
            )
            if out is not None:
                folder.save(out, model, declared, recipe)
        if out is not None:
            fitting.remove_checkpoint(out)
    if certificate is not None:
        atomic.write_text(certificate, model.certificate_.to_json())
    scores = None if test_rows is None else score_table(model, *test_rows)
    _report(records, held_out, declared, model, recipe.objective, out, scores, time.monotonic() - begun, as_json)


def _require_out(
    table: Path | None, out: Path | None, budget: Path | None, epsilon: float, every: int | None, resume: bool
) -> None:
    """Refuse what makes no sense together."""
    if table is not None and out is None:
        raise ValueError("--out is missing: name a new folder for the model, the certificate and the report.")
    if out is None and (every is not None or resume):
        raise ValueError("--checkpoint-every and --resume need --out: a run saves itself in its folder.")
    if every == 0 and resume:
        raise ValueError("--checkpoint-every 0 does not go with --resume: without checkpoints nothing is continued.")
    if table is None and budget is not None:
        raise ValueError("--budget is for a table of yours: the demo's is public.")
    if budget is not None and not math.isfinite(epsilon):
        raise ValueError("--epsilon inf does not go with --budget: no privacy costs more than any budget holds.")


def _numbers(name: str, text: str | None, kind: type) -> tuple[Any, ...] | None:
    """Return the numbers of a list such as 64,32."""
    try:
        return None if text is None else tuple(kind(each) for each in text.split(","))
    except ValueError:
        raise ValueError(f"--{name} {text} must be numbers with commas between them.") from None


def _report(
    table: "Table",
    held_out: "Table | None",
    schema: "Schema",
    model: Any,
    objective: str,
    out: Path | None,
    scores: "Scores | None",
    seconds: float,
    as_json: bool,
) -> None:
    from gossamer.tables.wording import shown_list

    certificate = model.certificate_
    outcome = certificate.verify()
    content: dict[str, Any] = {
        "folder": None if out is None else str(out),
        "objective": objective,
        "method": certificate.method,
        "epsilon": number(certificate.epsilon),
        "delta": certificate.delta,
        "neighbors": certificate.neighbors,
        "n": certificate.n,
        "target": schema.target,
        "classes": list(schema.classes),
        "holds": bool(outcome),
        "leaks": leaks(certificate),
        "seconds": seconds,
    }
    scored = f"; a score above 0 says {schema.classes[-1]!r}" if len(schema.classes) == 2 else ""
    lines = [
        f"Private {_NAMES[objective]} on {table.source}: {table.n} records.",
        f"{schema.target!r} is one of {shown_list(map(repr, schema.classes))}{scored}.",
    ]
    if scores is not None and held_out is not None:
        content["test"] = {"private": False, "n": held_out.n, **scores._asdict()}
        auc = "" if scores.auc is None else f"   AUC {scores.auc:.3f}"
        lines.append(
            f"accuracy {scores.accuracy:.3f}{auc}   (on {held_out.n} other rows; these figures are NOT private)"
        )
    lines += ["", "Certificate", str(certificate), "", verdict(certificate, outcome)]
    if out is not None:
        lines.append(f"written to {out}: report.html says it all for people")
    shared.say(as_json, content, "\n".join(lines))
