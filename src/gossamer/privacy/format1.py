"""Certificates as Gossamer 0.1 wrote them: their sentences become facts, here and nowhere else.

In format 1 many facts were told in English alone. Sentences that 0.1 always wrote follow from other fields and are
dropped; those that tell a fact become that fact; any other sentence is kept word by word, as `noted`. One is added:
0.1 drew Poisson samples less exactly than `truncation_delta` pays for now, and did not say so.
"""

import ast
import re
from typing import Any

from gossamer.base.leak import Leak, Where
from gossamer.base.messages import is_number
from gossamer.privacy.facts import Bought, Unit

FIELDS = frozenset(
    {
        *("epsilon", "delta", "neighbors", "n", "schedule", "capacities", "truncation_delta"),
        *("method", "configuration", "problem", "assumptions", "seed", "versions"),
    }
)
_DERIVED = frozenset(
    {
        "Two tables are neighbours when they have the same number of records and differ in one of them.",
        "Two tables are neighbours when one has a record in a row where the other has none; n, which answers are "
        "divided by, is the same public number for both.",
        "Each record is one row: a person with several rows is protected only as far as group privacy goes.",
        "The number of records n is public.",
        "The loss, the starting point and all hyper-parameters were chosen without looking at these records.",
        "Noise is drawn in float32 from a pseudo-random generator; an attacker cannot break the generator and does not "
        "exploit the gaps between floating-point numbers.",
        "The attacker sees the result and everything public about the run, but neither memory nor running times.",
        "epsilon is infinite: NO PRIVACY is promised.",
    }
)
_CUT = re.compile(r"Poisson samples are cut at a static size; the \S+ that this may cost is part of delta\.")
_COARSE = (
    "Poisson samples were drawn from tables that are right to 2⁻³² per probability. What this may cost is not part of "
    "delta."
)
_ENTROPY, _FIXED = "entropy of the operating system", "a fixed seed: the noise is reproducible"
_SEED = "The seed was fixed: whoever knows or guesses it can subtract the noise. Use it for tests only."
_DIAGNOSTICS = "Non-private diagnostics were computed and looked at: they are outside this guarantee."
_TRUSTED, _NOT_MET = "Trusted, not checked: ", "NOT MET"
_BOUGHT = re.compile(
    r"The loss and the method were set by the (?:private answer '(.+)' besides: its cost is in this guarantee"
    r"|exact answer '(.+)' besides: it is NOT private)\."
)
_SHARE_OF_BUDGET = 0.05
"""What every purchase of 0.1 had: of ε and of δ."""
_READ = r" was read from the records and is outside this guarantee\."
_LEAKS: tuple[tuple[re.Pattern[str], Where], ...] = (
    (re.compile(rf"the declaration of column (?P<name>.+) \((?P<what>.+)\){_READ}", re.DOTALL), "column"),
    (re.compile(rf"the (?P<what>list of classes) of target (?P<name>.+){_READ}", re.DOTALL), "target"),
    (re.compile(rf"the (?P<what>list of groups) of column (?P<name>.+){_READ}", re.DOTALL), "group"),
    (re.compile(rf"(?P<name>\w+), (?P<what>.+),{_READ}"), "argument"),
)


def translate(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a certificate of format 1 as those of the present one."""
    sentences, seed = content.pop("assumptions"), content.pop("seed")
    if not (isinstance(sentences, list) and all(isinstance(each, str) for each in (*sentences, seed))):
        raise TypeError("assumptions and seed must be texts.")
    facts: dict[str, Any] = {
        "unit": Unit("row"),
        "covers": "reals",
        "leaks": (),
        "purchases": (),
        "selection": None,
        # Words that 0.1 did not write are no promise that the seed is secret.
        "reproducible": seed != _ENTROPY or _SEED in sentences,
        "diagnostics": _DIAGNOSTICS in sentences,
        "trusted": (),
        "loss_bounds": None,
        "noted": () if seed in (_ENTROPY, _FIXED) else (f"Randomness: {seed}",),
    }
    if content["capacities"]:
        facts["noted"] += (_COARSE,)
    for sentence in sentences:
        if sentence in _DERIVED or sentence in (_SEED, _DIAGNOSTICS) or _CUT.fullmatch(sentence):
            continue
        if sentence.startswith(_TRUSTED):
            facts["trusted"] += (sentence.removeprefix(_TRUSTED),)
        elif sentence.startswith(_NOT_MET):
            facts["leaks"] += (_leak(sentence.removeprefix(_NOT_MET).lstrip(": ")),)
        elif found := _BOUGHT.fullmatch(sentence):
            facts["purchases"] += (_bought(found[1] or found[2], content),)
        else:
            facts["noted"] += (sentence,)
    return {**content, **facts}


def _bought(name: str, content: dict[str, Any]) -> Bought:
    if not is_number(content["delta"]):
        raise TypeError("delta must be a number.")
    apart = _SHARE_OF_BUDGET * content["epsilon"], _SHARE_OF_BUDGET * content["delta"]
    return Bought(name, (name,), _SHARE_OF_BUDGET, apart=apart)


def _leak(told: str) -> Leak:
    """Return a leak by its parts, or in its own words where they are not those of 0.1."""
    for pattern, where in _LEAKS:
        if found := pattern.fullmatch(told):
            name = found["name"] if where == "argument" else _unquoted(found["name"])
            if name is not None:
                return Leak(name, found["what"], where)
    return Leak("", told, "noted")


def _unquoted(text: str) -> str | None:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, str) else None
