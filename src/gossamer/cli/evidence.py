"""`gossamer key`, `sign` and `prove-table`: who vouches for a bundle, and which table it is about."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import shared

app = typer.Typer(no_args_is_help=True, help="Keys to sign bundles with.")


@app.callback()
def key() -> None:
    """Keys to sign bundles with."""


@app.command()
def new(
    name: Annotated[Path, typer.Argument(help="Makes NAME.key, to be kept secret, and NAME.pub, to be given away.")],
    as_json: shared.AsJson = False,
) -> None:
    """Make a key (Ed25519) to sign bundles with."""
    from gossamer.privacy.signing import new_key

    public = new_key(name)
    shared.say(
        as_json,
        {"private": f"{name}.key", "public": f"{name}.pub", "key": public},
        f"{name}.key is yours alone. Give {name}.pub to whoever checks your bundles: {public}",
    )


def sign(
    bundle: Annotated[Path, typer.Argument(help="A bundle; the signature is added to it.")],
    key: Annotated[Path, typer.Option(help="Your private key, as `gossamer key new` wrote it.")],
    name: Annotated[str, typer.Option("--as", help="Who you are, such as owner or auditor.")] = "owner",
    as_json: shared.AsJson = False,
) -> None:
    """Sign a bundle. Several parties may sign the same one, each under a name of its own."""
    from gossamer.base import atomic
    from gossamer.privacy.signing import sign

    atomic.write_bytes(bundle, sign(bundle.read_bytes(), name, key))
    shared.say(as_json, {"bundle": str(bundle), "name": name}, f"{bundle} is signed by {name!r}.")


def prove_table(
    bundle: Annotated[Path, typer.Argument(help="A bundle, as `gossamer fit` wrote it.")],
    table: Annotated[Path, typer.Argument(help="The table that it is about.")],
    opening: Annotated[Path, typer.Option(help="The owner's secret: the .opening file that was written beside it.")],
    as_json: shared.AsJson = False,
) -> None:
    """Show that a bundle is about a table; exit code 1 if it is about another one.

    The bundle alone tells nobody which table it is about, not even whoever guesses it. The owner shows it to an auditor
    by this command, with the table and the opening.
    """
    import json

    import gossamer_verify
    from gossamer.privacy.budget_file import fingerprint
    from gossamer.privacy.commitment import Opening

    stated = json.loads(gossamer_verify.unpack(bundle.read_bytes())["table.json"])
    if stated is None:
        raise ValueError(f"{bundle} names no table: none was given when it was made.")
    secret = Opening.read(opening)
    if secret.commitment != stated["commitment"]:
        raise ValueError(f"{opening} belongs to another bundle.")
    same = secret.opens(fingerprint(table))
    shared.say(as_json, {"same_table": same}, f"{bundle} is about {'' if same else 'ANOTHER table than '}{table}.")
    if not same:
        raise typer.Exit(1)
