"""The course of a run, over all its starts."""

import json

import cv2
import pytest

from mmbam.visualization.curves import draw_entropies, read_run


def write(path, steps, value=1.0, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(dict(entropy_a=value + s, entropy_b=value - s, step=s, **more))
        for s in steps
    ]
    path.write_text('\n'.join(lines))


def test_a_resumed_run_counts_from_where_it_resumed(tmp_path):
    write(tmp_path / '20260101_000000/vis_data/scalars.json', (1, 2, 3, 4), 10.0)
    write(tmp_path / '20260102_000000/vis_data/scalars.json', (3, 4, 5), 20.0)
    (tmp_path / '20260103_000000/vis_data').mkdir(parents=True)
    (tmp_path / '20260103_000000/vis_data/scalars.json').write_text('')
    steps, values = read_run(tmp_path)['entropy_a']
    assert steps == [1, 2, 3, 4, 5]
    assert values == [11.0, 12.0, 23.0, 24.0, 25.0]


def test_a_log_or_one_start_will_do(tmp_path):
    log = tmp_path / '20260101_000000/vis_data/scalars.json'
    write(log, (1, 2))
    one = read_run(log)
    assert one == read_run(tmp_path) == read_run(log.parents[1])
    assert one['entropy_b'] == ([1, 2], [0.0, -1.0])


@pytest.mark.parametrize('count', [1, 3])
def test_both_matrices_of_every_run_are_drawn(tmp_path, count, monkeypatch):
    from matplotlib.axes import Axes

    drawn = []
    original = Axes.plot

    def plot(self, x, y, **kwargs):
        drawn.append((x, y))
        return original(self, x, y, **kwargs)

    monkeypatch.setattr(Axes, 'plot', plot)
    runs = {}
    for k in range(count):
        write(tmp_path / f'{k}/vis_data/scalars.json', (1, 2, 3), float(k))
        runs[f'run {k}'] = read_run(tmp_path / f'{k}')
    draw_entropies(runs, tmp_path / 'e.png')
    assert drawn == [
        scalars[key] for scalars in runs.values() for key in ('entropy_a', 'entropy_b')
    ]
    assert cv2.imread(str(tmp_path / 'e.png')) is not None


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match='holds no vis_data/scalars.json'):
        read_run(tmp_path)
    with pytest.raises(FileNotFoundError, match='name the work directory of a run'):
        read_run(tmp_path / 'gone')
    for text in ('{"loss": 1', '{"loss": 1}', '[1]'):
        (tmp_path / 'scalars.json').write_text(text)
        with pytest.raises(ValueError, match='is not the log of a run'):
            read_run(tmp_path / 'scalars.json')
    with pytest.raises(ValueError, match="'mine' has no entropy_b:"):
        draw_entropies({'mine': {'entropy_a': ([1], [1.0])}}, tmp_path / 'e.png')
    with pytest.raises(ValueError, match='at least one run'):
        draw_entropies({}, tmp_path / 'e.png')
