"""draw_attention, draw_similarities, draw_entropies and draw_clustering, end to end."""

import json

import cv2
import pytest
import torch
from mmengine.config import Config
from mmpretrain.registry import MODELS

from mmbam.visualization import attention, attention_histograms
from tests.helpers.folders import make_config, make_folders
from tests.helpers.run import run_verb

VIEWS = """
train_dataloader['dataset']['pipeline'] = [
    dict(type='mmbam.SeedBySample'),
    dict(type='LoadImageFromFile'),
    dict(type='mmbam.MultiCrop', views=[dict(num=2, size=16, area=(0.5, 1.0))]),
    dict(type='PackInputs'),
]
model['neck'] = dict(
    type='mmbam.BAMNeck', in_channels=24, hid_channels=16, out_channels=8)
"""
ONE_VIEW = """
train_dataloader['dataset']['pipeline'] = val_dataloader['dataset']['pipeline']
"""


@pytest.fixture
def made(tmp_path):
    make_folders(tmp_path, train=6, test=2)
    config, weights, backbone = make_config(tmp_path)
    return tmp_path, config, weights, backbone


def seen(monkeypatch, module, name):
    """What a function of a module is called with from now on."""
    calls = []
    original = getattr(module, name)

    def call(*args, **kwargs):
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(module, name, call)
    return calls


def test_attention_is_drawn_in_one_picture_or_in_many(made, monkeypatch):
    root, config, weights, backbone = made
    calls = seen(monkeypatch, attention, 'draw_attention')
    command = 'draw', 'attention', config, weights, root / 'test', '--size', 24
    printed, error = run_verb(*command, '--num', 3, '--out', root / 'new/a.png')
    assert error is None and '3 of 6 images' in printed
    assert cv2.imread(str(root / 'new/a.png')) is not None
    gazes = calls[0][0]
    assert [gaze.name for gaze in gazes] == ['000.png', '001.png', '000.png']
    assert gazes[0].heads.shape == (4, 3, 3)  # 24 pixels, the checkpoint has 16
    torch.testing.assert_close(gazes[0].mean, gazes[0].heads.mean(dim=0))
    # The weights are those of the checkpoint.
    bgr = torch.from_numpy(gazes[0].image[..., ::-1].copy()).permute(2, 0, 1)[None]
    with torch.no_grad():
        expected = attention.attention_maps(backbone, (bgr.flip(1) - 120.0) / 60)[0]
    torch.testing.assert_close(gazes[0].heads, expected)

    _, error = run_verb(*command, '--out', root / 'many')
    assert error is None
    names = sorted(p.relative_to(root / 'many') for p in root.glob('many/*/*'))
    assert len(names) == 6 and str(names[0]) == 'class0/000.png.png'


def test_similarities_of_the_configs_data_and_of_a_folder(made, monkeypatch):
    root, config, weights, _ = made
    config.write_text(config.read_text() + VIEWS)
    calls = seen(monkeypatch, attention_histograms, 'pair_histograms')
    command = 'draw', 'similarities', config, weights, '--num-workers', 0
    for args in ([], [], ['--num', 7], [f'--images={root / "test"}', '--tau=0.2']):
        _, error = run_verb(*command, *args, '--out', root / 's.png')
        assert error is None
    assert cv2.imread(str(root / 's.png')) is not None
    assert [tuple(latents.shape) for latents, *_ in calls] == [
        (2, 18, 24),
        (2, 18, 24),
        (2, 7, 24),
        (2, 6, 24),
    ]
    assert calls[0][1].tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert torch.equal(calls[0][0], calls[1][0])  # the same views each time
    assert not torch.equal(calls[0][0][0], calls[0][0][1])
    assert calls[3][2] == 0.2


def test_similarities_behind_the_projector(made, monkeypatch):
    root, config, weights, backbone = made
    config.write_text(config.read_text() + VIEWS)
    command = 'draw', 'similarities', config, weights, '--num-workers', 0, '--projector'
    _, error = run_verb(*command, '--out', root / 's.png')
    assert 'neck.*' in error and 'leave out --projector' in error

    torch.manual_seed(1)
    neck = MODELS.build(Config.fromfile(config).model.neck).eval()
    names = (('backbone', backbone), ('neck', neck))
    state = {f'{k}.{n}': v for k, m in names for n, v in m.state_dict().items()}
    torch.save(dict(state_dict=state), weights)
    calls = seen(monkeypatch, attention_histograms, 'pair_histograms')
    for args in (command, command[:-1]):
        _, error = run_verb(*args, '--out', root / 's.png')
        assert error is None
    (latents, *_), (embeddings, *_) = calls
    with torch.no_grad():
        expected = neck(embeddings.flatten(0, 1)).unflatten(0, (2, -1))
    torch.testing.assert_close(latents, expected)


def test_entropies_of_runs(tmp_path):
    for name, a in (('one', 3.5), ('two', 4.5)):
        folder = tmp_path / name / '20260101_000000' / 'vis_data'
        folder.mkdir(parents=True)
        lines = [dict(entropy_a=a - s, entropy_b=1.0, step=s) for s in (0, 1)]
        (folder / 'scalars.json').write_text('\n'.join(map(json.dumps, lines)))
    out = tmp_path / 'e.png'
    printed, error = run_verb(
        'draw', 'entropies', tmp_path / 'one', tmp_path / 'two', '--out', out
    )
    assert error is None and out.exists()
    assert 'one: A 2.500, B 1.000' in printed and 'two: A 3.500' in printed


def test_clustering_draws_what_cluster_wrote(made):
    root, config, weights, _ = made
    scores, out = root / 'scores.json', root / 'c.png'
    _, error = run_verb(
        *('cluster', config, weights, '--draws', 2, '--num-workers', 0),
        *('--num-classes', 2, 3, '--out', scores),
    )
    assert error is None
    _, error = run_verb('draw', 'clustering', f'BAM={scores}', '--out', out)
    assert error is None
    assert cv2.imread(str(out)) is not None


@pytest.mark.parametrize(
    'command, sentence',
    [
        ('draw attention {cfg} {ckpt} {root}/empty', 'holds no images'),
        ('draw attention {cfg} {ckpt} {root}/gone', 'no image or folder'),
        ('draw attention {cfg} {ckpt} {root}/bad.png', "bad.png' cannot be read"),
        ('draw attention {cfg} {root}/bad.pth {root}/test', 'does not fit'),
        ('draw attention {cfg} {root}/gone.pth {root}/test', 'no checkpoint file'),
        ('draw attention {cfg} {ckpt} {root}/test --size=4', 'one patch, 8 pixels'),
        ('draw similarities {cfg} {root}/bad.pth', 'does not fit'),
        ('draw similarities {cfg} {ckpt} --projector', 'no model.neck'),
        ('draw similarities {views} {ckpt} --images={root}/empty', 'per class'),
        (
            'draw similarities {views} {ckpt} --tau=0',
            'tau must be a finite number above 0',
        ),
        ('draw similarities {cfg} {ckpt}', 'gives one'),
        ('draw entropies {root}/empty', 'holds no vis_data/scalars.json'),
        ('draw clustering {root}/bad.png', 'NAME=JSON'),
        ('draw clustering a={root}/gone.json', 'There is no file'),
        ('draw clustering a={root}/bad.png', 'mmbam cluster --out` writes'),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(made, command, sentence, monkeypatch):
    root, config, weights, backbone = made
    monkeypatch.chdir(root)
    (root / 'empty').mkdir()
    (root / 'bad.png').write_text('no image')
    torch.save({'backbone.other': torch.zeros(2)}, root / 'bad.pth')
    views = root / 'views.py'
    views.write_text(config.read_text() + VIEWS)
    config.write_text(config.read_text() + ONE_VIEW)
    tool, *args = command.format(
        root=root, cfg=config, ckpt=weights, views=views
    ).split()
    if args[0] == 'similarities':
        args += ['--num-workers=0']
    _, error = run_verb(tool, *args)
    assert error.startswith(f'mmbam {tool} {args[0]}: ') and sentence in error
    assert not list(root.glob('*.png'))[1:]
