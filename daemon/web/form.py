"""What a form shows before it does anything."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from tidegate.schemas.error import RequestError

Kind = Literal["text", "checkbox", "select", "textarea", "datetime", "hidden"]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a form. `options` are those of a select; `hint` says what to write, and why, `problem` what is wrong."""

    name: str
    label: str
    kind: Kind = "text"
    value: str = ""
    options: Sequence[str] = ()
    hint: str = ""
    problem: str = ""
    is_required: bool = False


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What the change will do: sentences, and the rows that it changes. An empty `button`: nothing can be changed.

    With `choices` the preview is read again for other choices before it is done. `is_wide` ones have many of them.
    """

    title: str
    says: Sequence[str]
    back: str
    button: str
    titles: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    fields: Sequence[Field] = ()
    choices: Sequence[Field] = ()
    is_destructive: bool = False
    is_wide: bool = False


class RejectedFormError(RequestError):
    """A change is rejected: its form is shown again with what the user wrote, and the rejection beside its field."""

    def __init__(self, rejection: RequestError, page: Preview) -> None:
        super().__init__(str(rejection), reason=rejection.reason)
        self.rejection = rejection
        self.page = page


def checkbox(name: str, label: str, *, is_set: bool) -> Field:
    return Field(name=name, label=label, kind="checkbox", value="true" if is_set else "")
