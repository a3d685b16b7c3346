"""Embedding files: in order, resumable, and equal on any number of ranks."""

import logging
import sys

import numpy as np
import pytest
import torch
from mmengine.logging import MMLogger
from torch.utils.data import Dataset

from mmbam.datasets.robust import TooManyReadErrors
from mmbam.datasets.transforms.loading import WrongBandsError
from mmbam.evaluation.embed import embed
from mmbam.evaluation.embedding_files import require_format
from mmbam.models import embedding
from mmbam.models.backbones.anatomy import patch_tokens
from tests.helpers.networks import mm_vit

NUMBER = 11


class Images(Dataset):
    """Noise that remembers what was read, and may stop or not be readable."""

    def __init__(self, broken=None, unreadable=(), error=TooManyReadErrors):
        generator = torch.Generator().manual_seed(0)
        shape = (NUMBER, 3, 32, 32)
        self.images = torch.randint(0, 256, shape, generator=generator).byte()
        self.broken, self.unreadable, self.error = broken, unreadable, error
        self.read = []

    def __len__(self):
        return NUMBER

    def __getitem__(self, index):
        if index == self.broken:
            raise KeyboardInterrupt
        self.read.append(index)
        if index in self.unreadable:
            raise self.error(f'no {index}')
        return dict(inputs=self.images[index])


NAMES = [f'folder/image {i}.png' for i in range(NUMBER)]


def run(out, dataset=None, **kwargs):
    """Batches of 2, so that there are 6 parts, the last with one image."""
    options = dict(names=NAMES, batch_size=2, num_workers=0, settings=dict(a=1))
    embed(mm_vit(), dataset or Images(), out, **{**options, **kwargs})
    return out


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
    # The first image shows whether the bands fit.
    assert dataset.read == [0] + ([2, 3] if cut else []) + list(range(6, NUMBER))
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


@pytest.fixture
def said():
    """What the log says; mmengine's logger does not pass records on by itself."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = MMLogger.get_current_instance()
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


# One of a part, all of a part, all of the first part.
@pytest.mark.parametrize('bad', [[3], [4, 5], [0, 1, 10]])
@pytest.mark.parametrize('suffix', ['.npz', '.parquet'])
def test_images_that_cannot_be_read_are_left_out(tmp_path, expected, said, bad, suffix):
    out = tmp_path / f'a{suffix}'
    kept = [i for i in range(NUMBER) if i not in bad]
    if suffix == '.npz':
        with np.load(run(out, Images(unreadable=bad), tokens=True)) as file:
            names, rows, tokens = (file[k] for k in ('files', 'embeddings', 'tokens'))
        np.testing.assert_allclose(tokens, expected[1][kept], atol=1e-5)
    else:
        parquet = pytest.importorskip('pyarrow.parquet', reason='pyarrow is optional')
        table = parquet.read_table(run(out, Images(unreadable=bad)))
        names = np.array(table['file'].to_pylist())
        rows = np.array(table['embeddings'].to_pylist(), np.float32)
    assert names.tolist() == [NAMES[i] for i in kept]
    np.testing.assert_allclose(rows, expected[0][kept], atol=1e-5)
    listed = ', '.join(f'{NAMES[i]} (TooManyReadErrors: no {i})' for i in bad)
    (line,) = (line for line in said if 'cannot be read' in line)
    assert line.endswith(f'are left out ({len(bad)} of {NUMBER}): {listed}')
    assert list(tmp_path.iterdir()) == [out]


def test_what_was_left_out_survives_an_interruption(tmp_path, said):
    bad = [1, 2, 3, 8]
    whole = run(tmp_path / 'whole.npz', Images(unreadable=bad)).read_bytes()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / 'a.npz', Images(broken=7, unreadable=bad))
    (first,) = (line for line in said if 'cannot be read' in line)
    dataset = Images(unreadable=bad)
    assert run(tmp_path / 'a.npz', dataset).read_bytes() == whole
    assert dataset.read == [0, 6, 7, 8, 9, 10]
    assert [line for line in said if 'cannot be read' in line] == [first, first]


def test_the_numbers_of_the_samples_that_were_kept_come_back(tmp_path):
    dataset, options = Images(unreadable=[2, 9]), dict(names=NAMES, num_workers=0)
    kept = embed(mm_vit(), dataset, tmp_path / 'a.npz', **options)
    assert kept == [0, 1, 3, 4, 5, 6, 7, 8, 10]


def test_no_image_that_can_be_read_is_one_sentence(tmp_path, said):
    with pytest.raises(ValueError) as error:
        run(tmp_path / 'a.npz', Images(unreadable=range(NUMBER)))
    message = str(error.value)
    assert message.startswith(f'None of the {NUMBER} images can be read: {NAMES[0]} (')
    assert NAMES[9] in message and NAMES[10] not in message
    assert message.endswith(' and 1 more.') and '\n' not in message
    # Nothing is left that would refuse repaired images.
    assert not any(tmp_path.iterdir())


def test_other_errors_end_the_command(tmp_path):
    with pytest.raises(RuntimeError, match='no 3'):
        run(tmp_path / 'a.npz', Images(unreadable=[3], error=RuntimeError))


def test_only_the_first_image_decides_whether_the_bands_fit(tmp_path):
    with pytest.raises(WrongBandsError, match='no 0'):
        run(tmp_path / 'a.npz', Images(unreadable=[0], error=WrongBandsError))
    assert not any(tmp_path.iterdir())
    with np.load(
        run(tmp_path / 'a.npz', Images(unreadable=[3], error=WrongBandsError))
    ) as file:
        assert len(file['files']) == NUMBER - 1


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
