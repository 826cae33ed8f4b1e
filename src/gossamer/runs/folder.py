"""The folder of a run: every file is written at once or not at all, and the certificate last.

    model.npz          the private numbers of the model
    pipeline.json      what they mean: objective, schema, recipe, names
    history.csv        public values of the training, one line a step
    report.html        the same for people
    bundle.zip         all of it in one file that can be signed, for `gossamer-verify`
    certificate.json   what was promised; a folder without it is not a finished run

None of them depends on records but through private answers, and through what the certificate names as a leak; scores on
another table, if the owner asked for them, are marked as not private.
"""

import json
import math
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossamer.base import atomic
from gossamer.runs.recipe import Recipe
from gossamer.runs.storing import largest_size, pack, unpack
from gossamer.tables.schema import Schema
from gossamer.tables.schema_files import schema_from_dict, schema_to_dict

if TYPE_CHECKING:
    from gossamer.privacy.certificate import Certificate

FORMAT = 2
_READABLE = (1, FORMAT)
FILES = ("model.npz", "pipeline.json", "history.csv", "report.html", "certificate.json", "bundle.zip")
_LARGEST_PIPELINE = 1 << 26


class Run(NamedTuple):
    """A finished run, as its folder holds it."""

    model: Any
    """The fitted estimator: it predicts, and knows nothing of its training."""
    schema: Schema
    recipe: Recipe


def save(folder: Path, model: Any, schema: Schema, recipe: Recipe, tested: Mapping[str, Any] | None = None) -> None:
    """Write the folder of a run whose estimator was fitted; `tested` is how well it predicts another table."""
    from gossamer.report import render
    from gossamer.runs import explaining

    content, description = pack(model, recipe.record)
    pipeline = {
        "format": FORMAT,
        "gossamer": metadata.version("gossamer"),
        "objective": recipe.objective,
        "target": schema.target,
        "schema": _published(schema),
        "feature_names": list(schema.feature_names),
        "recipe": recipe.to_dict(),
        "model": description,
    }
    run = Run(model, schema, recipe)
    if explaining.is_readable(run):
        pipeline["learned"] = explaining.told(run, explaining.MOST_SHOWN)
    if tested is not None:
        pipeline["test"] = dict(tested)
    report = render(model.certificate_, model.history_, pipeline)
    atomic.write_bytes(folder / "model.npz", content)
    atomic.write_text(folder / "pipeline.json", json.dumps(pipeline, indent=2, ensure_ascii=False, allow_nan=False))
    atomic.write_text(folder / "history.csv", history_text(model.history_))
    atomic.write_text(folder / "report.html", report)
    atomic.write_text(folder / "certificate.json", model.certificate_.to_json())


def _published(schema: Schema) -> dict[str, Any]:
    """Return a schema without what a draft said of the data about columns that a person then left out."""
    plain = schema_to_dict(schema)
    for column in plain["columns"].values():
        if not column.get("read_from_data"):
            column.pop("reason", None)
    return plain


def history_text(history: Mapping[str, np.ndarray]) -> str:
    """Return public values as CSV, one line a step; what was not recorded is an empty cell."""
    steps = len(next(iter(history.values())))
    columns = [[repr(value) if not math.isnan(value) else "" for value in each.tolist()] for each in history.values()]
    rows = zip(map(str, range(1, steps + 1)), *columns, strict=True)
    return "\n".join([",".join(["step", *history]), *map(",".join, rows), ""])


def is_finished(folder: Path) -> bool:
    """Return whether there is a finished run in a folder."""
    return (folder / "certificate.json").exists()


def require_finished(folder: Path) -> None:
    """Refuse what is not the folder of a finished run."""
    if not is_finished(folder):
        raise ValueError(
            f"{folder} is not a finished run: it has no certificate.json. Name the folder of a run of `gossamer fit`."
        )


def load(folder: Path) -> Run:
    """Read a finished run back; files that are broken, or made up by an attacker, are refused by a ValueError."""
    require_finished(folder)
    path = folder / "pipeline.json"
    try:
        pipeline = _read_pipeline(path)
        # Version 0.1 repeated the certificate's leaks here.
        schema = {name: value for name, value in pipeline["schema"].items() if name != "leaks"}
        declared, recipe = schema_from_dict(schema), Recipe.from_dict(pipeline["recipe"])
        limit = largest_size(pipeline["model"], recipe.record)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not the description of a run: {error}") from None
    content = _read(folder / "model.npz", limit)
    try:
        model = unpack(content, pipeline["model"], recipe.record, declared.features)
    except ValueError as error:
        raise ValueError(f"{folder / 'model.npz'}: {error}") from None
    if model.n_features_in_ != recipe.inputs(declared) or tuple(pipeline["model"]["classes"]) != declared.classes:
        raise ValueError(f"{path}: its schema is that of another model.")
    return Run(model, declared, recipe)


def load_certificate(place: Path) -> "Certificate":
    """Read a certificate: a file, or that of a finished run by its folder."""
    from gossamer.privacy.certificate import Certificate

    path = place / "certificate.json" if place.is_dir() else place
    try:
        return Certificate.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} does not exist. Name a certificate.json, or the folder of a run, as `gossamer fit --out` wrote it."
        ) from None
    except (RecursionError, ValueError) as error:
        reason = str(error).removeprefix("not a certificate: ")
        raise ValueError(
            f"{path} is no certificate, or a broken one ({reason}). Name a certificate.json, or the folder of a run."
        ) from None


def _read_pipeline(path: Path) -> dict[str, Any]:
    pipeline = json.loads(_read(path, _LARGEST_PIPELINE))
    if not isinstance(pipeline, dict) or pipeline.get("format") not in _READABLE:
        raise ValueError(
            f"its format is not one of {', '.join(map(str, _READABLE))}. Was it written by a later version of Gossamer?"
        )
    return pipeline


def _read(path: Path, limit: int) -> bytes:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing, so the run is incomplete. Copy its folder again, or train again.")
    size = path.stat().st_size
    if size > limit:
        raise ValueError(f"{path} has {size} bytes, more than the {limit} that it can need.")
    return path.read_bytes()
