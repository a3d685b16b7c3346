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


@pytest.fixture
def damaged(place, tmp_path):
    """The same images, of which the first two and a later one cannot be read."""
    folder = tmp_path / 'damaged'
    shutil.copytree(place[0] / 'test', folder)
    whole = (folder / 'class0/000.png').read_bytes()
    (folder / 'class0/000.png').write_bytes(whole[: len(whole) // 2])
    (folder / 'class0/001.png').write_text('no image')
    (folder / 'class1/001.png').write_bytes(b'')
    return folder


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('load', ["'LoadImageFromFile'", "'mmbam.LoadImage'"])
def test_images_that_cannot_be_read_are_left_out(
    place, damaged, tmp_path, workers, load
):
    _, config, weights, backbone = place
    other = tmp_path / 'config.py'  # mmbam.LoadImage would take another image
    other.write_text(config.read_text().replace("'LoadImageFromFile'", load))
    out = tmp_path / 'a.npz'
    words = ['embed', damaged, weights, '--config', other, '--out', out]
    printed, error = run_verb(*words, '--num-workers', workers)
    assert error is None and 'embeddings of 4 images' in printed
    for name in ('class0/000.png', 'class0/001.png', 'class1/001.png'):
        (damaged / name).unlink()
    expected, _ = slow_features(backbone, damaged)
    with np.load(out) as file:
        np.testing.assert_allclose(file['embeddings'], expected, atol=1e-5)
        assert file['files'].tolist() == [
            'class0/002.png', 'class1/000.png', 'class1/002.png', 'class1/copy.png'
        ]  # fmt: skip


def test_neighbors_of_the_images_that_can_be_read(place, damaged, tmp_path):
    root, config, weights, _ = place
    outside = tmp_path / 'outside.png'
    shutil.copy(root / 'test/class0/001.png', outside)
    words = ['neighbors', damaged, weights, '--config', config, '--num-workers', 0]
    words += ['--out', tmp_path, '--query']
    queries = [damaged / 'class1/copy.png', outside]
    _, error = run_verb(*words, *queries, '--k', 1)
    assert error is None
    text = (tmp_path / 'index.html').read_text()
    assert text.count('4 images of') == 1 and 'of 6 pairs' in text
    assert f'{outside}: class1/copy.png (1.000)' in text
    assert f'{queries[0]}: class1/copy.png' not in text
    _, error = run_verb(*words, damaged / 'class0/001.png')
    assert f'{damaged}/class0/001.png (ValueError: this is no image)' in error


def test_no_image_that_can_be_read_is_one_sentence(place, tmp_path):
    _, config, weights, _ = place
    (tmp_path / 'images').mkdir()
    (tmp_path / 'images/a.png').write_text('no image')
    words = [tmp_path / 'images', weights, '--config', config, '--out', tmp_path / 'o']
    _, error = run_verb('neighbors', *words)
    reason = 'a.png (ValueError: this is no image)'
    assert error.endswith(f': None of the 1 images can be read: {reason}.')


@pytest.mark.slow
@pytest.mark.parametrize('whole', [True, False])
def test_two_devices_write_what_one_does(place, damaged, tmp_path, whole):
    root, config, weights, _ = place
    words = ['neighbors', root / 'test' if whole else damaged, weights]
    words += ['--config', config, '--batch-size', 2]
    words += ['--num-workers', 0, '--out']
    _, error = run_verb(*words, tmp_path / '1')
    assert error is None
    printed = run_verb_on_devices(2, *words, tmp_path / '2')
    assert printed.count('cannot be read are left out (3 of 7): ') == (not whole)
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
