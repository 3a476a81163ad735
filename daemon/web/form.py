"""What a form shows before it does anything."""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args, get_type_hints
from urllib.parse import urlencode

import msgspec

from tidegate.schemas.error import Finding, RequestError, UnfitError

Kind = Literal["text", "number", "date", "checkbox", "select", "textarea", "hidden"]


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a form. `options` are those of a select, or what a text may be; `hint` says what to write, and why.

    `pointer` leads to its value in the request. `problem` is what is wrong. `bounds` are attributes of the input, such as `min`.
    `unchecked` is the value of a checkbox without a tick; without it there is none.
    """

    name: str
    label: str
    pointer: str = ""
    kind: Kind = "text"
    value: str = ""
    options: Sequence[str] = ()
    hint: str = ""
    problem: str = ""
    is_required: bool = False
    bounds: Mapping[str, str] = {}
    unchecked: str = ""


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What the change will do: sentences, and the rows that it changes. An empty `button`: nothing can be changed.

    `has_choices`: other texts in its fields show another preview before anything is done. `is_wide` ones have many fields.
    `action` is the address that makes the change, where it is not that of the form: `latest` may be another run by then.
    """

    title: str
    says: Sequence[str]
    back: str
    button: str
    titles: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    fields: Sequence[Field] = ()
    has_choices: bool = False
    is_destructive: bool = False
    is_wide: bool = False
    action: str = ""

    @property
    def choices(self) -> str:
        """The address of the preview with the texts of its fields."""
        return preview_of({field.name: field.value for field in self.fields})


class RejectedFormError(RequestError):
    """A change is rejected: its form is shown again with what the user wrote, and the rejection beside its field."""

    def __init__(self, rejection: RequestError, page: Preview) -> None:
        super().__init__(str(rejection), reason=rejection.reason, field=rejection.field)
        self.rejection = rejection
        self.page = page


def with_rejection(page: Preview, texts: Mapping[str, str], error: RequestError) -> Preview:
    """The form with what the user wrote, and the rejection: beside the fields that it names, or above all fields."""
    problems, above = _placed(page.fields, error)
    fields = [_written(field, texts, problems) for field in page.fields]
    return msgspec.structs.replace(page, fields=fields, says=[*above, *page.says])


def _placed(fields: Sequence[Field], error: RequestError) -> tuple[Mapping[str, str], Sequence[str]]:
    """What is wrong by the names of fields, and the sentences about none of them."""
    if not isinstance(error, UnfitError):
        is_shown = any(field.name == error.field and field.kind != "hidden" for field in fields)
        return ({error.field: str(error)}, ()) if is_shown else ({}, [sentence(error)])
    problems, above = dict[str, str](), list[str]()
    for finding in error.findings:
        name = next((field.name for field in fields if _is_of(finding, field)), None)
        if name is None:
            above.append(f"{finding.sentence[:1].upper()}{finding.sentence[1:]}.")
        else:
            problems[name] = f"{problems[name]}. {finding.sentence}" if name in problems else finding.sentence
    return problems, above


def _is_of(finding: Finding, field: Field) -> bool:
    return bool(field.pointer) and f"{finding.pointer}/".startswith(f"{field.pointer}/")


def preview_of(texts: Mapping[str, str]) -> str:
    """The address of the preview with these texts, relative to that of its form; the same for texts that mean the same."""
    written = {name: text.strip().replace("\r\n", "\n") for name, text in sorted(texts.items())}
    return f"?{urlencode({name: text for name, text in written.items() if text})}"


def sentence(error: RequestError) -> str:
    """The rejection above the fields of a form."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def _written(field: Field, texts: Mapping[str, str], problems: Mapping[str, str]) -> Field:
    if field.kind == "hidden":
        return field
    problem = problems.get(field.name, field.problem)
    return msgspec.structs.replace(field, value=texts.get(field.name, ""), problem=problem)


def descriptions(options: type[msgspec.Struct]) -> dict[str, str]:
    """The words of options that a struct declares, by name."""
    hints = get_type_hints(options, include_extras=True).items()
    return {
        name: next(meta.description or "" for meta in get_args(hint) if isinstance(meta, msgspec.Meta)) for name, hint in hints
    }


def checkbox(name: str, label: str, *, is_set: bool, problem: str = "") -> Field:
    return Field(name=name, label=label, kind="checkbox", value="true" if is_set else "", problem=problem)
