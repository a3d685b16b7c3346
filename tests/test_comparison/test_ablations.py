"""Table 1 at small scale: rows without one ingredient, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from mmengine.logging import MessageHub
from mmengine.registry import MODELS
from torch.utils.data import default_collate

from mmbam.comparison import Settings, compare, load_method, method_names
from mmbam.comparison.ablations import (
    PAPER,
    ablation_table,
    ablations,
    verdict,
    write_ablations,
)
from mmbam.comparison.config import run_config
from mmbam.comparison.report import failures
from mmbam.evaluation.loaders import build_dataset
from mmbam.utils.errors import InputError
from tests.helpers.folders import make_folders

SMALL = dict(size=16, batch_size=8, head_width=16, local_views=2, evaluations=1)
# Row by row as in the paper, with the keys of the run's config that it changes.
CHANGED = {
    'full': set(),
    'no_positive_mask': {'model.head.loss.positive_mask'},
    'no_global_norm': {'model.head.loss.global_norm'},
    'no_balancing': {'model.head.loss.balanced'},
    'no_multi_crop': {
        'model.head.loss.num_views',
        'train_dataloader.dataset.pipeline',
    },
    'no_teacher': {'model.teacher'},
    'no_contrastive_crop': {'custom_hooks'},
}


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp('data')
    make_folders(root)  # 3 classes, 8 images of each to train on, 5 to test
    return str(root)


@pytest.fixture(scope='module')
def configs(data):
    settings = Settings(data, epochs=30, workers=0, **SMALL)
    return {
        Path(path).stem: run_config(load_method(path), settings, 0, 30, 'folder')
        for path in ablations()
    }


def changed(one: object, other: object, key: str = '') -> set[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        parts = [
            changed(one.get(k, ...), other.get(k, ...), f'{key}.{k}' if key else k)
            for k in set(one) | set(other)
        ]
        return set().union(*parts)
    return set() if one == other else {key}


def test_each_row_lacks_its_ingredient_alone(configs):
    assert list(configs) == list(CHANGED) == list(PAPER)
    full = configs['full'].to_dict()
    for name, cfg in configs.items():
        assert changed(full, cfg.to_dict()) == CHANGED[name], name
    assert not set(configs) & set(method_names())  # no other method's list gains rows
    boxes = next(h for h in full['custom_hooks'] if h['type'] == 'mmbam.LocalizeHook')
    assert (boxes['start_epoch'], boxes['interval']) == (8, 4)  # of 30, as 40 and 20
    assert full['model']['head']['loss']['num_views'] == 4


@pytest.mark.parametrize('name', CHANGED)
def test_every_row_trains(name, configs):
    MessageHub.get_current_instance().update_info('max_iters', 100)
    cfg = configs[name]
    model = MODELS.build(cfg.model)
    model.init_weights()
    dataset = build_dataset(cfg.train_dataloader.dataset)
    batch = default_collate([dataset[i]['inputs'] for i in range(8)])
    views = model.data_preprocessor(dict(inputs=batch, data_samples=None))['inputs']
    assert len(views) == (2 if name == 'no_multi_crop' else 4)
    result = model(views, None, mode='loss')
    result['loss'].backward()
    assert all(torch.isfinite(value) for value in result.values())
    assert any(p.grad is not None and p.grad.any() for p in model.parameters())


def made(accuracies: dict[str, list[float]], start: float = 20.0) -> dict:
    """Results as a comparison has them; k-NN equals the linear probe."""
    runs = [
        dict(
            method=name,
            seed=seed,
            history=[
                dict(knn=start, linear=start, rankme=9.0),
                dict(knn=value, linear=value, rankme=7.0),
            ],
        )
        for name, values in accuracies.items()
        for seed, value in enumerate(values)
    ]
    runs.append(dict(method='no_teacher', seed=9, error='lost'))
    runs.append(dict(runs[0], method='simclr'))
    methods = {name: dict(title=f'title of {name}') for name in PAPER}
    return dict(runs=runs, methods=methods, shared=['All share this.'])


ACCURACIES = dict(
    no_balancing=[15, 18, 19],
    full=[50, 52, 54],
    no_positive_mask=[45, 47.5, 48.5],  # -5, -4.5, -5.5
    no_global_norm=[52, 50, 55],  # 2, -2, 1
    no_multi_crop=[53, 55.5, 57.5],  # 3, 3.5, 3.5
    no_teacher=[40, 41],
)


def rows(results: dict, out: Path) -> dict[str, dict]:
    table = ablation_table(results, out)
    return {row[0].split()[-1]: dict(zip(table.header, row)) for row in table.rows}


def test_the_table_has_the_papers_figures_beside_ours(tmp_path):
    found = rows(made(ACCURACIES), tmp_path)
    assert list(found) == [name for name in PAPER if name in ACCURACIES]
    row = found['no_positive_mask']
    assert row['seeds'] == '3'
    assert row['linear (%)'] == row['k-NN (%)'] == pytest.approx((47, 1.8027756))
    assert row['linear minus full'] == pytest.approx((-5, 0.5))  # seed by seed
    assert row['RankMe'] == 7.0 and row['entropy A'] is None
    assert (row['paper, linear (%)'], row['paper, minus full']) == ('72.6', '-1.1')
    assert found['full']['paper, linear (%)'] == '73.7'
    assert found['full']['linear minus full'] == '–'
    assert found['no_balancing']['paper, linear (%)'] == 'collapse'
    assert found['no_balancing']['below random network'] == '3 of 3'
    assert found['no_teacher']['seeds'] == '2'


def test_a_row_is_called_as_in_the_paper_only_where_the_seeds_agree(tmp_path):
    found = rows(made(ACCURACIES), tmp_path)
    assert {name: row['as in the paper'] for name, row in found.items()} == dict(
        full='–',
        no_positive_mask='yes',
        no_global_norm='no clear difference',
        no_balancing='yes',
        no_multi_crop='no',
        no_teacher='too few seeds',
    )
    for last, word in (([15, 25, 19], 'in part'), ([25, 26, 27], 'no')):
        found = rows(made({**ACCURACIES, 'no_balancing': last}), tmp_path)
        assert found['no_balancing']['as in the paper'] == word
    same = {0: dict(history=[dict(linear=1.0)])}
    assert verdict({'full': same, 'no_teacher': same}, 'no_teacher') == 'too few seeds'


def write_log(folder: Path, a: float, b: float) -> None:
    log = folder / '20260101_000000' / 'vis_data' / 'scalars.json'
    log.parent.mkdir(parents=True)
    lines = [
        json.dumps(dict(step=step, entropy_a=a + 20 - step, entropy_b=b, loss=1.0))
        for step in range(1, 21)
    ]
    log.write_text('\n'.join(lines))


def test_the_page_shows_table_and_curves(tmp_path):
    results = made(ACCURACIES)
    for seed, (a, b) in enumerate([(4.0, 3.0), (4.2, 3.2), (4.4, 3.4)]):
        write_log(tmp_path / f'full_seed{seed}', a, b)
    row = rows(results, tmp_path)['full']
    # The last two of twenty points: a + 1 and a, of three seeds.
    assert row['entropy A'] == pytest.approx(4.7)
    assert row['entropy B'] == pytest.approx(3.2)
    page = write_ablations(results, tmp_path)
    text = page.read_text()
    assert page == tmp_path / 'ablations.html' and text.count('data:image/png') == 1
    for words in ('title of no_multi_crop', 'no clear difference', 'All share this.'):
        assert words in text
    assert 'simclr' not in text


def test_an_experiment_without_a_finished_row_is_named(tmp_path):
    with pytest.raises(InputError, match='no finished run .* full, no_positive_mask'):
        write_ablations(made({}), tmp_path)


def test_named_rows_come_with_the_full_method_in_the_order_of_the_paper():
    names = [Path(path).stem for path in ablations(['no_teacher', 'no_balancing'])]
    assert names == ['full', 'no_balancing', 'no_teacher']
    assert len(ablations()) == len(PAPER) == 7
    with pytest.raises(InputError, match="no row 'no_loss' of Table 1, only full, no"):
        ablations(['no_loss'])


@pytest.mark.slow
def test_rows_run_are_continued_and_reported(data, tmp_path, capsys):
    settings = Settings(data, epochs=3, workers=0, **SMALL)
    chosen = ablations(['no_balancing'])
    compare(settings, chosen[:1], out=tmp_path)
    results = compare(settings, chosen, out=tmp_path)
    assert capsys.readouterr().out.count('full method, seed 0: done already') == 1
    assert failures(results) == []
    row = rows(results, tmp_path)['method']
    assert 0 < row['entropy B'] < row['entropy A'] < 3
    assert 'no balancing' in write_ablations(results, tmp_path).read_text()
    log = next((tmp_path / 'full_seed0').glob('*/*.log')).read_text()
    assert 'error' not in log.lower()
