"""Structs inside of others, stored in one row with them."""


class Columns:
    """Marks a struct that is stored as columns in the row of the struct that contains it."""

    __slots__ = ()
