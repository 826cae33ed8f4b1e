"""The command line: one module a command. Nothing here imports JAX before a command needs it."""

from gossamer.cli.app import app, main

__all__ = ["app", "main"]
