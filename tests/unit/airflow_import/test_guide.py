"""The guide `from-airflow.md`: its example is what the import makes of it, and its words are those of the tables."""

from tests.documents import ROOT, blocks
from tidegate.daemon.airflow_import.source import parse_source
from tidegate.daemon.airflow_import.translate import translate_source

PAGE = ROOT / "schemas/docs/from-airflow.md"


def test_the_example_of_the_guide_is_translated_as_it_says() -> None:
    (airflow,) = (block.text for block in blocks("text") if block.page == PAGE)
    (tidegate,) = (block.text for block in blocks("python") if block.page == PAGE)

    result = translate_source(parse_source("orders.py", airflow.encode()))

    assert result.text == tidegate
    assert result.omissions == ()
