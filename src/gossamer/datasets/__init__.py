"""Public data sets to try things on, scaled by bounds that are known without looking at their records."""

from gossamer.datasets.adult import GroupedTable, adult
from gossamer.datasets.census import census
from gossamer.datasets.covertype import covertype
from gossamer.datasets.edges import edges
from gossamer.datasets.images import Images, fashion_mnist, mnist
from gossamer.datasets.tables import Split, Table, breast_cancer

__all__ = [
    "GroupedTable",
    "Images",
    "Split",
    "Table",
    "adult",
    "breast_cancer",
    "census",
    "covertype",
    "edges",
    "fashion_mnist",
    "mnist",
]
