"""A storm in which users edit, break, delete and restore many DAG files while events come in and daemons are killed."""

from pathlib import Path
from random import Random
from typing import Any

from msgspec.structs import replace

from tests.storms.checker import Verdict
from tests.storms.edits import invariants
from tests.storms.edits.editor import Editing, Editor, files
from tests.storms.evidence import Evidence
from tests.storms.meddler import Note
from tests.storms.storm import Plan, Storm

SCAN_S = 1.0


class EditsPlan(Plan, frozen=True, kw_only=True):
    editing: Editing


class EditsStorm(Storm):
    plan: EditsPlan
    editor: Editor

    def __init__(self, plan: EditsPlan, home: Path, cache: Path, seed: int) -> None:
        more = {
            "files": {**plan.files, **files(plan.editing.files)},
            "dags": plan.dags + plan.editing.files,
            "settings": {"dags_scan_s": SCAN_S, **plan.settings},
        }
        super().__init__(replace(plan, **more), home, cache, seed)

    async def _intrude(self, note: Note) -> None:
        self.editor = Editor(Random(self.seed), self.home / "dags", self.postgres.dsn, note)
        await self.editor.edit(self.plan.editing)

    async def _withdraw(self) -> None:
        await self.editor.restore(self.plan.editing.files)

    async def _verdict(self, evidence: Evidence) -> Verdict:
        verdict = await super()._verdict(evidence)
        more: dict[str, Any] = {
            "versions_are_distinct_contents": await invariants.versions_are_distinct_contents(
                evidence, self.editor, self.plan.editing.files
            ),
            "no_run_is_made_by_an_edit": await invariants.no_run_is_made_by_an_edit(evidence),
        }
        met = await invariants.reached(evidence, self.editor)
        return replace(verdict, violations={**verdict.violations, **more}, reached={**verdict.reached, **met})
