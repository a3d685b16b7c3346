"""`mmbam judge` on a short run of a tiny ResNet, and on a network that is dead."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import mmbam
from mmbam.checkpoints import load_training_checkpoint
from mmbam.cli.judge import TRUST
from mmbam.demo.world import make_world
from mmbam.engine.launch import build_runner, load_config
from mmbam.evaluation.judge import SCORES
from tests.helpers.folders import write_photos
from tests.helpers.run import ROOT, run_verb

CONFIG = ROOT / 'configs/tiny/bam_resnet_32px.py'
FAST = '--num-workers', 0, '--number', 40


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """A short run, and one whose network gives the same for all images."""
    root = tmp_path_factory.mktemp('judge')
    sizes = dict(patches=(96, 32), scenes=(0, 0), videos=(0, 0))
    world = make_world(root, progress=False, **sizes)['imagenet']
    settings = {
        'train_dataloader.dataset.data_root': world,
        'train_dataloader.batch_size': 24,
        'train_dataloader.num_workers': 0,
        'train_dataloader.persistent_workers': False,
        'train_cfg.max_epochs': 16,
        'optim_wrapper.optimizer.lr': 0.005,
        'custom_hooks': [dict(type='mmbam.SeedByEpochHook')],
        'default_hooks.checkpoint.interval': 8,
        'log_level': 'WARNING',
    }
    build_runner(load_config(str(CONFIG), str(root / 'run'), settings)).train()
    kill(root / 'run', root / 'dead')
    return root, Path(world)


def kill(run, dead):
    """Copy a run and let its networks give zeros."""
    dead.mkdir()
    for config in run.glob('*.py'):
        shutil.copy(config, dead)
    for name in ('epoch_8.pth', 'epoch_16.pth'):
        content = load_training_checkpoint(run / name)
        weights = content['state_dict']
        zeros = {key: torch.zeros_like(value) for key, value in weights.items()}
        meta = dict(cfg=content['meta']['cfg'])
        torch.save(dict(state_dict=zeros, meta=meta), dead / name)


def judge(*words):
    printed, error = run_verb('judge', *words, *FAST)
    assert error is None, error
    return printed


def test_a_run_is_judged_and_a_dead_one_recognized(place, tmp_path):
    root, _ = place
    out = tmp_path / 'verdict.json'
    printed = judge(root / 'dead', root / 'run', '--out', out)
    found = json.loads(out.read_text())
    rows = {Path(row['name']).relative_to(root): row for row in found['checkpoints']}
    files = 'epoch_8.pth', 'epoch_16.pth'
    names = [f'{run}/{file}' for run in ('dead', 'run') for file in files]
    assert list(map(str, rows)) == names
    assert [row['collapsed'] for row in rows.values()] == [True, True, False, False]
    alive = list(rows.values())[2:]
    best = max(alive, key=lambda row: row['signals']['agreement'])['name']
    assert found['chosen'] == {str(root / 'dead'): None, str(root / 'run'): best}
    assert (found['best'], found['images']) == (best, 40)
    assert set(found['random']) == {str(root / 'dead'), str(root / 'run')}
    marked = [line for line in printed.splitlines() if '<--' in line]
    assert len(marked) == 1 and Path(best).name in marked[0]
    assert printed.count(' collapsed │') == 2
    assert f'Take {best} of all runs.' in printed
    assert f'{root / "dead"}: every checkpoint is collapsed, take none.' in printed
    assert TRUST in printed
    assert found['trust'] is None and 'k-NN (%)' not in printed


def test_labels_measure_the_trust_and_change_no_choice(place, tmp_path):
    root, world = place
    words = dict(number=40, num_workers=0)
    plain = mmbam.judge(runs=[root / 'run', root / 'dead'], **words)
    printed = judge(
        *(root / 'run', root / 'dead'),
        *('--labeled', world, '--out', tmp_path / 'a.json'),
    )
    found = json.loads((tmp_path / 'a.json').read_text())
    assert found['chosen'] == plain['chosen'] and found['best'] == plain['best']
    # The same images and views whenever it is asked.
    rows = found['checkpoints']
    assert [r['signals'] for r in rows] == [r['signals'] for r in plain['checkpoints']]
    knn = {row['name']: row['knn'] for row in rows}
    assert max(list(knn.values())[:2]) > max(list(knn.values())[2:])
    of = found['trust']['correlations']
    assert {name: of[name]['number'] for name in ('within', 'last', 'all')} == dict(
        within=0, last=2, all=4
    )
    assert set(of['all']) == {'number', *SCORES}
    truth = spearmanr(list(knn.values()), [r['signals']['agreement'] for r in rows])
    assert of['all']['agreement'] == pytest.approx(truth.statistic)
    collapse = found['trust']['collapse']
    assert collapse['by_labels'] == collapse['recognized'] == [str(root / 'dead')]
    assert "Spearman's correlation" in printed and 'behind the best' in printed
    assert 'before training: 1, recognized as collapsed: 1.' in printed
    # The k-NN is that of the verb.
    config = next((root / 'run').glob('*.py'))
    said, error = run_verb(
        *('knn', config, root / 'run/epoch_16.pth', '--size', 32, '--num-workers', 0),
        *('--train', world / 'train', '--test', world / 'val'),
    )
    assert error is None
    assert f'20-NN: top-1 {knn[str(root / "run/epoch_16.pth")]:.2f},' in said


def test_without_a_config_the_checkpoint_says_what_its_views_are(place, tmp_path):
    root, _ = place
    photos = write_photos(tmp_path / 'photos', number=24)
    bare = tmp_path / 'bare'
    bare.mkdir()
    shutil.copy(root / 'run/epoch_16.pth', bare)
    _, error = run_verb('judge', bare, *FAST)
    assert 'give --images or --config' in error
    printed = judge(bare, '--images', photos)
    # A title as long as this path is folded.
    assert f'{bare}:24imagesx2views' in ''.join(printed.split())
    beside = judge(root / 'run', '--images', photos)

    def row_of(text):
        line = next(x for x in text.splitlines() if '│' in x and 'epoch_16.pth' in x)
        return line.replace('<--', '').split()

    assert row_of(printed) == row_of(beside)


def test_damaged_checkpoints_are_passed_over_and_a_diverged_one_has_no_rank(
    place, tmp_path
):
    root, world = place
    run = tmp_path / 'run'
    shutil.copytree(root / 'run', run)
    whole = (run / 'epoch_8.pth').read_bytes()
    (run / 'epoch_24.pth').write_bytes(whole[: len(whole) // 2])
    content = torch.load(root / 'dead/epoch_8.pth')
    for value in content['state_dict'].values():
        if value.is_floating_point():
            value.fill_(torch.nan)
    torch.save(content, run / 'iter_7.pth')
    out = tmp_path / 'a.json'
    printed = judge(run, '--labeled', world, '--out', out)
    assert 'Passed over: epoch_24.pth (cut short' in printed
    found = json.loads(out.read_text())
    broken = found['checkpoints'][-1]
    assert broken['checkpoint'] == 'iter_7.pth' and broken['collapsed']
    assert broken['knn'] is None and set(broken['signals'].values()) == {None}
    assert found['trust']['correlations']['runs'][str(run)]['number'] == 2
    assert found['trust']['collapse']['by_labels'] == [str(run)]


def test_a_continued_run_has_several_configs_of_which_only_names_differ(
    place, tmp_path
):
    from mmbam.evaluation.runs import find_run

    run = tmp_path / 'run'
    shutil.copytree(place[0] / 'run', run)
    config = next(run.glob('*.py'))
    text = config.read_text() + '\nexperiment_name = "later"\nresume = True\n'
    (run / 'z.py').write_text(text)
    assert find_run(run).cfg.experiment_name == 'later'


def test_the_draw_of_views_does_not_depend_on_workers_or_batches(place):
    from mmbam.evaluation.runs import find_run
    from mmbam.evaluation.two_views import draw_views, view_dataset

    cfg = find_run(place[0] / 'run').cfg

    def draw(**kwargs):
        views = draw_views(view_dataset(cfg), 30, **kwargs)
        return [torch.cat(part) for part in zip(*views)]

    first, second = draw(num_workers=0)
    assert len(first) == len(second) == 30 and not first.equal(second)
    again = draw(num_workers=1, batch_size=7)
    assert first.equal(again[0]) and second.equal(again[1])
    assert not first.equal(draw(num_workers=0, seed=1)[0])


def test_mistakes_are_named(place, tmp_path):
    root, _ = place
    run, empty = root / 'run', tmp_path / 'empty'
    empty.mkdir()
    several = tmp_path / 'several'
    several.mkdir()
    for name, depth in (('a.py', 18), ('b.py', 34)):
        text = f'model = dict(backbone=dict(type="ResNet_CIFAR", depth={depth}))'
        (several / name).write_text(text)
    shutil.copy(run / 'epoch_8.pth', several)
    few = tmp_path / 'few'
    few.mkdir()
    cv2.imwrite(str(few / 'a.png'), np.zeros((32, 32, 3), np.uint8))
    for words, sentence in (
        ([tmp_path / 'gone'], 'There is no work directory'),
        ([empty], 'holds no checkpoint of a run: epoch_*.pth or iter_*.pth'),
        ([several], 'in the network or the images, a.py, b.py: name one with'),
        ([run, root / 'dead' / '..' / 'run'], 'named once'),
        ([run, '--number', 20], 'above 20, but got 20'),
        ([run, '--images', few], 'more than 20 images, but got 1'),
        ([run, '--labeled', few], 'one folder of images per class'),
        ([run, '--out', run / 'epoch_8.pth'], 'would be overwritten'),
    ):
        _, error = run_verb('judge', *FAST, *words)
        assert error and sentence in error, (sentence, error)
