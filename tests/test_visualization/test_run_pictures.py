"""The curves of a run say which line is which."""

from __future__ import annotations

import pytest

from mmbam.visualization import run_pictures
from mmbam.visualization.curves import NAMES


@pytest.mark.parametrize('uniform', [None, 6.2])
def test_a_legend_names_the_entropies(uniform, tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(run_pictures, 'save_figure', lambda one, _: figures.append(one))
    scalars = {key: ([1, 2], [5.0, 4.0]) for key in ('loss', 'lr', *NAMES)}
    run_pictures.draw_course(scalars, tmp_path / 'curves.png', uniform)
    entropies = figures[0].axes[1]
    words = [text.get_text() for text in entropies.get_legend().get_texts()]
    assert words[:2] == list(NAMES.values()) and len(words) == (3 if uniform else 2)
