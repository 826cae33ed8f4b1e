"""Check a privacy certificate of Gossamer, or a bundle of evidence, without trusting Gossamer.

    python gossamer_verify.py BUNDLE.zip [--key owner.pub] [--json]

One file of plain Python: it needs NumPy and SciPy, and `cryptography` to check signatures. It never imports Gossamer or
JAX. It recomputes ε from the list of queries with an accountant of its own, and checks every number that follows from
others, and a bundle's hashes and signatures. Exit codes: 0 the claim holds; 1 it is false; 2 it holds, but assumptions
that it rests on are NOT MET; 3 damaged, or something is in it that is not known here. No checker can know that the
noise was drawn, and that the run was the one described: whoever signed it states that.
"""

import argparse
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy.special import logsumexp, ndtr

HOLDS, FALSE, NOT_MET, DAMAGED, TOLERANCE, ROUNDING = 0, 1, 2, 3, 1e-3, 1e-6
"""How far a recomputed ε, and two computations of the same sum, may be apart. The accountant errs by less, upwards."""


class Damaged(ValueError):  # noqa: N818
    """Something that cannot be judged: it is broken, or not known here."""


# --- The accountant: from queries to ε ------------------------------------------------------------------------------


class Cost(NamedTuple):
    """`count` Gaussian queries, each about every record with probability `rate` on its own; σ = noise/threshold."""

    rate: float
    sigma: float
    count: int  # type: ignore[assignment]  # not the method of tuples


PAIRS = {"replace_one": ("replace",), "add_remove": ("remove", "add")}
"""The worst pairs (P, Q) for a relation between neighbours at rate r, with N_m = N(m, σ²) and M_m = (1−r)N₀ + rN_m:
replace (M₁, M₋₁), remove (M₁, N₀), add (N₀, M₁). (Zhu, Dong and Wang, 2022)"""
MOST_CELLS, LEAST_CELLS, FINENESS, BEYOND = 1 << 22, 1 << 15, 1e-4, 23.0


def losses(cost: Cost, pair: str, tilt: float, points: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return log P and the privacy loss log P/Q on an even grid of outcomes, where P·exp(tilt·loss) has its mass.

    Outcomes are in units of σ. A tilt moves the mass by at most 2·tilt/σ; losses bend within a distance of σ.
    """
    reach = 14.0 + (2.0 + 2.0 * abs(tilt)) / cost.sigma
    size = int(2 * reach / min(0.1, 0.2 * cost.sigma)) + 2
    if size > 50_000:  # too large to compute: as large as can be
        return np.zeros(1), np.full(1, math.copysign(math.inf, tilt))
    u = np.linspace(-reach, reach, size)
    none, once = np.log1p(-cost.rate) if cost.rate < 1 else -math.inf, math.log(cost.rate) - 0.5 / cost.sigma**2
    while True:
        up, down = (np.logaddexp(none, once + sign * u / cost.sigma) for sign in (1, -1))
        p, q = {"replace": (up, down), "remove": (up, 0 * u), "add": (0 * u, up)}[pair]
        log_p, loss = p - 0.5 * u**2 - 0.5 * math.log(2 * math.pi) + math.log(u[1] - u[0]), p - q
        if not points:
            return log_p, loss
        kept = u[log_p + tilt * loss > np.max(log_p + tilt * loss) - 50.0]
        u, points = np.linspace(kept[0] - 0.1, kept[-1] + 0.1, points), 0  # again, on a finer grid


def log_moment(costs: list[Cost], pair: str, tilt: float) -> float:
    """Return log E_P exp(tilt·loss) of all queries together: it is tilt times their Rényi divergence."""
    laws = [losses(cost, pair, tilt) for cost in costs]
    return sum(c.count * float(logsumexp(p + tilt * loss)) for c, (p, loss) in zip(costs, laws, strict=True))


def epsilon_of(costs: list[Cost], delta: float, neighbors: str) -> float:
    """Return an upper bound on the least ε for which the queries together are (ε, δ)-differentially private."""
    if delta <= 0 or leading(costs) > 1e5 or any(cost.sigma < 0.01 for cost in costs):
        return math.inf  # there is so little noise that nobody is protected
    return max(_epsilon(costs, delta, pair) for pair in PAIRS[neighbors])


def _epsilon(costs: list[Cost], delta: float, pair: str) -> float:
    """Compose the laws of the privacy losses by a Fourier transform, and read ε off δ(ε) = E_P (1 − exp(ε − loss))₊.

    Losses are rounded to a grid of width h such that both P and Q keep their mass: each is split between the two grid
    points around it. This never lowers δ (Doroshenko et al., 2022), and it adds at most h²/4 to a loss's variance. The
    Rényi bound ε ≤ (log M(t) + log a(t) − log δ)/t says which part of the losses matters at δ: the laws are multiplied
    by exp(t·loss), which centres that part, so that the rounding errors of the transform are small beside it.
    """

    def renyi(t: float) -> float:
        return (log_moment(costs, pair, t) + t * math.log(t) - (1 + t) * math.log1p(t) - math.log(delta)) / t

    tilts = np.geomspace(1e-3, 1e5, 41)
    for _ in range(2):  # a coarse search, then a finer one
        best = int(np.argmin([renyi(t) for t in tilts]))
        tilts = np.geomspace(tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)], 17)
    tilt = float(tilts[len(tilts) // 2])
    if not math.isfinite(renyi(tilt)):
        return math.inf

    points = [losses(cost, pair, tilt, points=1 << 16) for cost in costs]
    weights = [np.exp(log_p + tilt * loss - logsumexp(log_p + tilt * loss)) for log_p, loss in points]
    means = [float(w @ loss) for w, (_, loss) in zip(weights, points, strict=True)]
    deviations = [math.sqrt(float(w @ (loss - m) ** 2)) for w, m, (_, loss) in zip(weights, means, points, strict=True)]
    deviation = math.sqrt(sum(c.count * s**2 for c, s in zip(costs, deviations, strict=True)))
    width, room = deviation, FINENESS * deviation**2
    while sum(c.count * min(width**2 / 4, s * width) for c, s in zip(costs, deviations, strict=True)) > room:
        width /= 1.25

    # Chernoff's bound says between which losses all but exp(−23) of the tilted mass is.
    here, steps = log_moment(costs, pair, tilt), 2.0 ** np.arange(-10, 7) / deviation
    ends = [sum(c.count * end(loss) for c, (_, loss) in zip(costs, points, strict=True)) for end in (np.min, np.max)]
    low = max(ends[0], *(-(log_moment(costs, pair, tilt - s) - here + BEYOND) / s for s in steps))
    high = min(ends[1], *((log_moment(costs, pair, tilt + s) - here + BEYOND) / s for s in steps))
    width = max(min(width, (high - low) / LEAST_CELLS), (high - low) / MOST_CELLS)  # a coarse grid is a bound, too
    size = 1 << math.ceil(math.log2((high - low) / width + 2))
    first = math.floor(low / width)

    spectrum, log_mass = np.ones(size // 2 + 1, complex), 0.0
    for cost, (log_p, loss) in zip(costs, points, strict=True):
        cell = np.floor(loss / width)
        upper = -np.expm1(cell * width - loss) / -np.expm1(-width)  # the share that keeps the mass of Q = P·exp(−loss)
        rounded = np.zeros(size)
        log_scale = float(np.max(log_p + tilt * loss))
        for at, share in ((cell, 1 - upper), (cell + 1, upper)):
            mass = share * np.exp(log_p + tilt * at * width - log_scale)
            rounded += np.bincount(at.astype(np.int64) % size, mass, size)
        log_mass += cost.count * (log_scale + math.log(rounded.sum()))
        spectrum *= np.fft.rfft(rounded / rounded.sum()) ** cost.count
    tilted = np.roll(np.fft.irfft(spectrum, size), -(first % size))

    grid = width * (first + np.arange(size))
    centre = float(np.clip(renyi(tilt), grid[0], grid[-1]))
    with np.errstate(over="ignore"):
        p_above = np.cumsum((tilted * np.exp(-tilt * (grid - centre)))[::-1])[::-1]
        q_above = np.cumsum((tilted * np.exp(-(1 + tilt) * (grid - centre)))[::-1])[::-1]
        deltas = np.exp(log_mass - tilt * centre) * (p_above - np.exp(grid - centre) * q_above)
    # Far below the centre the transform's rounding errors are magnified; ε is above that, by Rényi's own slack.
    usable = np.flatnonzero(grid >= max(0.0, centre - 8 * deviation, centre - 15 / tilt))
    enough = usable[deltas[usable] <= delta]
    right = int(enough[0]) if enough.size else -1
    if right in (-1, usable[0]):
        return float(grid[right]) if enough.size else math.inf
    # Between grid points δ is linear in exp(ε).
    share = (deltas[right - 1] - delta) / (deltas[right - 1] - deltas[right])
    return float(grid[right - 1] + math.log1p(share * math.expm1(width)))


# --- The certificate: every number that follows from others ----------------------------------------------------------
INFLATION, LOG_RATIO = 1.2e-3, 5000 * 2.0**-32
"""By how much rounding to whole numbers may stretch what one record does to a sum; and how far, in log probability, the
drawn noise of a whole run is from exact rounded Gaussians."""
Fields = dict[str, Any]


class Part(NamedTuple):
    """What one entry of the schedule costs."""

    cost: Cost
    epsilon: float = 0.0  # to be added to ε
    factor: float = 1.0  # of δ
    rows: int = 0  # kept for it alone: no record meets two answers of such queries
    lost: Callable[[int], float] | None = None  # by capacity: how probably a sample differs from an ideal one


def all_records(query: Fields, sigma: float, certificate: Fields) -> Part:
    """Every record, every time."""
    require("sampling", query["sampling"], {"kind": TEXT})
    return Part(Cost(1.0, sigma, query["count"]))


def poisson(query: Fields, sigma: float, certificate: Fields) -> Part:
    """Each record with probability `rate`, on its own; samples are cut at the query's capacity."""
    require("sampling", query["sampling"], {"kind": TEXT, "rate": RATE})
    rate, n = query["sampling"]["rate"], certificate["n"]

    def lost(capacity: int) -> float:
        drawn, share = n * 2.0**-117 + n**2 * 2.0**-127, (capacity + 1) / n  # random numbers have finitely many bits
        rest = (1 - share) * math.log((1 - share) / (1 - rate)) if share < 1 else 0.0 if share == 1 else math.inf
        chernoff = math.exp(-n * (share * math.log(share / rate) + rest))
        return drawn + chernoff if share > rate else 1.0

    return Part(Cost(rate, sigma, query["count"]), lost=lost)


def blocks(query: Fields, sigma: float, certificate: Fields) -> Part:
    """Blocks of records that are disjoint: one record meets one answer. Neighbours must have equally many records."""
    require("sampling", query["sampling"], {"kind": TEXT, "rows": WHOLE, "stream": of(dict, type(None))})
    stream = query["sampling"]["stream"] or {"strategy": "tree", "length": 1, "first": 0, "share": 1}
    require("stream", stream, {"strategy": TEXT, "length": WHOLE, "first": of(int, above=-1), "share": WHOLE})
    mixed = certificate["covers"] == "bits" and stream["strategy"] != "tree"
    if mixed or stream["first"] + stream["share"] > stream["length"] or certificate["neighbors"] != "replace_one":
        raise Damaged(f"blocks of query {query['name']!r}: under add_remove, too long a stream, or not about bits")
    return Part(Cost(1.0, sigma, 1), rows=query["count"] * query["sampling"]["rows"])


def perturbed_objective(query: Fields, sigma: float, certificate: Fields) -> Part:
    """The minimiser of a sum with a random linear term: a Gaussian for each corner, and a ratio of Jacobians."""
    require("sampling", query["sampling"], {"kind": TEXT, "jacobian": POSITIVE})
    bounds, settings = certificate["loss_bounds"], certificate["configuration"]
    length = bounds["row_norm"] ** 2 + bool(settings["intercept"])
    jacobian = math.log1p(bounds["curvature"] * length / (certificate["n"] * settings["strength"]))
    stated = query["sampling"]["jacobian"]
    if not stated >= jacobian * (1 - ROUNDING) > 0:
        raise Damaged(f"jacobian = {stated:g} of query {query['name']!r} comes out as {jacobian:g}")
    corners = (4.0 if certificate["neighbors"] == "replace_one" else 2.0) ** query["count"]
    return Part(Cost(1.0, sigma, query["count"]), query["count"] * stated, corners)


def discovery(query: Fields, sigma: float, certificate: Fields) -> Part:
    """Counts of values that nobody listed, released above a threshold; a rare one slips through with probability β."""
    require("sampling", query["sampling"], {"kind": TEXT, "columns": WHOLE, "threshold": POSITIVE})
    beta = query["sampling"]["columns"] * float(ndtr(-query["sampling"]["threshold"]))
    return Part(Cost(1.0, sigma, query["count"]), lost=lambda capacity: beta)


# Ways to ask. A new one is one function; one that is not here is refused.
KINDS = {"all": all_records, "poisson": poisson, "blocks": blocks, "discovery": discovery}
KINDS["perturbed objective"] = perturbed_objective


def of(*kinds: type, above: float = -math.inf, below: float = math.inf) -> Callable[[Any], bool]:
    """Return what is true of values of these types, and numbers between these bounds alone."""
    return lambda x: type(x) in kinds and (type(x) not in (int, float) or above < x < below)


def one_of(*values: Any) -> Callable[[Any], bool]:
    """Return what is true of these values alone."""
    return lambda x: any(type(x) is type(value) and x == value for value in values)


def list_of(kind: Any) -> Callable[[Any], bool]:
    """Return what is true of a list of such values, or of objects with such fields."""
    holds = (lambda row: require("an entry", row, kind)) if isinstance(kind, dict) else kind
    return lambda x: isinstance(x, list) and all(map(holds, x))


TEXT, OBJECT, WHOLE, FLAG = of(str), of(dict), of(int, above=0, below=2**62), of(bool)
POSITIVE, RATE, AT_LEAST_0 = of(int, float, above=0), of(int, float, above=0, below=1), of(int, float, above=-5e-324)
PURCHASE = {"name": TEXT, "queries": list_of(TEXT), "share": RATE, "after": FLAG, "apart": one_of(None)}
IDS, WHERE = one_of("normalised", "normalised, missing ones apart"), one_of("argument", "column", "target", "group")
PERSON = {"name": one_of("person"), "column": TEXT, "ids": IDS, "rows": WHOLE}
QUERY = {
    **{"name": TEXT, "count": WHOLE, "sampling": lambda x: OBJECT(x) and x.get("kind") in KINDS, "dual": FLAG},
    **{"weight": POSITIVE, "noise": of(int, float, type(None), above=0), "noise_multiplier": AT_LEAST_0},
    **{"clip": TEXT, "gradients": WHOLE, "acute": FLAG},
}
CERTIFICATE = {
    **{"format": one_of(2), "delta": RATE, "neighbors": one_of(*PAIRS), "n": WHOLE},
    **{
        "unit": lambda x: x == {"name": "row"} or require("unit", {"column": "", **x}, PERSON),
        "covers": one_of("bits", "reals"),
        "selection": one_of(None),
        "method": TEXT,
    },
    **{"schedule": lambda x: x != [] and list_of(QUERY)(x), "reproducible": FLAG, "diagnostics": FLAG},
    **{"purchases": list_of(PURCHASE), "truncation_delta": AT_LEAST_0, "epsilon": lambda x: POSITIVE(x) or x == "inf"},
    **{"capacities": lambda x: OBJECT(x) and all(map(WHOLE, x.values())), "loss_bounds": of(dict, type(None))},
    **{"leaks": list_of({"name": TEXT, "what": TEXT, "where": WHERE}), "trusted": list_of(TEXT)},
    **{"noted": list_of(TEXT), "configuration": OBJECT, "problem": OBJECT, "versions": OBJECT},
}
"""The fields of a certificate, and what must be true of each. Whatever is not here is refused."""


def require(what: str, value: Any, fields: dict[str, Callable[[Any], bool]]) -> bool:
    """Refuse what has other fields than these, or a value that cannot be: nothing may go unchecked."""
    if not isinstance(value, dict) or set(value) != set(fields):
        odd = sorted(set(value) ^ set(fields)) if isinstance(value, dict) else "all of them"
        raise Damaged(f"{what}: its fields differ from those that are known here by {odd}")
    for name, holds in fields.items():
        if not holds(value[name]):
            raise Damaged(f"{what}: {name} = {str(value[name])[:80]!r} cannot be, or is not known here")
    return True


class Findings:
    """What was found, and the recomputed ε."""

    def __init__(self) -> None:
        self.damaged, self.wrong = list[str](), list[str]()
        self.not_met, self.notes, self.epsilon = list[str](), list[str](), math.inf

    @property
    def code(self) -> int:
        """The exit code."""
        return DAMAGED if self.damaged else FALSE if self.wrong else NOT_MET if self.not_met else HOLDS


def check_certificate(certificate: Any, found: Findings) -> None:
    """Recompute what a certificate states."""
    require("the certificate", certificate, CERTIFICATE)
    queries, bought = certificate["schedule"], certificate["purchases"]
    kinds = {query["name"]: query["sampling"]["kind"] for query in queries}
    stage = {name: place for place, one in enumerate(bought) for name in one["queries"]}  # all others: the training
    cut, apart = ([name for name in kinds if kinds[name] == kind] for kind in ("poisson", "blocks"))
    fit = len(kinds) == len(queries) and len(stage) == sum(len(one["queries"]) for one in bought)
    fit = fit and len({stage.get(name) for name in apart}) <= 1  # the blocks of two stages are not disjoint
    fit = fit and all(kinds[query["name"]] == "all" for query in queries if query["acute"])
    if not (fit and set(stage) <= set(kinds) and set(cut) == set(certificate["capacities"])):
        raise Damaged("the certificate: schedule, capacities, purchases and blocks do not fit together")
    found.not_met += ["{where} {name!r}: {what} was read from the records".format(**x) for x in certificate["leaks"]]
    found.notes += ["the seed was fixed: whoever knows it can subtract the noise"] * certificate["reproducible"]
    found.notes += ["values without noise were looked at, outside the guarantee"] * certificate["diagnostics"]
    found.notes += [f"trusted, not checked: {why}" for why in certificate["trusted"]] + certificate["noted"]
    if (stated := certificate["epsilon"]) == "inf":
        return found.notes.append("NO PRIVACY is claimed: epsilon is infinite")
    stretch = 1 + INFLATION * (certificate["covers"] == "bits")
    # Vectors at an acute angle are √2 thresholds apart at most, where other pairs are two; shares do not count on it.
    angled = {q["name"]: 1.0 if q["acute"] and certificate["neighbors"] == "replace_one" else 0.0 for q in queries}
    noise = {q["name"]: max(q["noise_multiplier"], 1e-9) / stretch * 2 ** (angled[q["name"]] / 2) for q in queries}
    parts = {q["name"]: KINDS[kinds[q["name"]]](q, noise[q["name"]], certificate) for q in queries}
    if sum(part.rows for part in parts.values()) > certificate["n"]:
        raise Damaged(f"n = {certificate['n']} is less than the disjoint blocks of the schedule need")
    # Samples that are cut differ from ideal ones with some probability, and (1 + e^ε) times that is lost of δ.
    cuts = [(part, part.lost(certificate["capacities"].get(name, 0))) for name, part in parts.items() if part.lost]
    lost = math.fsum(part.cost.count * min((1 + math.exp(min(stated, 700.0))) * chance, 1.0) for part, chance in cuts)
    found.epsilon = cost_of(parts, certificate, certificate["delta"] - lost)
    if not found.epsilon <= stated * (1 + TOLERANCE):
        found.wrong.append(f"epsilon = {stated:g} is stated, and what was asked costs {found.epsilon:.4g}")
    weights = {name: 2 ** angled[name] * leading([cost]) for name, (cost, *_) in met(parts).items()}
    for one in bought:
        share = sum(weights.get(name, 0.0) for name in one["queries"]) / sum(weights.values())
        if not math.isclose(share, one["share"], rel_tol=TOLERANCE):
            found.wrong.append(f"share = {one['share']:.4g} is stated for the purchase {one['name']!r}: {share:.4g}")
    if not math.isclose(lost, certificate["truncation_delta"], rel_tol=ROUNDING, abs_tol=1e-16):
        found.wrong.append(f"truncation_delta = {certificate['truncation_delta']:.4g} is stated: {lost:.4g}")


def met(parts: dict[str, Part]) -> dict[str, Part]:
    """Return what a record meets: of disjoint blocks one, at worst the least noisy."""
    apart = sorted((name for name in parts if parts[name].rows), key=lambda name: parts[name].cost.sigma)
    return {name: part for name, part in parts.items() if name not in apart[1:]}


def leading(costs: list[Cost]) -> float:
    """Return Σ c q²/σ², the leading term of a cost."""
    return math.fsum(cost.count * (cost.rate / cost.sigma) ** 2 for cost in costs)


def cost_of(parts: dict[str, Part], certificate: Fields, delta: float) -> float:
    """Return ε of all queries at δ."""
    extra = 2 * LOG_RATIO + math.fsum(part.epsilon for part in parts.values())
    factor = math.exp(LOG_RATIO) * (1 + 1e-6) * math.prod(part.factor for part in parts.values())
    # Gaussian queries of all records are together one Gaussian query: the squares of 1/σ add up.
    costs = [part.cost for part in met(parts).values()]
    if full := leading([cost for cost in costs if cost.rate == 1]):
        costs = [cost for cost in costs if cost.rate < 1] + [Cost(1.0, full**-0.5, 1)]
    return extra + epsilon_of(costs, delta / factor, certificate["neighbors"])


# --- The bundle: what belongs together ------------------------------------------------------------------------------
MEMBERS = (
    *("certificate.json", "model.npz", "model.json", "schema.json", "recipe.json", "history.csv", "code.json"),
    *("table.json", "budget.json", "audits.json", "statement.json", "statement.schema.json", "report.html"),
    *("gossamer_verify.py", "manifest.json"),
)
"""What a bundle holds, in this order; signatures, if there are any, come last. The manifest has everybody's SHA-256."""
SIGNATURES, SIGNED = "signatures.json", b"gossamer bundle\0"


def pack(members: dict[str, bytes]) -> bytes:
    """Return the one zip file that holds these members: in a fixed order, stored as they are, without times."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in [*MEMBERS, *([SIGNATURES] if SIGNATURES in members else [])]:
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, members[name])
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, bytes]:
    """Return the members of a bundle; refuse any byte that is not as `pack` writes it, or that no hash is true of."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if any(entry.compress_type or entry.file_size > len(content) for entry in archive.infolist()):
                raise Damaged("the bundle is compressed, which no bundle is")
            if set(archive.namelist()) - {SIGNATURES} != set(MEMBERS):
                raise Damaged(f"the bundle: members differ by {sorted(set(archive.namelist()) ^ set(MEMBERS))}")
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError, UnicodeDecodeError) as error:
        raise Damaged(f"the bundle is damaged: {error}") from None
    if pack(members) != content:
        raise Damaged("the bundle is damaged: it has bytes that are no part of its members")
    manifest = read_json(members["manifest.json"], "manifest.json")
    require("manifest.json", manifest, {"format": one_of(1), "members": OBJECT})
    hashes = {name: hashlib.sha256(members[name]).hexdigest() for name in MEMBERS[:-1]}
    odd = sorted(name for name in {*hashes, *manifest["members"]} if hashes.get(name) != manifest["members"].get(name))
    if odd:
        raise Damaged(f"not what the manifest says, changed or swapped: {', '.join(odd)}")
    return members


def check_bundle(content: bytes, keys: list[str], found: Findings) -> None:
    """Check all that a bundle holds, and who signed it."""
    members = unpack(content)
    facts = {name: read_json(members[name], name) for name in MEMBERS if name.endswith(".json")}
    certificate = facts["certificate.json"]
    check_certificate(certificate, found)
    for name, (member, section) in STATED.items():
        if facts[member][section][name] != certificate[name]:
            found.wrong.append(f"{member}: {section}.{name} is not what the certificate states")
    paid, stated = facts["budget.json"], math.inf if certificate["epsilon"] == "inf" else certificate["epsilon"]
    if paid is not None and not (
        paid["granted"]["epsilon"] >= stated and paid["granted"]["delta"] >= certificate["delta"]
    ):
        found.wrong.append("budget.json: less was granted than the certificate states")
    for audit in facts["audits.json"]:
        if audit["epsilon_lower_bound"] > audit["epsilon_claimed"] or audit["epsilon_claimed"] > stated:
            found.wrong.append(f"audits.json: {audit['attack']} proves epsilon >= {audit['epsilon_lower_bound']:.3g}")
    if members["gossamer_verify.py"] != Path(__file__).read_bytes():
        found.notes.append("the checker in the bundle is another version than the one that is running")
    check_signatures(members, keys, found)


STATED = {  # said twice, by the certificate and by another member
    **dict.fromkeys(("epsilon", "delta", "neighbors", "unit", "covers"), ("statement.json", "guarantee")),
    **dict.fromkeys(("method", "schedule", "truncation_delta"), ("statement.json", "mechanism")),
    **dict.fromkeys(("n", "leaks"), ("statement.json", "data")),
    "versions": ("code.json", "software"),
}


def check_signatures(members: dict[str, bytes], keys: list[str], found: Findings) -> None:
    """Check every signature, and that all of the given public keys have signed."""
    signatures = read_json(members.get(SIGNATURES, b"[]"), SIGNATURES)
    list_of({"name": TEXT, "key": TEXT, "signature": TEXT})(signatures)
    missing = sorted(set(keys) - {one["key"] for one in signatures})
    found.damaged += [f"{SIGNATURES}: no signature by the key {key}" for key in missing]
    found.notes += ["not signed: nobody vouches for it"] * (not signatures)
    for one in signatures:
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError:
            found.notes.append(f"signature of {one['name']!r} NOT CHECKED: pip install cryptography")
            found.damaged += [f"{SIGNATURES}: cannot be checked without cryptography"] * (one["key"] in keys)
            continue
        try:
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(one["key"]))
            signed = SIGNED + one["name"].encode() + b"\0" + members["manifest.json"]
            public.verify(bytes.fromhex(one["signature"]), signed)
            found.notes.append(f"signed by {one['name']!r}, key {one['key']}")
        except (InvalidSignature, ValueError):
            found.damaged.append(f"{SIGNATURES}: the signature of {one['name']!r} is BAD")


def read_json(text: str | bytes, what: str) -> Any:
    """Return what a text says, unless a name stands twice in it: two readers could take two values for it."""

    def once(pairs: list[tuple[str, Any]]) -> Fields:
        if len(dict(pairs)) < len(pairs):
            raise Damaged(f"{what}: a name stands twice in one object")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{what} cannot be read: {error}") from None


def check(path: Path, keys: list[Path] | None = None) -> Findings:
    """Check a file, a bundle or a bare certificate; the holders of these public keys must have signed it."""
    found = Findings()
    try:
        content = path.read_bytes()
        if content[:2] == b"PK":
            check_bundle(content, [key.read_text(encoding="ascii").strip() for key in keys or []], found)
        else:
            check_certificate(read_json(content, "the certificate"), found)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, OSError) as error:
        found.damaged.append(str(error) if isinstance(error, Damaged | OSError) else f"it cannot be judged: {error!r}")
    return found


def main(arguments: list[str] | None = None) -> NoReturn:
    """Check a file, say what was found, and exit."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", type=Path, help="a bundle, or a certificate in JSON")
    parser.add_argument("--key", type=Path, action="append", default=[], help="a public key that must have signed it")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.error = lambda why: parser.exit(DAMAGED, f"gossamer-verify: {why}\n")  # type: ignore  # 2 has a meaning here
    found = check((given := parser.parse_args(arguments)).file, given.key)
    if given.json:
        epsilon = found.epsilon if math.isfinite(found.epsilon) else "inf"
        print(json.dumps({**vars(found), "epsilon": epsilon, "code": found.code}, indent=2))
    else:
        kinds = {"damaged": found.damaged, "false": found.wrong, "NOT MET": found.not_met, "note": found.notes}
        outcome = ("HOLDS", "DOES NOT HOLD", "HOLDS, but assumptions are NOT MET", "DAMAGED")[found.code]
        lines = [f"{kind}: {line}" for kind, lines in kinds.items() for line in lines]
        print(*lines, f"{outcome}: recomputed epsilon = {found.epsilon:.5g}", sep="\n")
    raise SystemExit(found.code)


if __name__ == "__main__":
    main()
