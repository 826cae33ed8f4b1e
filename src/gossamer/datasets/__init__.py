"""Public data sets to try things on, scaled by bounds that are known without looking at their records."""

from gossamer.datasets.adult import GroupedTable, adult
from gossamer.datasets.census import census
from gossamer.datasets.covertype import covertype
from gossamer.datasets.edges import edges
from gossamer.datasets.images import Images, fashion_mnist, mnist
from gossamer.datasets.labelled import LabelledTable, Split, breast_cancer

__all__ = [
    "GroupedTable",
    "Images",
    "LabelledTable",
    "Split",
    "adult",
    "breast_cancer",
    "census",
    "covertype",
    "edges",
    "fashion_mnist",
    "mnist",
]
