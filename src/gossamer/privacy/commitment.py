"""A commitment to a table: it binds a bundle to one table, and tells nobody which.

The commitment is SHA-256 of a random salt of 256 bits and the table's digest. *It hides:* without the salt it is one of
2²⁵⁶ values for every table, so that a guess of the whole table cannot be confirmed, as it could by a plain
fingerprint, and two commitments to one table have nothing in common. *It binds:* to open it to another table takes a
collision of SHA-256. The salt is the owner's secret, in a file of its own, which goes with the table and never with the
bundle; whoever is given it and the table can check that the bundle is about that table.
"""

import hashlib
import hmac
import json
import secrets
from pathlib import Path
from typing import Any, NamedTuple

from gossamer.base import atomic

_DOMAIN = b"gossamer table\0"
_SALT = 32


class Opening(NamedTuple):
    """What the owner keeps: with the table's digest it opens the commitment."""

    salt: str
    commitment: str

    def opens(self, digest: str) -> bool:
        """Return whether the commitment is to the table with this digest."""
        return hmac.compare_digest(_commitment(bytes.fromhex(self.salt), digest), self.commitment)

    def write(self, path: Path) -> None:
        """Write a file that its owner alone may read."""
        atomic.write_text(path, json.dumps(self._asdict(), indent=2) + "\n", mode=0o600)

    @classmethod
    def read(cls, path: Path) -> "Opening":
        """Read what `write` wrote."""
        try:
            content: Any = json.loads(path.read_text(encoding="utf-8"))
            opening = cls(**content)
            if len(bytes.fromhex(opening.salt)) != _SALT or len(bytes.fromhex(opening.commitment)) != _SALT:
                raise ValueError("its numbers have another length")
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is not the opening of a commitment: {error}") from None
        return opening


def commit(digest: str) -> Opening:
    """Return a new commitment to the table with this digest, and its salt."""
    salt = secrets.token_bytes(_SALT)
    return Opening(salt.hex(), _commitment(salt, digest))


def _commitment(salt: bytes, digest: str) -> str:
    return hashlib.sha256(_DOMAIN + salt + digest.encode()).hexdigest()
