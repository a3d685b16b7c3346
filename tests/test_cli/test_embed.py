"""mmbam embed and neighbors: from a folder and a checkpoint to a file or a page."""

import argparse
import shutil

import numpy as np
import pytest
import torch

from mmbam.cli import embed, neighbors
from tests.helpers.folders import make_config, make_folders, slow_features
from tests.helpers.run import run_verb, run_verb_on_devices


@pytest.fixture(scope='module')
def place(tmp_path_factory):
    """Folders of images, two of which are the same, a config, weights, the network."""
    root = tmp_path_factory.mktemp('place')
    make_folders(root, num_classes=2, train=2, test=3)
    shutil.copy(root / 'test/class0/001.png', root / 'test/class1/copy.png')
    return (root, *make_config(root))


def run(verb, *words):
    parser = argparse.ArgumentParser()
    verb.add_arguments(parser)
    return verb.run(parser.parse_args([*map(str, words), '--num-workers', '0']))


def test_embed_writes_what_the_network_gives(place, tmp_path, capsys):
    root, config, weights, backbone = place
    out = tmp_path / 'a.npz'
    assert run(embed, root / 'test', weights, '--config', config, '--out', out) == out
    with np.load(out) as file:
        expected, _ = slow_features(backbone, root / 'test')
        np.testing.assert_allclose(file['embeddings'], expected, atol=1e-5)
        names = file['files'].tolist()
    assert names[:2] == ['class0/000.png', 'class0/001.png'] and len(names) == 7
    assert 'embeddings of 7 images' in capsys.readouterr().out


def test_a_checkpoint_that_holds_its_config_needs_no_other(place, tmp_path):
    root, config, weights, backbone = place
    text = """model = dict(
        backbone=dict(type='mmpretrain.VisionTransformer', img_size=16, patch_size=8,
            arch=dict(embed_dims=24, num_layers=2, num_heads=4,
                      feedforward_channels=48)),
        data_preprocessor=dict(mean=[120, 120, 120], std=[60, 60, 60], to_rgb=True))
    """
    state = torch.load(weights)['state_dict']
    own = tmp_path / 'own.pth'
    torch.save(dict(state_dict=state, meta=dict(cfg=text)), own)
    run(embed, root / 'test', own, '--out', tmp_path / 'a.npy')
    expected, _ = slow_features(backbone, root / 'test')
    np.testing.assert_allclose(np.load(tmp_path / 'a.npy'), expected, atol=1e-5)


@pytest.mark.parametrize(
    'words, culprit',
    [
        (['{root}/gone', '{weights}', '--config', '{config}'], 'gone'),
        (['{root}/empty', '{weights}', '--config', '{config}'], 'empty'),
        (['{root}/test', '{root}/gone.pth', '--config', '{config}'], 'gone.pth'),
        (['{root}/test', '{weights}'], '--model'),
        (['{root}/test', '{weights}', '--model', 'vitt'], 'vitt'),
        (['{root}/test', '{weights}', '--config', '{config}', '--size', '0'], '--size'),
        (['{root}/test', '{weights}', '--config', '{config}', '--prefix', 'x'], "'x."),
    ],
)
def test_mistakes_are_named(place, tmp_path, words, culprit):
    root, config, weights, _ = place
    (root / 'empty').mkdir(exist_ok=True)
    words = [word.format(root=root, config=config, weights=weights) for word in words]
    with pytest.raises(ValueError) as error:
        run(embed, *words, '--out', tmp_path / 'a.npz')
    assert culprit in str(error.value) and '\n' not in str(error.value)
    assert not any(tmp_path.iterdir())


def test_parts_of_other_images_are_not_mixed(place, tmp_path, monkeypatch):
    root, config, weights, _ = place
    words = root / 'test', weights, '--config', config, '--out', tmp_path / 'a.npz'
    with monkeypatch.context() as patch:
        patch.setattr('mmbam.evaluation.embed.write_embeddings', None)  # stops it
        with pytest.raises(TypeError):
            run(embed, *words)
    other = ['--cfg-options', 'data_preprocessor.mean=[0,0,0]']
    with pytest.raises(ValueError, match='parts of embeddings with another norm'):
        run(embed, *words, *other)
    assert run(embed, *words).is_file()


@pytest.mark.slow
def test_two_devices_write_what_one_does(place, tmp_path):
    root, config, weights, _ = place
    words = ['neighbors', root / 'test', weights, '--config', config]
    words += ['--num-workers', 0, '--out']
    _, error = run_verb(*words, tmp_path / '1')
    assert error is None
    run_verb_on_devices(2, *words, tmp_path / '2')
    for name in ('index.html', 'embeddings.npz'):
        one, two = ((tmp_path / n / name).read_bytes() for n in '12')
        assert one == two


def test_neighbors_writes_a_page(place, tmp_path, capsys):
    root, config, weights, _ = place
    page = run(
        neighbors, root / 'test', weights, '--config', config, '--out', tmp_path,
        '--num-queries', 2, '--k', 3, '--threshold', 0.9999,
    )  # fmt: skip
    text = page.read_text()
    assert 'Nearest images' in text and text.count('<img') == 3
    assert '1 of 21 pairs' in text
    assert 'class0/001.png: class1/copy.png (1.000)' in text
    assert 'Pairs of near-duplicates: 1.' in capsys.readouterr().out


def test_neighbors_of_files_leave_out_the_query_itself(place, tmp_path):
    root, config, weights, _ = place
    outside = tmp_path / 'outside.png'
    shutil.copy(root / 'test/class1/002.png', outside)
    page = run(
        neighbors, root / 'test', weights, '--config', config, '--out', tmp_path,
        '--query', root / 'test/class0/001.png', outside, '--k', 2,
    )  # fmt: skip
    text = page.read_text()
    assert f'{root}/test/class0/001.png: class1/copy.png (1.000)' in text
    assert f'{outside}: class1/002.png (1.000)' in text


@pytest.mark.parametrize(
    'words, culprit',
    [
        (['--k', 0], '--k'),
        (['--num-queries', 0], '--num-queries'),
        (['--threshold', 2], '--threshold'),
        (['--query', 'gone.png'], 'gone.png'),
    ],
)
def test_wrong_numbers_are_named(place, tmp_path, words, culprit):
    root, config, weights, _ = place
    with pytest.raises(ValueError, match=culprit):
        run(
            neighbors, root / 'test', weights, '--config', config, '--out', tmp_path,
            *words,
        )  # fmt: skip
