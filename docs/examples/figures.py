"""How the examples show a figure: as a picture inside the page."""

import base64
import io
from html import escape

from matplotlib import pyplot
from matplotlib.figure import Figure


def svg(figure: Figure, alt: str) -> str:
    """Return a figure as an image of a page, with what it shows in words for those who do not see it."""
    content = io.BytesIO()
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": alt}):
        figure.savefig(content, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot.close(figure)
    image = base64.b64encode(content.getvalue()).decode()
    return f'<img class="drawing" alt="{escape(alt)}" src="data:image/svg+xml;base64,{image}">'
