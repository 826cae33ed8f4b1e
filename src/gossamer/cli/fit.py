"""`gossamer fit`: train a private model."""

import contextlib
import functools
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli import shared
from gossamer.cli.options import Flags
from gossamer.cli.verify import leaks, number, verdict
from gossamer.learn._objectives import OBJECTIVES, all_settings, meant

if TYPE_CHECKING:
    from gossamer.runs.recipe import Recipe
    from gossamer.tables.schema import Schema

_DATA, _RUN = "What is public about the table", "The run"
_UNITS = {"row": "records", "person": "persons"}


@dataclass(frozen=True)
class Declared:
    """What is public about a table: a schema file, or flags."""

    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None
    schema: Annotated[
        Path | None, typer.Option(help="A schema file, see `gossamer schema`.", rich_help_panel=_DATA)
    ] = None
    bounds: Annotated[
        list[str] | None, typer.Option(help="A column's bounds, such as age=17:90.", rich_help_panel=_DATA)
    ] = None
    amounts: Annotated[
        list[str] | None,
        typer.Option("--amount", help="An amount's upper bound, such as gain=100000.", rich_help_panel=_DATA),
    ] = None
    categories: Annotated[
        list[str] | None,
        typer.Option("--category", help="A column's values, such as sex=Female|Male.", rich_help_panel=_DATA),
    ] = None
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out.", rich_help_panel=_DATA)] = None
    classes: Annotated[
        str | None,
        typer.Option(help="The target's values, such as no|yes. Of two, the last is positive.", rich_help_panel=_DATA),
    ] = None
    target_range: Annotated[
        str | None,
        typer.Option(
            help="The lowest and highest value of a target that is a number, such as 0:100.", rich_help_panel=_DATA
        ),
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option(help="A value that means missing, in every column, such as -999.", rich_help_panel=_DATA),
    ] = None
    from_data: Annotated[
        bool,
        typer.Option(
            "--from-data",
            help="Read what is not declared from the data, outside the guarantee, instead of buying it privately.",
            rich_help_panel=_DATA,
        ),
    ] = False
    group: Annotated[str | None, typer.Option(help="The column of groups, for worst-group.", rich_help_panel=_DATA)] = (
        None
    )
    groups: Annotated[str | None, typer.Option(help="The groups, such as a|b|c.", rich_help_panel=_DATA)] = None
    id: Annotated[
        str | None,
        typer.Option(
            help="The column that names a row: it is no feature, and predictions repeat it.", rich_help_panel=_DATA
        ),
    ] = None
    person: Annotated[
        str | None,
        typer.Option(
            help="The column of ids, if persons have several rows: whole persons are then protected, and not rows.",
            rich_help_panel=_DATA,
        ),
    ] = None
    rows_per_person: Annotated[
        int | None,
        typer.Option(
            help="How many rows of a person count, the first ones in the table; 10 if not given. Choose it without "
            "looking at the table.",
            rich_help_panel=_DATA,
        ),
    ] = None


@dataclass(frozen=True)
class RunOptions:
    """What a run pays from, saves and prints."""

    budget: Annotated[
        Path | None, typer.Option(help="A budget file to pay from, see `gossamer budget`.", rich_help_panel=_RUN)
    ] = None
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            help="Save the run in OUT/checkpoint after so many steps each; after each tenth of the run if not given. "
            "Until the run is done, that folder holds the key of the noise: whoever reads it can subtract the noise. "
            "0 never saves: a run that is interrupted is then lost, with its budget.",
            rich_help_panel=_RUN,
        ),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run; nothing is paid twice.", rich_help_panel=_RUN)
    ] = False
    test: Annotated[
        Path | None,
        typer.Option(
            help="Another table, to score the model on (AUC, accuracy, Brier score, precision and recall, or R²; for "
            "each group, if groups are declared). The scores are NOT private, and stand in the report. --encoding, "
            "--delimiter and --decimal apply to it too.",
            rich_help_panel=_RUN,
        ),
    ] = None
    weak_delta: Annotated[
        bool,
        typer.Option(
            "--weak-delta",
            help="Accept a δ above 1/n, with which publishing one person's record would be allowed.",
            rich_help_panel=_RUN,
        ),
    ] = False
    certificate: Annotated[
        Path | None, typer.Option(help="A new file for one more copy of the certificate.", rich_help_panel=_RUN)
    ] = None
    search: Annotated[
        str | None,
        typer.Option(
            metavar="[GRID.toml]",
            help="Try several settings within the same budget, and keep the best: those of a file, or a few that suit "
            "the objective. How many trials are made is secret.",
            rich_help_panel=shared.HOW,
        ),
    ] = None
    seed: Annotated[int | None, typer.Option(help="Fixes the noise: for tests only.")] = None


def _settings() -> dict[str, Any]:
    """Return a flag for each setting that only some objectives have."""
    kinds = {setting: str if setting.many else setting.kind for setting in all_settings()}
    return {
        setting.name: Annotated[
            kinds[setting] | None,
            typer.Option(help=f"For {', '.join(names)}: {_small(setting.help)}", rich_help_panel=shared.HOW),
        ]
        for setting, names in all_settings().items()
    }


def _small(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def fit(
    *,
    table: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet, one row a record; if not given, a public table as a demo.")
    ] = None,
    declared: Declared,
    objective: shared.Objective = "logistic",
    out: Annotated[
        Path | None, typer.Option(help="A new folder for the model, the certificate and the report.")
    ] = None,
    promise: shared.Promise,
    reading: shared.Reading,
    training: shared.Training,
    settings: Annotated[dict[str, Any], Flags(_settings)],
    run: RunOptions,
    as_json: shared.AsJson = False,
) -> None:
    """Train a private model on a table: the model, a certificate of what was promised, and a report.

    Every mistake in the table or in the options is found before anything is spent.
    """
    from gossamer.base import atomic
    from gossamer.runs import declaring, fitting, folder, searching
    from gossamer.runs.bundling import write_bundle
    from gossamer.runs.recipe import Recipe
    from gossamer.runs.scoring import score_lines

    _require_out(table, out, promise, run)
    if out is not None and run.resume and folder.is_finished(out):
        fitting.remove_checkpoint(out)
        shared.say(as_json, {"folder": str(out), "finished": True}, f"{out} is finished: nothing to do, nothing spent.")
        return
    if run.certificate is not None:
        shared.require_writable("--certificate", run.certificate)
    parsed = {
        setting.name: setting.parse(str(settings[setting.name]))
        for setting in all_settings()
        if setting.name in settings
    }
    objective = meant(objective, parsed)
    recipe = Recipe(objective, training.method, training.options(), parsed)
    grid = None if run.search is None else searching.read_grid(run.search, recipe)
    with shared.warnings_as_lines():
        records, held_out, schema = declaring.gather(reading.read, table, run.test, recipe.record, vars(declared))
        shared.note(schema.remarks(records))
        budget = fitting.promise(
            records, schema, promise.epsilon, promise.delta, promise.neighbors.value, weak_delta=run.weak_delta
        )
        if held_out is not None and not schema.is_open:
            schema.check(held_out)  # what is wrong with it is better known before anything is spent
            schema.targets(held_out)
            if schema.group is not None and schema.group in held_out:
                schema.group_of(held_out)
        begun = time.monotonic()
        every = run.checkpoint_every
        place = contextlib.nullcontext() if out is None else fitting.run_folder(out, every != 0, run.resume)
        with place as checkpoints:
            reserve, paid = None, list[int]()
            if run.budget is not None:
                payment = fitting.Payment(run.budget, records, schema, budget, objective=objective, out=out)
                reserve = functools.partial(_pay, payment, checkpoints, paid)
            best = None
            if grid is None:
                model, schema = fitting.fit_table(
                    records,
                    schema,
                    recipe,
                    budget,
                    seed=run.seed,
                    progress=True,
                    checkpoints=checkpoints,
                    every=every,
                    reserve=reserve,
                )
            else:
                model, schema, recipe, best = searching.search_table(
                    records, schema, recipe, grid, budget, seed=run.seed, checkpoints=checkpoints, reserve=reserve
                )
            tested = None if held_out is None else _tested(model, recipe, schema, held_out)
            if out is not None:
                folder.save(out, model, schema, recipe, tested)
                opening = write_bundle(out, records, None if run.budget is None else (run.budget, paid[0]))
        if out is not None:
            fitting.remove_checkpoint(out)
    if run.certificate is not None:
        atomic.write_text(run.certificate, model.certificate_.to_json())
    content, lines = _told(model.certificate_, schema, recipe, records.source, time.monotonic() - begun)
    content["folder"] = None if out is None else str(out)
    if best is not None:
        content |= {"search": best, "seconds": None}  # how long it took tells how many trials there were
        lines.append(_found(best))
    if tested is not None:
        content["test"] = tested
        lines += ["", *score_lines(tested)]
    outcome = model.certificate_.verify()
    content["holds"] = bool(outcome)
    lines += ["", "Certificate", str(model.certificate_), "", verdict(model.certificate_, outcome)]
    if out is not None:
        content["opening"] = None if opening is None else str(opening)
        lines.append(f"written to {out}: open report.html to read about it")
        if opening is not None:
            lines.append(f"{opening} tells which table bundle.zip is about: keep it as secret as the table")
    shared.say(as_json, content, "\n".join(lines))


def _tested(model: Any, recipe: "Recipe", schema: "Schema", held_out: Any) -> dict[str, Any] | None:
    """Return scores on another table; a model that is paid for is kept, whatever is wrong with that table."""
    from gossamer.runs.scoring import score_table

    try:
        return score_table(model, recipe, schema, held_out)
    except ValueError as error:
        shared.note([f"--test: there are no scores, because {error}"])
        return None


def _pay(payment: Any, checkpoints: Any, paid: list[int], planned: Any) -> None:
    """Reserve, and keep the reservation's number for the bundle."""
    paid.append(payment.reserve(checkpoints, planned))


def _require_out(table: Path | None, out: Path | None, promise: shared.Promise, run: RunOptions) -> None:
    """Refuse what makes no sense together."""
    every = run.checkpoint_every
    if table is not None and out is None:
        raise ValueError("--out is missing: name a new folder for the model, the certificate and the report.")
    if out is None and (every is not None or run.resume):
        raise ValueError("--checkpoint-every and --resume need --out: a run saves itself in its folder.")
    if every == 0 and run.resume:
        raise ValueError("--checkpoint-every 0 does not go with --resume: without checkpoints nothing is continued.")
    if every and run.search is not None:
        raise ValueError(
            "--checkpoint-every does not go with --search: a search saves its key alone, before it begins. Leave it "
            "out; 0 saves nothing."
        )
    if table is None and run.budget is not None:
        raise ValueError("--budget is for a table of yours: the demo's is public.")
    if run.budget is not None and not math.isfinite(promise.epsilon):
        raise ValueError("--epsilon inf does not go with --budget: no budget can pay for a run without privacy.")


def _found(best: dict[str, Any]) -> str:
    """Say which setting of a search was best."""
    setting = ", ".join(f"{name} = {value}" for name, value in best.items())
    return f"The search chose {setting or 'the settings as they were given'}. Its cost is part of the promise."


def _told(
    certificate: Any, schema: "Schema", recipe: "Recipe", source: str, seconds: float
) -> tuple[dict[str, Any], list[str]]:
    """Return what is said about a run and its target, for programs and for people."""
    from gossamer.base.messages import first_few

    content: dict[str, Any] = {
        "folder": None,
        "objective": recipe.objective,
        "method": certificate.method,
        "epsilon": number(certificate.epsilon),
        "delta": certificate.delta,
        "neighbors": certificate.neighbors,
        "n": certificate.n,
        "unit": certificate.unit.name,
        "target": schema.target,
        "leaks": leaks(certificate),
        "seconds": seconds,
    }
    if schema.target_range is not None:
        content["target_range"] = list(schema.target_range)
        low, high = schema.target_range
        target = f"a number from {low:g} to {high:g}"
    else:
        content["classes"] = list(schema.classes)
        scored = f"; a score above 0 says {schema.classes[-1]!r}" if len(schema.classes) == 2 else ""
        target = f"one of {first_few(map(repr, schema.classes))}{scored}"
    lines = [
        f"Private {OBJECTIVES[recipe.objective].title} on {source}: {certificate.n} {_UNITS[certificate.unit.name]}.",
        f"{schema.target!r} is {target}.",
    ]
    return content, lines
