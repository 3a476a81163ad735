"""What the forms of dead letters say."""

import pytest

from tidegate.daemon.read_model.dead_letter import Change
from tidegate.daemon.web.pages.dead_letter_forms import MOST, says_of


@pytest.mark.parametrize(("found", "is_cut"), [(1, False), (MOST, False), (MOST + 1, True)])
def test_a_form_says_that_it_leaves_some_out_only_if_it_does(found: int, *, is_cut: bool) -> None:
    assert any("the oldest 1000 at most" in sentence for sentence in says_of(Change.REPLAY, found)) is is_cut
