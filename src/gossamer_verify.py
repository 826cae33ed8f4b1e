"""Check a privacy certificate of Gossamer, or a bundle of evidence, without trusting Gossamer.

    python gossamer_verify.py BUNDLE.zip [--key owner.pub] [--json]

One file of plain Python: it needs NumPy and SciPy, and `cryptography` to check signatures. It never imports Gossamer or
JAX. It recomputes ε from the list of queries with an accountant of its own, and checks every number that follows from
others, and a bundle's hashes and signatures. Exit codes: 0 the claim holds; 1 it is false; 2 it holds, but assumptions
that it rests on are NOT MET; 3 damaged, or something is in it that is not known here. No checker can know that the
noise was drawn, and that the run was the one described: whoever signed it states that.
"""

import argparse
import functools
import hashlib
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from scipy.special import logsumexp, ndtr

HOLDS, FALSE, NOT_MET, DAMAGED, TOLERANCE, ROUNDING = 0, 1, 2, 3, 1e-3, 1e-6
"""How far a recomputed ε, and two computations of the same sum, may be apart. The accountant errs by less."""


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
TILTS, STEPS, MOST_PIECES = np.geomspace(1e-3, 1e5, 41), 2.0 ** np.arange(-10, 7), 40
POINTS, NEAREST, FEWEST_BITS, MOST_BITS, BEYOND, DEEPEST = 1 << 14, (-2, -1, 0, 1, 2, 3), 14, 20, 25.0, 8.0


def losses(cost: Cost, pair: str, tilt: float, points: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return log P and the privacy loss log P/Q on an even grid of outcomes, where P·exp(tilt·loss) has its mass.

    Outcomes are in units of σ. A tilt moves the mass by at most 2·tilt/σ; losses bend within a distance of σ.
    """
    reach = 14.0 + (2.0 if pair == "add" and tilt > 0 else 2.0 + 2.0 * abs(tilt)) / cost.sigma
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


class Composed:
    """The privacy loss L of all queries together. What is wanted is δ(ε) = E_P (1 − exp(ε − L))₊.

    Its law is a convolution, so a product of Fourier transforms. Their rounding errors are as large everywhere, and δ
    is small: so the law is first multiplied by exp(t·L), with the t that moves its mass to the ε in question.
    """

    def __init__(self, costs: list[Cost], pair: str) -> None:
        self.costs, self.pair, self.log_moment = costs, pair, functools.cache(self._log_moment)

    def _log_moment(self, tilt: float) -> float:
        """Return log E_P exp(tilt·L): it is tilt times the Rényi divergence of order 1 + tilt."""
        laws = [losses(cost, self.pair, tilt) for cost in self.costs]
        return sum(c.count * float(logsumexp(p + tilt * loss)) for c, (p, loss) in zip(self.costs, laws, strict=True))

    def pieces(self, delta: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield pieces of the curve: even grids of ε and log δ(ε), each below the last, from above ε(δ) down to 0."""

        def renyi(t: float) -> float:  # a bound on ε: (1 − exp(−x))₊ ≤ a·exp(t·x) with a = t^t/(1 + t)^(1 + t)
            return (self.log_moment(t) + t * math.log(t) - (1 + t) * math.log1p(t) - math.log(delta)) / t

        def saddle(t: float) -> float:
            return self.log_moment(t) - t * epsilon - math.log(t) - math.log1p(t)

        epsilon = renyi(least(renyi))
        for _ in range(MOST_PIECES * (epsilon < math.inf)):
            grid, deltas = self.near(epsilon, tilt := least(saddle))
            kept = grid >= max(grid[0] - grid[1], epsilon - DEEPEST / tilt)  # below, errors grow by more than exp(8)
            yield grid[kept], np.log(np.maximum(np.minimum.accumulate(deltas[kept]), 1e-300))
            epsilon = float(grid[kept][0])
            if epsilon <= 0:
                return

    def near(self, epsilon: float, tilt: float) -> tuple[np.ndarray, np.ndarray]:
        """Return an even grid around ε, and δ there, by way of the tilted law.

        Losses are moved to a grid of width h, each to its six nearest points by Lagrange's weights: polynomials of
        degree 5 keep their means, so that the transform at a frequency s is wrong by O((s·h)^6) alone. Rounding to
        two points, which errs upwards, would be wrong by far more where a million losses are tiny beside h.
        """
        costs, here = self.costs, self.log_moment(tilt)
        points = [losses(cost, self.pair, tilt, POINTS) for cost in costs]
        weights = [np.exp(log_p + tilt * loss - logsumexp(log_p + tilt * loss)) for log_p, loss in points]
        spreads = [float(w @ (loss - w @ loss) ** 2) for w, (_, loss) in zip(weights, points, strict=True)]
        deviation = math.sqrt(sum(c.count * spread for c, spread in zip(costs, spreads, strict=True)))
        # Chernoff's bound says beyond which losses there is less than exp(−25) of the mass.
        low = max((self.log_moment(tilt - step) - here + BEYOND) / -step for step in STEPS / deviation)
        high = min((self.log_moment(tilt + step) - here + BEYOND) / step for step in STEPS / deviation)
        bits = math.log2((high - low) / min(deviation, epsilon) * 500)
        size = 1 << int(np.clip(math.ceil(bits), FEWEST_BITS, MOST_BITS))
        width = (high - low) / (size - 2 * len(NEAREST))
        first = math.floor(low / width) - len(NEAREST)
        spectrum = np.ones(size // 2 + 1, complex)
        for cost, weight, (_, loss) in zip(costs, weights, points, strict=True):
            cell, law = np.floor(loss / width), np.zeros(size)
            for k in NEAREST:
                share = math.prod((loss / width - cell - j) / (k - j) for j in NEAREST if j != k)
                law += np.bincount((cell + k).astype(np.int64) % size, weight * share, size)
            spectrum *= np.fft.rfft(law) ** cost.count
        tilted = np.roll(np.fft.irfft(spectrum, size), -(first % size))
        grid = width * (first + np.arange(size))
        with np.errstate(over="ignore", invalid="ignore"):
            p_above, q_above = (np.cumsum((tilted * np.exp(-t * (grid - epsilon)))[::-1]) for t in (tilt, 1 + tilt))
            deltas = (p_above - np.exp(grid[::-1] - epsilon) * q_above)[::-1]
        return grid, np.exp(here - tilt * epsilon) * deltas


def least(function: Callable[[float], float]) -> float:
    """Return the tilt above 0 at which a function with one valley is least: a coarse search, then a finer one."""
    tilts = TILTS
    for _ in range(2):
        best = int(np.argmin([function(tilt) for tilt in tilts]))
        tilts = np.geomspace(tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)], 17)
    return float(tilts[len(tilts) // 2])


def epsilon_of(costs: list[Cost], delta: float, neighbors: str) -> float:
    """Return the least ε for which the queries together are (ε, δ)-differentially private."""
    found = dict.fromkeys(PAIRS[neighbors], math.inf)
    for pair in PAIRS[neighbors] if delta > 0 else ():
        for grid, logs in Composed(costs, pair).pieces(delta):
            found[pair] = max(0.0, float(np.interp(-math.log(delta), -logs, grid)))
            if logs[0] > math.log(delta):
                break
    return max(found.values())


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
    slips: float = 0.0  # how probably one sample differs from an ideal one
    angle: float = 1.0  # √2 for vectors at an acute angle: replacing one moves a sum by √2 thresholds, and not by two


def part_of(query: Fields, capacity: int, certificate: Fields) -> Part:
    """Return what a query costs, by the way in which it meets the records. A way that is not here is refused."""
    sampling, count, n, replaced = (
        query["sampling"],
        query["count"],
        certificate["n"],
        certificate["neighbors"] == "replace_one",
    )
    kind, stretch = sampling["kind"], 1 + INFLATION * (certificate["covers"] == "bits")
    angle = math.sqrt(2) if query["acute"] and replaced else 1.0
    whole = Part(Cost(1.0, max(query["noise_multiplier"], 1e-9) / stretch * angle, count), angle=angle)
    require("sampling", sampling, KINDS[kind])
    if kind == "poisson":  # each record with probability `rate`, on its own; samples are cut at the query's capacity
        rate, share = sampling["rate"], (capacity + 1) / n
        rest = (1 - share) * math.log((1 - share) / (1 - rate)) if share < 1 else 0.0 if share == 1 else math.inf
        chernoff = math.exp(-n * (share * math.log(share / rate) + rest)) if share > rate else 1.0
        bits = n * 2.0**-117 + n**2 * 2.0**-127  # random numbers have finitely many of them
        return whole._replace(cost=whole.cost._replace(rate=rate), slips=chernoff + bits)
    if kind == "blocks":  # that are disjoint: a record meets one answer. Neighbours must have equally many records
        stream = sampling["stream"] or {"strategy": "tree", "length": 1, "first": 0, "share": 1}
        require("stream", stream, {"strategy": TEXT, "length": WHOLE, "first": of(int, above=-1), "share": WHOLE})
        mixed = certificate["covers"] == "bits" and stream["strategy"] != "tree"
        if mixed or stream["first"] + stream["share"] > stream["length"] or not replaced:
            raise Damaged(f"blocks of query {query['name']!r}: under add_remove, too long a stream, or not about bits")
        return whole._replace(cost=whole.cost._replace(count=1), rows=count * sampling["rows"])
    if kind == "perturbed objective":  # the minimiser of a sum with a random linear term
        bounds, settings, stated = certificate["loss_bounds"], certificate["configuration"], sampling["jacobian"]
        length = bounds["row_norm"] ** 2 + bool(settings["intercept"])
        jacobian = math.log1p(bounds["curvature"] * length / (n * settings["strength"]))
        if not stated >= jacobian * (1 - ROUNDING) > 0:
            raise Damaged(f"jacobian = {stated:g} of query {query['name']!r} comes out as {jacobian:g}")
        return whole._replace(epsilon=count * stated, factor=(4.0 if replaced else 2.0) ** count)  # for each corner
    if kind == "discovery":  # counts of values that nobody listed, above a threshold; a rare one slips through
        return whole._replace(slips=sampling["columns"] * float(ndtr(-sampling["threshold"])))
    return whole


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
KINDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    **{"all": {"kind": TEXT}, "discovery": {"kind": TEXT, "columns": WHOLE, "threshold": POSITIVE}},
    **{"poisson": {"kind": TEXT, "rate": RATE}, "perturbed objective": {"kind": TEXT, "jacobian": POSITIVE}},
    "blocks": {"kind": TEXT, "rows": WHOLE, "stream": of(dict, type(None))},
}
PURCHASE = {"name": TEXT, "queries": list_of(TEXT), "share": RATE, "after": FLAG, "apart": one_of(None)}
IDS, WHERE = one_of("normalised", "normalised, missing ones apart"), one_of("argument", "column", "target", "group")
PERSON = {"name": one_of("person"), "column": TEXT, "ids": IDS, "rows": WHOLE}
QUERY = {
    **{"name": TEXT, "count": WHOLE, "sampling": lambda x: OBJECT(x) and x.get("kind") in KINDS, "dual": FLAG},
    **{"weight": POSITIVE, "noise": of(int, float, type(None), above=0), "noise_multiplier": AT_LEAST_0},
    **{"clip": TEXT, "gradients": WHOLE, "acute": FLAG},
}

CERTIFICATE = {
    **{"format": one_of(2), "delta": RATE, "neighbors": one_of(*PAIRS), "n": WHOLE, "covers": one_of("bits", "reals")},
    **{"unit": lambda x: x == {"name": "row"} or require("unit", {"column": "", **x}, PERSON), "method": TEXT},
    **{"selection": one_of(None), "loss_bounds": of(dict, type(None))},
    **{"schedule": lambda x: x != [] and list_of(QUERY)(x), "reproducible": FLAG, "diagnostics": FLAG},
    **{"capacities": lambda x: OBJECT(x) and all(map(WHOLE, x.values()))},
    **{"purchases": list_of(PURCHASE), "truncation_delta": AT_LEAST_0, "epsilon": lambda x: POSITIVE(x) or x == "inf"},
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
    bought, parts = certificate["purchases"], asked(certificate)
    stage = {name: place for place, one in enumerate(bought) for name in one["queries"]}  # all others: the training
    fit = set(stage) <= set(parts) and len(stage) == sum(len(one["queries"]) for one in bought)
    if not fit or len({stage.get(name) for name in parts if parts[name].rows}) > 1:  # two stages' blocks may overlap
        raise Damaged("the certificate: schedule, purchases and blocks do not fit together")
    found.not_met += ["{where} {name!r}: {what} was read from the records".format(**x) for x in certificate["leaks"]]
    found.notes += ["the seed was fixed: whoever knows it can subtract the noise"] * certificate["reproducible"]
    found.notes += ["values without noise were looked at, outside the guarantee"] * certificate["diagnostics"]
    found.notes += [f"trusted, not checked: {why}" for why in certificate["trusted"]] + certificate["noted"]
    if (stated := certificate["epsilon"]) == "inf":
        return found.notes.append("NO PRIVACY is claimed: epsilon is infinite")
    lost, (costs, extra, factor) = lost_of(parts, stated), summed(parts)
    found.epsilon = extra + epsilon_of(costs, (certificate["delta"] - lost) / factor, certificate["neighbors"])
    if not found.epsilon <= stated * (1 + TOLERANCE):
        found.wrong.append(f"epsilon = {stated:g} is stated, and what was asked costs {found.epsilon:.4g}")
    weights = {name: leading([one.cost]) * one.angle**2 for name, one in met(parts).items()}
    for one in bought:
        share = sum(weights.get(name, 0.0) for name in one["queries"]) / sum(weights.values())
        if not math.isclose(share, one["share"], rel_tol=TOLERANCE):
            found.wrong.append(f"share = {one['share']:.4g} is stated for the purchase {one['name']!r}: {share:.4g}")
    if not math.isclose(lost, certificate["truncation_delta"], rel_tol=ROUNDING, abs_tol=1e-16):
        found.wrong.append(f"truncation_delta = {certificate['truncation_delta']:.4g} is stated: {lost:.4g}")


def asked(certificate: Fields) -> dict[str, Part]:
    """Return what each query of the schedule costs."""
    queries, capacities = certificate["schedule"], certificate["capacities"]
    cut = {query["name"] for query in queries if query["sampling"]["kind"] == "poisson"}
    acute = {query["sampling"]["kind"] for query in queries if query["acute"]}
    parts = {query["name"]: part_of(query, capacities.get(query["name"], 0), certificate) for query in queries}
    if cut != set(capacities) or acute - {"all"} or len(parts) < len(queries):
        raise Damaged("the certificate: schedule and capacities do not fit together")
    if sum(part.rows for part in parts.values()) > certificate["n"]:
        raise Damaged(f"n = {certificate['n']} is less than the disjoint blocks of the schedule need")
    return parts


def met(parts: dict[str, Part]) -> dict[str, Part]:
    """Return what a record meets: of disjoint blocks one, at worst the least noisy."""
    apart = sorted((name for name in parts if parts[name].rows), key=lambda name: parts[name].cost.sigma)
    return {name: part for name, part in parts.items() if name not in apart[1:]}


def leading(costs: list[Cost]) -> float:
    """Return Σ c q²/σ², the leading term of a cost."""
    return math.fsum(cost.count * (cost.rate / cost.sigma) ** 2 for cost in costs)


def lost_of(parts: dict[str, Part], epsilon: float) -> float:
    """Return what of δ is lost: (1 + e^ε) times the chance that samples differ from ideal ones."""
    growth = 1 + math.exp(min(epsilon, 700.0))
    return math.fsum(part.cost.count * min(growth * part.slips, 1.0) for part in parts.values())


def summed(parts: dict[str, Part]) -> tuple[list[Cost], float, float]:
    """Return the costs of all queries, what is to be added to ε, and a factor of δ."""
    extra = 2 * LOG_RATIO + math.fsum(part.epsilon for part in parts.values())
    factor = math.exp(LOG_RATIO) * (1 + 1e-6) * math.prod(part.factor for part in parts.values())
    # Gaussian queries of all records are together one Gaussian query: the squares of 1/σ add up.
    costs = [part.cost for part in met(parts).values()]
    if full := leading([cost for cost in costs if cost.rate == 1]):
        costs = [cost for cost in costs if cost.rate < 1] + [Cost(1.0, full**-0.5, 1)]
    return costs, extra, factor


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
            if odd := set(archive.namelist()) - {SIGNATURES} ^ set(MEMBERS):
                raise Damaged(f"the bundle: members differ by {sorted(odd)}")
            members = {name: archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError, UnicodeDecodeError) as error:
        raise Damaged(f"the bundle is damaged: {error}") from None
    if pack(members) != content:
        raise Damaged("the bundle is damaged: it has bytes that are no part of its members")
    manifest = read_json(members["manifest.json"], "manifest.json")
    require("manifest.json", manifest, {"format": one_of(1), "members": OBJECT})
    hashes = {(name, hashlib.sha256(members[name]).hexdigest()) for name in MEMBERS[:-1]}
    if odd := {name for name, _ in hashes ^ set(manifest["members"].items())}:
        raise Damaged(f"not what the manifest says, changed or swapped: {', '.join(sorted(odd))}")
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
    granted = {"epsilon": math.inf, "delta": 1} if paid is None else paid["granted"]
    if not (granted["epsilon"] >= stated and granted["delta"] >= certificate["delta"]):
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
