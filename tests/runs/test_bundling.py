"""Bundles: what they bind together, that nothing in them can be changed, and what they hide."""

import dataclasses
import hashlib
import json
import shutil
import stat

import jax.numpy as jnp
import numpy as np
import pytest
from testkit import pages
from testkit.documents import invoke
from testkit.rings import deep_but
from testkit.run_folders import finished_run
from testkit.tables import LINEAR, START, TABLE

import gossamer as gs
import gossamer_verify
from gossamer.base.leak import Leak
from gossamer.privacy.budget_file import fingerprint
from gossamer.privacy.bundle import Contents
from gossamer.privacy.certificate import certify
from gossamer.privacy.commitment import Opening, commit
from gossamer.privacy.facts import LossBounds, Unit
from gossamer.privacy.signing import new_key, sign
from gossamer.privacy.stages import TRAINING, Part, Stages
from gossamer.privacy.statement import schema, statement


def contents(**changes):
    made = Contents(
        pages.certificate(),
        b"numbers",
        "step\n1\n",
        "<html></html>",
        description={"w": 1},
        schema={"columns": {"age": [0, 100]}},
        recipe={"objective": "logistic"},
        commitment="ab" * 32,
        budget={"granted": {"epsilon": 1.0, "delta": 1e-5}, "reservation": 3},
        audits=({"attack": "one run", "epsilon_lower_bound": 0.4, "epsilon_claimed": 1.0, "confidence": 0.95},),
    )
    return dataclasses.replace(made, **changes)


def judged(folder, content, *keys):
    path = folder / "judged.zip"
    path.write_bytes(content)
    return gossamer_verify.check(path, list(keys))


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in ("owner", "auditor", "stranger"):
        new_key(folder / name)
    return folder


@pytest.fixture(scope="module")
def signed(keys):
    once = sign(contents().packed(), "owner", keys / "owner.key")
    return sign(once, "auditor", keys / "auditor.key")


def test_it_holds_and_says_who_signed(signed, keys, tmp_path):
    assert contents().packed() == contents().packed()
    found = judged(tmp_path, signed, keys / "owner.pub", keys / "auditor.pub")
    assert found.code == 0
    assert [note.split(",")[0] for note in found.notes] == ["signed by 'auditor'", "signed by 'owner'"]


def test_a_missing_signature_is_no_false_claim(signed, keys, tmp_path):
    found = judged(tmp_path, signed, keys / "stranger.pub")
    assert found.code == 3 and not found.wrong and found.epsilon < 1.001
    assert "no signature by the key" in found.damaged[0]
    found = judged(tmp_path, contents().packed())
    assert found.code == 0 and found.notes == ["not signed: nobody vouches for it"]


def test_a_false_claim_is_no_bad_signature(keys, tmp_path):
    """Whoever signs a false claim is told so, and that the signature is good."""
    lie = contents(certificate=dataclasses.replace(pages.certificate(), epsilon=0.5))
    found = judged(tmp_path, sign(lie.packed(), "owner", keys / "owner.key"), keys / "owner.pub")
    assert found.code == 1 and not found.damaged
    assert "signed by 'owner'" in found.notes[0]


@pytest.mark.parametrize("stride", deep_but([1, 211], 211))
def test_every_flipped_byte_is_noticed(stride, signed, monkeypatch):
    """Of each member, and of what is between them: all bytes near a name and at the end, and every so many others.

    Whatever is checked after hashes is left out: a flip that only the accountant would notice counts as missed.
    """
    monkeypatch.setattr(gossamer_verify, "check_certificate", lambda certificate, found: None)
    monkeypatch.setattr(gossamer_verify, "STATED", {})
    starts = [signed.index(name.encode()) for name in (*gossamer_verify.MEMBERS, gossamer_verify.SIGNATURES)]
    near = {start + offset for start in starts for offset in range(-40, 60)}
    places = sorted({*near, *range(len(signed) - 400, len(signed)), *range(0, len(signed), stride)})
    assert len(places) > 1500
    for place in filter(range(len(signed)).__contains__, places):
        flipped = bytearray(signed)
        flipped[place] ^= 1 << (place % 8)
        found = gossamer_verify.Findings()
        try:
            gossamer_verify.check_bundle(bytes(flipped), [], found)
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
        assert found.damaged, f"byte {place} of {len(signed)} was flipped, and nobody noticed"


@pytest.mark.parametrize("name", gossamer_verify.MEMBERS)
def test_a_swapped_member_is_named_and_with_its_hash_mended_the_signatures_are(name, signed, keys, tmp_path):
    members = gossamer_verify.unpack(signed)
    other = members[name] + b" "
    swapped = gossamer_verify.pack({**members, name: other})
    found = judged(tmp_path, swapped)
    assert found.code == 3
    if name == "manifest.json":
        assert "signature of 'owner' is BAD" in str(found.damaged)
        return
    assert found.damaged == [f"not what the manifest says, changed or swapped: {name}"]
    manifest = json.loads(members["manifest.json"])
    manifest["members"][name] = hashlib.sha256(other).hexdigest()
    mended = gossamer_verify.pack({**members, name: other, "manifest.json": json.dumps(manifest).encode()})
    found = judged(tmp_path, mended, keys / "owner.pub")
    assert found.code == 3
    assert [line for line in found.damaged if "signature of 'owner' is BAD" in line]


def leaves(value, path=()):
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif isinstance(value, list) and value:
        for place, part in enumerate(value):
            yield from leaves(part, (*path, place))
    else:
        yield path, value


def changed(content, path, value):
    copy = json.loads(json.dumps(content))
    part = copy
    for step in path[:-1]:
        part = part[step]
    part[path[-1]] = (
        not value if isinstance(value, bool) else value * 1.5 + 1e-9 if isinstance(value, int | float) else "x"
    )
    return copy


def eventful():
    """A certificate with everything that a plain one has none of, but for a search, which the checker refuses."""
    stages = Stages(
        (Part("share", gs.methods.GD(steps=1), 0.05), Part(TRAINING, gs.methods.SGD(5, batch_size=50), 0.95))
    )
    planned = gs.plan(stages, 500, gs.Budget(1.0, 1e-5))
    facts = {
        "trusted": ("a solver",),
        "purchases": stages.purchases(500),
        "unit": Unit("person", "id", "normalised", 3),
    }
    made = certify(
        planned, gs.ERM(gs.objectives.logistic), None, False, **facts, loss_bounds=LossBounds(1.0, 1.0, 0.25)
    )
    return dataclasses.replace(made, noted=("once",), leaks=(Leak("data_norm", "the largest norm", "argument"),))


@pytest.mark.parametrize("make", [pages.certificate, pytest.param(eventful, marks=pytest.mark.slow)])
def test_every_field_of_the_certificate_is_bound(make, keys, tmp_path, monkeypatch):
    """Each number, flag and word is changed, in turn, with all hashes mended: the signatures tell, whatever it was."""
    packed = sign(contents(certificate=make()).packed(), "owner", keys / "owner.key")
    assert not judged(tmp_path, packed, keys / "owner.pub").damaged
    monkeypatch.setattr(gossamer_verify, "epsilon_of", lambda costs, delta, neighbors: 0.0)
    members = gossamer_verify.unpack(packed)
    certificate = json.loads(members["certificate.json"])
    fields = list(leaves(certificate))
    assert len(fields) > 40
    for path, value in fields:
        other = json.dumps(changed(certificate, path, value), indent=2).encode()
        assert other != members["certificate.json"]
        manifest = json.loads(members["manifest.json"])
        manifest["members"]["certificate.json"] = hashlib.sha256(other).hexdigest()
        mended = {**members, "certificate.json": other, "manifest.json": json.dumps(manifest).encode()}
        found = judged(tmp_path, gossamer_verify.pack(mended), keys / "owner.pub")
        assert found.code in (1, 3) and [*found.damaged, *found.wrong], path


def test_a_swapped_signature_is_bad(signed, keys, tmp_path):
    members = gossamer_verify.unpack(signed)
    auditor, owner = json.loads(members["signatures.json"])
    for broken in (
        [auditor, {**owner, "signature": auditor["signature"]}],
        [auditor, {**owner, "key": auditor["key"]}],
        [auditor, {**owner, "name": "mayor"}],
        [auditor, {**owner, "signature": "zz"}],
    ):
        found = judged(tmp_path, gossamer_verify.pack({**members, "signatures.json": json.dumps(broken).encode()}))
        assert found.code == 3 and "is BAD" in found.damaged[0] and not found.wrong
    elsewhere = gossamer_verify.unpack(contents(recipe={"objective": "auc"}).packed())
    moved = gossamer_verify.pack({**elsewhere, "signatures.json": members["signatures.json"]})
    assert judged(tmp_path, moved).code == 3


def test_without_cryptography_a_signature_is_not_checked_and_never_good(signed, keys, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.exceptions", None)
    found = judged(tmp_path, signed)
    assert found.code == 0 and all("NOT CHECKED" in note for note in found.notes) and len(found.notes) == 2
    assert judged(tmp_path, signed, keys / "owner.pub").code == 3


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"budget": {"granted": {"epsilon": 0.9, "delta": 1e-5}}}, "budget.json"),
        ({"audits": ({"attack": "canary", "epsilon_lower_bound": 1.2, "epsilon_claimed": 1.0},)}, "canary proves"),
    ],
)
def test_members_that_contradict_the_certificate_make_it_false(changes, named, tmp_path):
    found = judged(tmp_path, contents(**changes).packed())
    assert found.code == 1 and named in found.wrong[0]


def test_a_statement_that_says_something_else_is_false(tmp_path):
    members = gossamer_verify.unpack(contents().packed())
    said = json.loads(members["statement.json"])
    for name, (member, section) in gossamer_verify.STATED.items():
        facts = said if member == "statement.json" else json.loads(members[member])
        other = json.dumps(changed(facts, (section, name), "text")).encode()
        manifest = json.loads(members["manifest.json"])
        manifest["members"][member] = hashlib.sha256(other).hexdigest()
        found = judged(
            tmp_path, gossamer_verify.pack({**members, member: other, "manifest.json": json.dumps(manifest).encode()})
        )
        assert found.code == 1 and f"{section}.{name}" in found.wrong[0]


def fits(value, rule):
    """A reader of the JSON Schemas that we publish: types, constants, required and unknown names."""
    kinds = {"object": dict, "array": list, "string": str, "number": (int, float), "boolean": bool}
    if ("const" in rule and value != rule["const"]) or ("enum" in rule and value not in rule["enum"]):
        return False
    wanted = rule.get("type", [])
    if wanted and not isinstance(value, tuple(kinds[k] for k in ([wanted] if isinstance(wanted, str) else wanted))):
        return False
    if isinstance(value, dict):
        known = rule.get("properties", {})
        if not set(rule.get("required", ())) <= set(value):
            return False
        if rule.get("additionalProperties") is False and not set(value) <= set(known):
            return False
        return all(fits(part, known[name]) for name, part in value.items() if name in known)
    return not isinstance(value, list) or all(fits(part, rule.get("items", {})) for part in value)


def test_the_statement_fits_its_published_schema():
    rule = json.loads(schema())
    said = statement(pages.certificate(), list(contents().audits))
    assert fits(json.loads(json.dumps(said)), rule)
    for section, part in said.items():
        assert not fits({name: value for name, value in said.items() if name != section}, rule)
        if isinstance(part, dict):
            assert not fits({**said, section: {**part, "more": 1}}, rule)


def test_the_commitment_hides_and_opens(tmp_path):
    """Ten possible tables: the plain fingerprint tells which one it is (the control), and the commitment does not."""
    tables = [tmp_path / f"{value}.csv" for value in range(10)]
    for value, table in enumerate(tables):
        table.write_text(f"diagnosis\n{value}\n")
    secret = tables[7]
    released = fingerprint(secret)
    assert [table for table in tables if fingerprint(table) == released] == [secret]
    one, two = commit(fingerprint(secret)), commit(fingerprint(secret))
    assert one.commitment != two.commitment and one.salt != two.salt
    guesses = [
        hashlib.sha256(b"gossamer table\0" + salt + fingerprint(table).encode()).hexdigest()
        for table in tables
        for salt in (b"", bytes(32))
    ]
    guesses += [fingerprint(table) for table in tables] + [commit(fingerprint(table)).commitment for table in tables]
    assert one.commitment not in guesses
    assert [table for table in tables if one.opens(fingerprint(table))] == [secret]
    one.write(tmp_path / "opening")
    assert stat.S_IMODE((tmp_path / "opening").stat().st_mode) == 0o600
    assert Opening.read(tmp_path / "opening") == one


@pytest.mark.slow
def test_what_solve_returns_can_be_bundled(tmp_path):
    result = gs.solve(LINEAR, TABLE, gs.methods.GD(steps=3), gs.Budget(1.0, 1e-3), init=START)
    opening = gs.bundle(result, tmp_path / "evidence.zip", table=TABLE)
    members = gossamer_verify.unpack((tmp_path / "evidence.zip").read_bytes())
    assert gossamer_verify.check(tmp_path / "evidence.zip").code == 0
    assert Opening.read(opening).commitment == json.loads(members["table.json"])["commitment"]
    (tmp_path / "model.npz").write_bytes(members["model.npz"])
    assert np.array_equal(np.load(tmp_path / "model.npz")["0"], jnp.asarray(result.params))
    with pytest.raises(FileExistsError, match="left alone"):
        gs.bundle(result, tmp_path / "evidence.zip")
    with pytest.raises(TypeError, match="fitted estimator"):
        gs.bundle(TABLE, tmp_path / "other.zip")


@pytest.mark.slow
def test_fit_writes_a_bundle_that_the_owner_can_sign_and_open(tmp_path):
    folder = finished_run()
    shutil.copy(folder / "run" / "bundle.zip", tmp_path / "bundle.zip")
    (opening,) = folder.glob("run.*.opening")
    assert not list((folder / "run").glob("*.opening")), "what is in the folder may be given away"
    bundle, table, opening = str(tmp_path / "bundle.zip"), str(folder / "table.csv"), str(opening)
    assert invoke(["key", "new", str(tmp_path / "owner")])[0] == 0
    assert stat.S_IMODE((tmp_path / "owner.key").stat().st_mode) == 0o600
    assert invoke(["sign", bundle, "--key", str(tmp_path / "owner.key")])[0] == 0
    found = gossamer_verify.check(tmp_path / "bundle.zip", [tmp_path / "owner.pub"])
    assert found.code == 0 and any("signed by 'owner'" in note for note in found.notes)
    code, printed, _ = invoke(["prove-table", bundle, table, "--opening", opening])
    assert code == 0 and printed.strip() == f"{bundle} is about {table}."
    other = tmp_path / "other.csv"
    other.write_text((folder / "table.csv").read_text() + "\n")
    code, printed, _ = invoke(["prove-table", bundle, str(other), "--opening", opening])
    assert code == 1 and "ANOTHER" in printed
    text = (tmp_path / "bundle.zip").read_bytes()
    assert fingerprint(folder / "table.csv").encode() not in text
