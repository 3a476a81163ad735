"""`python -m tests.airflow_survey FOLDER [--only TEXT] [--wrong] [--keep DIR]`: figures of an import of real files.

FOLDER holds a folder for each repository. Each is imported from the folder around its `dags`, or as a whole.
No file is committed: bring your own.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.airflow_survey.verdict import Verdict, verdict

_MAKES_DAGS = re.compile(r"\bDAG\(|@dag\b|@\w+\.dag\b")
_TIDEGATE = Path(sys.executable).with_name("tidegate")


def main(
    folder: Path,
    *,
    only: Annotated[str, typer.Option(help="Only repositories whose name has this text.")] = "",
    wrong: Annotated[bool, typer.Option("--wrong", help="Each task and edge that is lost without a word.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Where the translations are kept.")] = None,
) -> None:
    """Import each repository, check what was written, and print the sums."""
    found = [one for repository in sorted(folder.iterdir()) if only in repository.name for one in survey(repository, keep)]
    for line in report(found, wrong=wrong):
        typer.echo(line)


def survey(repository: Path, keep: Path | None) -> Iterator[Verdict]:
    folders = [path for path in sorted(repository.rglob("dags")) if path.is_dir()]
    outermost = [path for path in folders if not any(other in path.parents for other in folders)]
    # The folder around it may have modules of the DAG files, such as plugins.
    for number, root in enumerate(sorted({path.parent for path in outermost}) or [repository]):
        with tempfile.TemporaryDirectory() as temporary:
            target = keep / f"{repository.name}-{number}" if keep else Path(temporary)
            yield from _survey_folder(root, target)


def _survey_folder(root: Path, target: Path) -> Iterator[Verdict]:
    imported = _run("import-airflow", str(root), "--json", "--output", str(target), "--overwrite")
    if imported is None:
        yield Verdict(str(root), problem="the import crashed")
        return
    checked = {Path(file["path"]): file for file in _run("check", str(target), "--json") or []}
    for path, file in checked.items():
        if file["problem"] is not None and " is also in " in file["problem"]["reason"]:
            # The source has the id in two files as well: each is checked by itself.
            checked[path] = next(iter(_run("check", str(path), "--json", folder=target) or []), file)
    for document in imported:
        path = Path(document["path"])
        source = path.read_text(errors="replace")
        if "airflow" in source and _MAKES_DAGS.search(source) and "tests" not in path.relative_to(root).parts:
            yield verdict(str(path), source, document, checked.get(target / path.relative_to(root)))


def _run(*arguments: str, folder: Path | None = None) -> list[dict[str, Any]] | None:
    """What a command prints as JSON; None if it crashed."""
    variables = {**os.environ, **({"TIDEGATE_DAGS_FOLDER": str(folder.resolve())} if folder is not None else {})}
    ended = subprocess.run([_TIDEGATE, *arguments], capture_output=True, text=True, check=False, env=variables)
    if "there are no Python files" in ended.stderr:
        return []
    if "Traceback" in ended.stderr or not ended.stdout:
        typer.echo(f"{' '.join(arguments)}: {ended.stderr[-2000:]}", err=True)
        return None
    document: list[dict[str, Any]] = json.loads(ended.stdout)
    return document


def report(verdicts: list[Verdict], *, wrong: bool) -> Iterator[str]:
    crashed = [one for one in verdicts if one.problem == "the import crashed"]
    refused = [one for one in verdicts if (one.problem or "").startswith("check: ")]
    unread = [one for one in verdicts if one.problem and one not in crashed and one not in refused]
    yield f"files: {len(verdicts)}, of which pass check: {sum(one.passes for one in verdicts)}, crashes: {len(crashed)}"
    yield f"refused by check: {len(refused)}, not read: {len(unread)}"
    yield f"wrong but unlisted: {sum(bool(one.wrong) for one in verdicts)} files"
    tasks, edges, reasons, kinds = (
        _sum(getattr(one, name) for one in verdicts) for name in ("tasks", "edges", "reasons", "kinds")
    )
    real = sum(count for state, count in tasks.items() if not state.startswith("empty "))
    yield f"real tasks: {real}, {_shares({state: count for state, count in tasks.items() if not state.startswith('empty ')})}"
    yield f"empty tasks: {_shares({state: count for state, count in tasks.items() if state.startswith('empty ')})}"
    yield f"edges: {_shares(edges)}"
    yield f"parts left out: {sum(reasons.values())}"
    yield from (f"  {count:5} {reason}" for reason, count in reasons.most_common(60))
    yield "tasks that are not translated"
    yield from (f"  {count:5} {kind}" for kind, count in kinds.most_common(40))
    yield "refused by check, or not read"
    yield from (f"  {one.path}: {(one.problem or '')[:250]}" for one in [*refused, *unread])
    if wrong:
        yield "wrong but unlisted"
        yield from (f"  {line}" for one in verdicts for line in one.wrong)


def _sum(counts: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return total


def _shares(counts: dict[str, int]) -> str:
    total = sum(counts.values()) or 1
    return ", ".join(f"{state} {count} ({100 * count / total:.1f} %)" for state, count in sorted(counts.items()))


if __name__ == "__main__":
    typer.run(main)
