"""Embedding files: in order, resumable, and equal on any number of ranks."""

import sys

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from mmbam.evaluation.embed import embed
from mmbam.evaluation.embedding_files import require_format
from mmbam.models import embedding
from mmbam.models.backbones.anatomy import patch_tokens
from tests.helpers.networks import mm_vit

NUMBER = 11


class Images(Dataset):
    """Noise that remembers what was read, and may fail once."""

    def __init__(self, broken=None):
        generator = torch.Generator().manual_seed(0)
        shape = (NUMBER, 3, 32, 32)
        self.images = torch.randint(0, 256, shape, generator=generator).byte()
        self.broken = broken
        self.read = []

    def __len__(self):
        return NUMBER

    def __getitem__(self, index):
        if index == self.broken:
            raise KeyboardInterrupt
        self.read.append(index)
        return dict(inputs=self.images[index])


NAMES = [f'folder/image {i}.png' for i in range(NUMBER)]


def run(out, dataset=None, **kwargs):
    """Batches of 2, so that there are 6 parts, the last with one image."""
    options = dict(names=NAMES, batch_size=2, num_workers=0, settings=dict(a=1))
    return embed(mm_vit(), dataset or Images(), out, **{**options, **kwargs})


@pytest.fixture(scope='module')
def expected():
    with torch.no_grad():
        images = Images().images.float()
        network = mm_vit()
        return embedding(network, images).numpy(), patch_tokens(network, images).numpy()


def test_each_image_has_its_row_and_name(tmp_path, expected):
    with np.load(run(tmp_path / 'a.npz', tokens=True)) as file:
        np.testing.assert_allclose(file['embeddings'], expected[0], atol=1e-5)
        np.testing.assert_allclose(file['tokens'], expected[1], atol=1e-5)
        assert file['files'].tolist() == NAMES
        assert file['embeddings'].dtype == np.float32
    assert [path.name for path in tmp_path.iterdir()] == ['a.npz']


def test_arrays_with_names_beside_them(tmp_path, expected):
    path = run(tmp_path / 'a.npy', tokens=True)
    np.testing.assert_allclose(np.load(path), expected[0], atol=1e-5)
    tokens = np.load(tmp_path / 'a.tokens.npy')
    np.testing.assert_allclose(tokens, expected[1], atol=1e-5)
    assert (tmp_path / 'a.files.txt').read_text().splitlines() == NAMES


def test_parquet(tmp_path, expected):
    parquet = pytest.importorskip('pyarrow.parquet', reason='pyarrow is optional')
    table = parquet.read_table(run(tmp_path / 'a.parquet', tokens=True))
    assert table['file'].to_pylist() == NAMES
    rows = np.array(table['embeddings'].to_pylist(), np.float32)
    np.testing.assert_allclose(rows, expected[0], atol=1e-5)
    field = table.schema.field('tokens')
    shape = [int(side) for side in field.metadata[b'shape'].split(b'x')]
    tokens = np.array(table['tokens'].to_pylist(), np.float32).reshape(-1, *shape)
    np.testing.assert_allclose(tokens, expected[1], atol=1e-5)


def test_half_precision_is_close_and_small(tmp_path, expected):
    with np.load(run(tmp_path / 'a.npz', half=True)) as file:
        assert file['embeddings'].dtype == np.float16
        np.testing.assert_allclose(
            file['embeddings'], expected[0], atol=0.05, rtol=0.05
        )


@pytest.mark.parametrize('cut', [False, True])
def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(tmp_path, cut):
    whole = run(tmp_path / 'whole.npz').read_bytes()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / 'a.npz', Images(broken=7))
    folder = tmp_path / 'a.npz.parts'
    assert len(list(folder.glob('*.npz'))) == 3
    if cut:  # as after a power cut
        part = folder / '000001.npz'
        part.write_bytes(part.read_bytes()[:100])
    dataset = Images()
    assert run(tmp_path / 'a.npz', dataset).read_bytes() == whole
    assert dataset.read == ([2, 3] if cut else []) + list(range(6, NUMBER))
    assert not folder.exists()


@pytest.mark.parametrize(
    'change, word',
    [
        (dict(settings=dict(a=2)), 'another a:'),
        (dict(batch_size=3), 'batch_size'),
        (dict(half=True), 'half'),
        (
            dict(half=True, tokens=True, settings=dict(a=2)),
            'another a, tokens and half:',
        ),
        (dict(names=[*NAMES[1:], 'new']), 'images'),
    ],
)
def test_parts_of_other_settings_are_refused(tmp_path, change, word):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / 'a.npz', Images(broken=7))
    with pytest.raises(ValueError, match=word):
        run(tmp_path / 'a.npz', **change)


def test_a_wrong_place_is_refused_before_the_work(tmp_path):
    dataset = Images()
    for name in ('a.txt', 'a'):
        with pytest.raises(ValueError, match='.npz, .npy, .parquet'):
            run(tmp_path / name, dataset)
    with pytest.raises(ValueError, match='batch_size'):
        run(tmp_path / 'a.npz', dataset, batch_size=0)
    assert not dataset.read


def test_without_pyarrow_one_sentence_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    with pytest.raises(ValueError, match='needs the package pyarrow'):
        require_format('a.parquet')
