"""A certificate's facts as sentences. Nothing reads these sentences back: whoever needs a fact asks for the fact."""

from typing import TYPE_CHECKING, Any

from gossamer.base.leak import Leak, Where
from gossamer.privacy.budget import Neighbors
from gossamer.privacy.discovery import Discovery
from gossamer.privacy.facts import Bought, Covers, IdRule, LossBounds, Unit, UnitName

if TYPE_CHECKING:
    from gossamer.privacy.certificate import Certificate
    from gossamer.privacy.searching import Selection

_NEIGHBORS: dict[UnitName, dict[Neighbors, str]] = {
    "row": {
        "replace_one": "Two tables are neighbours when they have the same number of records and differ in one of them.",
        "add_remove": "Two tables are neighbours when one has a record in a row where the other has none; n, which "
        "answers are divided by, is the same public number for both.",
    },
    "person": {
        "replace_one": "Two tables are neighbours when they have the same ids and differ in the rows of one person: in "
        "any or all of them, and in their number. An id is a name, and only says which rows belong together.",
        "add_remove": "Two tables are neighbours when one has a person, with all its rows, where the other has nobody; "
        "n, which answers are divided by, is the same public number for both.",
    },
}
_PUBLIC: dict[UnitName, str] = {
    "row": "The number of records n is public.",
    "person": "The number of persons n is public. The number of rows is not.",
}
_IDS: dict[IdRule, str] = {
    "normalised": "no row is without an id.",
    "normalised, missing ones apart": "each row without an id counts as a person of its own.",
}
_CHOSEN = "The loss, the starting point and {} were chosen without looking at these records."
_ATTACKER = "The attacker sees the result and everything public about the run, but neither memory nor running times."
_COVERS: dict[Covers, tuple[str, ...]] = {
    "bits": (
        "The promise is about the bits that are released: sums and noise are whole numbers, and the noise is large "
        "enough to pay for all that is rounded.",
        "Computers add, multiply, divide and take roots as IEEE 754 says, and what is computed of a record depends on "
        "no other record. Tests try this; no proof covers the compiler.",
        "The noise comes from a cryptographic pseudo-random generator, which the attacker cannot break.",
    ),
    "reals": (
        "The promise is about real numbers. Noise is added in floating point, from a pseudo-random generator; an "
        "attacker cannot break the generator and does not exploit the gaps between floating-point numbers.",
    ),
}
_LEAKS: dict[Where, str] = {
    "argument": "{name}, {what}, was",
    "column": "the declaration of column {name!r} ({what}) was",
    "target": "the {what} of target {name!r} was",
    "group": "the {what} of column {name!r} was",
}
_DIAGNOSTICS = "Non-private diagnostics were computed and looked at: they are outside this guarantee."


def conditions(certificate: "Certificate") -> tuple[str, ...]:
    """Return what must be true for the guarantee to hold, and what else a reader must know about it."""
    unit = certificate.unit
    chosen = "all hyper-parameters" if certificate.selection is None else "all that was not searched for"
    sentences = [_NEIGHBORS[unit.name][certificate.neighbors], *_unit(unit), _PUBLIC[unit.name]]
    sentences += [_CHOSEN.format(chosen), _ATTACKER]
    sentences += _COVERS[certificate.covers]
    if any(isinstance(query.sampling, Discovery) for query in certificate.schedule):
        sentences.append(
            "Values that nobody had listed were released if their noisy count was above a threshold; what a slip of "
            "the noise may cost is part of delta."
        )
    if certificate.capacities:
        sentences.append(
            f"Poisson samples are cut at a static size; the {certificate.truncation_delta:.2g} that this may cost is "
            "part of delta."
        )
    if not certificate.is_private:
        sentences.append("epsilon is infinite: NO PRIVACY is promised.")
    if certificate.reproducible:
        sentences.append(
            "The seed was fixed: whoever knows or guesses it can subtract the noise. Use it for tests only."
        )
    sentences += [f"Trusted, not checked: {why}" for why in certificate.trusted]
    if certificate.loss_bounds is not None:
        sentences += _loss_bounds(certificate.loss_bounds)
    sentences += [_bought(each, certificate.is_private) for each in certificate.purchases]
    if certificate.selection is not None:
        sentences.append(_selected(certificate.selection))
    return (*sentences, *certificate.noted)


def reservations(certificate: "Certificate") -> tuple[str, ...]:
    """Return what was done outside the guarantee, on purpose."""
    return (_DIAGNOSTICS,) if certificate.diagnostics else ()


def unmet(certificate: "Certificate") -> tuple[str, ...]:
    """Return the assumptions that are known to be false: a sentence for each leak."""
    return tuple(map(leak, certificate.leaks))


def leak(told: Leak) -> str:
    """Return a leak as the assumption that is not met."""
    if told.where == "noted":
        return f"NOT MET: {told.what}"
    what = _LEAKS[told.where].format(name=told.name, what=told.what)
    return f"NOT MET: {what} read from the records and is outside this guarantee."


def randomness(reproducible: bool) -> str:
    """Return where the noise came from."""
    return "a fixed seed: the noise is reproducible" if reproducible else "entropy of the operating system"


def code(value: Any) -> str:
    """Return a described setting as Python would write it, such as L2(strength=0.1)."""
    if isinstance(value, dict):
        fields = {name: part for name, part in value.items() if name != "kind"}
        return f"{value.get('kind', '')}({', '.join(f'{name}={code(part)}' for name, part in fields.items())})"
    if isinstance(value, list):
        return f"({', '.join(map(code, value))})"
    return str(value)


def _selected(selection: "Selection") -> str:
    return (
        f"The model is the best, by a noisy score, of a random number of runs: {selection.trials:g} are expected, at "
        f"most {selection.most} are made. How many were made is secret, and so is everything about the others. "
        "Which settings could be tried was fixed without looking at these records; which one was chosen is part of the "
        "private result."
    )


def _unit(unit: Unit) -> tuple[str, ...]:
    """Return what a record is."""
    if unit.ids is None:
        return ("Each record is one row: a person with several rows is protected only as far as group privacy goes.",)
    where = "" if unit.column is None else f" in column {unit.column!r}"
    most = "one row, the first" if unit.rows == 1 else f"{unit.rows} rows, the first"
    return (
        f"Each record is one person: all rows with the same id{where}. Of a person, at most {most} in the table, "
        "count.",
        f"Ids are compared without spaces, case and the form of a number; {_IDS[unit.ids]} Whoever has two ids is "
        "protected as two persons.",
    )


def _loss_bounds(bounds: LossBounds) -> tuple[str, ...]:
    curved = "" if bounds.curvature is None else f", with a second derivative of at most {bounds.curvature:g},"
    return (
        f"The loss is convex in the score{curved} for every target.",
        f"Rows are shortened to norm {bounds.row_norm:g} and the slope of the loss is cut at {bounds.lipschitz:g}; "
        "both numbers are public.",
        "The minimiser is known by its gradient, computed in double precision; its errors of rounding do not add up in "
        "one direction.",
    )


def _bought(bought: Bought, is_private: bool) -> str:
    kind, worth = ("private", "its cost is part of this guarantee") if is_private else ("exact", "it is NOT private")
    if bought.after:
        return f"Besides the model there is the {kind} answer {bought.name!r}: {worth}."
    return f"The loss and the method also depend on the {kind} answer {bought.name!r}: {worth}."
