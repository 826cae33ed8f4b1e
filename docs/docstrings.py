"""How the API pages read docstrings: the `Example:` of ours is the `Examples:` of Google's style, which shows code."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section while docstrings are collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rename it in one docstring."""
        if obj.docstring:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
