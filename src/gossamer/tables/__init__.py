"""Tables of people's records from files, and schemas that say what is public about them. Nothing here needs JAX."""

from gossamer.tables.drafting import draft
from gossamer.tables.encoding import Declaration
from gossamer.tables.flags import schema_from_flags
from gossamer.tables.kinds import Amount, Category, Hashed, Ignore, Number, Undeclared
from gossamer.tables.mapped import map_table
from gossamer.tables.reading import parse_csv, read_table
from gossamer.tables.schema import Schema
from gossamer.tables.schema_files import (
    read_schema,
    schema_from_dict,
    schema_from_toml,
    schema_to_dict,
    schema_to_toml,
)
from gossamer.tables.table import MISSING, Column, Table

__all__ = [
    "MISSING",
    "Amount",
    "Category",
    "Column",
    "Declaration",
    "Hashed",
    "Ignore",
    "Number",
    "Schema",
    "Table",
    "Undeclared",
    "draft",
    "map_table",
    "parse_csv",
    "read_schema",
    "read_table",
    "schema_from_dict",
    "schema_from_flags",
    "schema_from_toml",
    "schema_to_dict",
    "schema_to_toml",
]
