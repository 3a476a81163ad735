"""Groups of commands that are imported at their first use, so that `--help`, completion and other commands are fast."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def imported_group(module: str, attribute: str = "app") -> type[TyperGroup]:
    """A group with the commands of `attribute` in `commands/`."""

    class ImportedGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**{**attributes, "commands": _Commands(module, attribute)})

    return ImportedGroup


class _Commands(Mapping[str, Any]):
    def __init__(self, module: str, attribute: str) -> None:
        self._module = module
        self._attribute = attribute

    @cached_property
    def _imported(self) -> Mapping[str, Any]:
        module = import_module(f"tidegate.daemon.cli.commands.{self._module}")
        return typer.main.get_group(getattr(module, self._attribute)).commands

    def __getitem__(self, name: str) -> Any:
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._imported)

    def __len__(self) -> int:
        return len(self._imported)
