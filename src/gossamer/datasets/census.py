"""UCI Census-Income (KDD): 299,285 people of the 1994 and 1995 Current Population Surveys.

Donated by T. Lane and R. Kohavi; UCI Machine Learning Repository, CC BY 4.0. The task is whether a person's income
exceeds 50,000 $ (6.2 % do).
"""

from pathlib import Path

from gossamer.datasets import files
from gossamer.datasets.encoding import Encoding, Share, codebook
from gossamer.datasets.labelled import LabelledTable, Split
from gossamer.tables.kinds import Amount

_FIELDS = (
    "age",
    "class of worker",
    "detailed industry recode",
    "detailed occupation recode",
    "education",
    "wage per hour",
    "enroll in edu inst last wk",
    "marital stat",
    "major industry code",
    "major occupation code",
    "race",
    "hispanic origin",
    "sex",
    "member of a labor union",
    "reason for unemployment",
    "full or part time employment stat",
    "capital gains",
    "capital losses",
    "dividends from stocks",
    "tax filer stat",
    "region of previous residence",
    "state of previous residence",
    "detailed household and family stat",
    "detailed household summary in household",
    "instance weight",
    "migration code-change in msa",
    "migration code-change in reg",
    "migration code-move within reg",
    "live in this house 1 year ago",
    "migration prev res in sunbelt",
    "num persons worked for employer",
    "family members under 18",
    "country of birth father",
    "country of birth mother",
    "country of birth self",
    "citizenship",
    "own business or self employed",
    "fill inc questionnaire for veteran's admin",
    "veterans benefits",
    "weeks worked in year",
    "year",
)
# What a field says of most people by default. Encoded as all zero, it leaves rows shorter and better conditioned.
DEFAULTS = (
    "Not in universe",
    "Not in universe or children",
    "Not in universe under 1 year old",
    "Children or Armed Forces",
    "Nonmover",
    "United-States",
    "Native- Born in the United States",
    "White",
    "All other",
    "0",
)
# Ages are top-coded at 90, amounts are four- or five-digit fields (wages in cents), employers come in classes 0 to 6.
ENCODING = Encoding(
    names=_FIELDS,
    blocks={
        "age": Share(0, 90),
        "num persons worked for employer": Share(0, 6),
        "weeks worked in year": Share(0, 52),
        "wage per hour": Amount(9_999),
        "capital gains": Amount(99_999),
        "capital losses": Amount(9_999),
        "dividends from stocks": Amount(99_999),
        **codebook("census_codebook.json", omit=DEFAULTS),
    },
    labels={"- 50000.": 0, "50000+.": 1},
)
_OBTAIN = (
    "Download census-income.data.gz and census-income.test.gz of the data set Census-Income (KDD) from the UCI Machine "
    "Learning Repository and recompress them: `gunzip -c census-income.data.gz | xz > census-income/train.csv.xz`, "
    "and census-income.test.gz likewise to census-income/test.csv.xz."
)


def census(data_dir: str | Path | None = None) -> Split[LabelledTable]:
    """Return Census-Income: 199,523 rows to train on and 99,762 to test with, the original split.

    Numbers are scaled to [0, 1] by bounds that follow from the survey's form, see `ENCODING`; the categories are those
    of the codebook published with the data set (`census-income.names`), kept in `census_codebook.json`. A missing value
    (`?`) is all zero, and so is what a field says of most people (`DEFAULTS`). The instance weight is a property of the
    survey's design and not a feature: it is dropped. Label 1 is an income above 50,000 $.
    """
    return Split(_part(data_dir, "train"), _part(data_dir, "test"))


def _part(data_dir: str | Path | None, name: str) -> LabelledTable:
    path = files.locate(data_dir, f"census-income/{name}.csv.xz", url=None, sha256=None, obtain=_OBTAIN)
    return ENCODING.table(files.read(path).decode().splitlines(), str(path))
