"""Tasks with Arrow tables."""

import pyarrow as pa


def make() -> pa.Table:
    """A table with numbers, text and a hole."""
    return pa.table({"n": list(range(50_000)), "name": ["a", "bc", None, "d"] * 12_500})


def describe(table: pa.Table) -> str:
    """What a task sees of a table."""
    total, names = sum(table["n"].to_pylist()), table["name"].null_count
    return f"{type(table).__name__} {table.num_rows} {table.schema.names} {total} {names} {table.slice(1, 2).to_pylist()}"
