"""Values that a DAG file may pass, and that are no plain ones."""


class Incomparable:
    """Is equal to nothing, and says so with an exception."""

    def __eq__(self, other: object) -> bool:
        raise TypeError

    def __hash__(self) -> int:
        return 0


class Text(str):
    """A text of another type, which JSON does not know."""

    __slots__ = ()
