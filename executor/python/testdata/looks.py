"""A function that knows its values by what they can."""


def name_of(value: object) -> str:
    return f"{type(value).__name__} {value.twice()}"
