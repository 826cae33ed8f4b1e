"""Keys and signatures of bundles: Ed25519, by the package `cryptography`.

A signature is over the manifest, which has the hash of every member, and over the name of whoever signs: it cannot be
moved to another bundle or to another name. Several parties may sign one bundle, each after the other: signatures are no
part of the manifest.
"""

import json
from pathlib import Path
from typing import Any

import gossamer_verify
from gossamer.base import atomic


def new_key(path: Path) -> str:
    """Make a key: PATH.key, which its owner alone may read, and PATH.pub to give away; return the public key."""
    for suffix in (".key", ".pub"):
        if path.with_name(path.name + suffix).exists():
            raise FileExistsError(f"{path}{suffix} exists and is left alone. Choose another name.")
    private = _ed25519().Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw().hex()
    atomic.write_text(path.with_name(path.name + ".key"), private.private_bytes_raw().hex() + "\n", mode=0o600)
    atomic.write_text(path.with_name(path.name + ".pub"), public + "\n")
    return public


def sign(bundle: bytes, name: str, key: Path) -> bytes:
    """Return a bundle with one more signature.

    Args:
      bundle: the bundle; one that is damaged is refused.
      name: who signs, such as "owner" or "auditor". Whoever has signed under this name is replaced.
      key: the file of a private key, as `new_key` wrote it.
    """
    members = gossamer_verify.unpack(bundle)
    try:
        private = _ed25519().Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key.read_text("ascii").strip()))
    except ValueError:
        raise ValueError(f"{key} is not a private key. Make one by `gossamer key new`.") from None
    signed = gossamer_verify.SIGNED + name.encode() + b"\0" + members["manifest.json"]
    others: list[dict[str, str]] = json.loads(members.get(gossamer_verify.SIGNATURES, b"[]"))
    mine = {
        "name": name,
        "key": private.public_key().public_bytes_raw().hex(),
        "signature": private.sign(signed).hex(),
    }
    signatures = sorted([*(each for each in others if each["name"] != name), mine], key=lambda each: each["name"])
    return gossamer_verify.pack({**members, gossamer_verify.SIGNATURES: json.dumps(signatures, indent=2).encode()})


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ImportError("keys and signatures need cryptography: pip install 'gossamer[sign]'.") from None
    return ed25519
