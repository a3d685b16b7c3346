"""Shards of WebDataset's own writer, and of tar, are read by number."""

import multiprocessing
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmengine.registry import DATASETS
from torch.utils.data import DataLoader

from mmbam.datasets import ShardDataset, dataset_of
from mmbam.datasets.decoding import decode
from mmbam.datasets.robust import TooManyReadErrors
from mmbam.datasets.shards import index as index_module
from mmbam.datasets.shards.index import open_index
from mmbam.datasets.transforms import LoadImage
from mmbam.utils.errors import InputError

webdataset = pytest.importorskip('webdataset', reason='its writer is not installed')

NOISE = np.random.default_rng(0).integers(0, 256, (12, 16, 16, 3), np.uint8)
PNGS = [cv2.imencode('.png', image)[1].tobytes() for image in NOISE]
CLASSES = ['dog', 'cat', 'bird']


@pytest.fixture
def shards(tmp_path):
    """Twelve images in three shards, with the class in the JSON."""
    folder = tmp_path / 'shards'
    folder.mkdir()
    pattern = str(folder / 'part-%03d.tar')
    with webdataset.ShardWriter(pattern, maxcount=5, verbose=0) as sink:
        for i, png in enumerate(PNGS):
            fields = {'class': CLASSES[i % 3], 'text': 'grün'}
            sink.write({'__key__': f'images/{i:04}', 'png': png, 'json': fields})
    return folder


def build(path, **kwargs):
    return ShardDataset(str(path), pipeline=[LoadImage(max_errors=0)], **kwargs)


def assert_all_images(dataset, order=range(12)):
    assert len(dataset) == len(order)
    for i, number in enumerate(order):
        np.testing.assert_array_equal(dataset[i]['img'], NOISE[number])


def test_shards_of_webdataset_are_read_in_order(shards):
    dataset = DATASETS.build(
        dataset_of(shards, pipeline=[dict(type='mmbam.LoadImage', max_errors=0)])
    )
    assert_all_images(dataset)
    assert dataset[7]['sample_idx'] == 7
    assert dataset[7]['img_path'] == f'{shards}/part-001.tar/images/0007.png'
    assert 'gt_label' not in dataset[7] and 'img_bytes' not in dataset[7]


def test_webdataset_reads_the_same_samples(shards):
    urls = sorted(str(path) for path in shards.glob('*.tar'))
    theirs = webdataset.WebDataset(urls, shardshuffle=False)
    ours = build(shards)
    for i, sample in enumerate(theirs):
        np.testing.assert_array_equal(decode(sample['png']), ours[i]['img'])
    assert i == 11


def test_classes_are_numbered_by_their_names(shards):
    dataset = build(shards, with_label=True)
    assert dataset.CLASSES == ('bird', 'cat', 'dog')
    assert dataset.get_gt_labels().tolist() == [2, 1, 0] * 4
    assert [dataset[i]['gt_label'] for i in range(3)] == [2, 1, 0]
    assert dataset.get_cat_ids(1) == [1]


def write_tar(path, **files):
    """By the program tar."""
    folder = path.parent / f'{path.stem}-files'
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    subprocess.run(['tar', '-cf', path, '-C', folder, *files], check=True)


@pytest.mark.parametrize(
    'kind, content',
    [('cls', '{}'), ('json', '{{"cls": {}}}'), ('json', '{{"class":"{}"}}')],
)
def test_numbers_of_classes_stay_as_they_are(tmp_path, kind, content):
    files = {}
    for i, label in enumerate((10, 2, 7)):
        files[f'{i}.png'] = PNGS[i]
        files[f'{i}.{kind}'] = content.format(label).encode()
    write_tar(tmp_path / 'a.tar', **files)
    dataset = build(tmp_path / 'a.tar', with_label=True)
    assert dataset.get_gt_labels().tolist() == [10, 2, 7]
    assert len(dataset.CLASSES) == 11
    assert_all_images(dataset, range(3))


def test_samples_without_an_image_or_a_class(tmp_path, caplog):
    write_tar(
        tmp_path / 'a.tar',
        **{'._0.png': b'of macOS', '0.json': b'{"class": ""}', '0.PNG': PNGS[0]},
        **{'1.txt': b'nothing', '2.left.png': PNGS[2], '2.right.png': PNGS[3]},
    )
    dataset = build(tmp_path)
    assert_all_images(dataset, [0, 2])
    assert open_index(tmp_path).without_image == 1
    with pytest.raises(InputError, match='2 of 2 samples .* have no class'):
        build(tmp_path, with_label=True)


def test_subsets_keep_their_samples(shards):
    numbers = [11, 3, 4]
    assert_all_images(build(shards, indices=numbers), numbers)
    assert_all_images(build(shards, indices=2), [0, 1])
    dataset = build(shards, with_label=True)
    subset = dataset.get_subset([5, 1])
    assert_all_images(subset, [5, 1])
    assert subset.get_gt_labels().tolist() == [0, 1]
    dataset.get_subset_(-2)
    assert_all_images(dataset, [10, 11])


def test_workers_share_what_is_open(shards):
    dataset = ShardDataset(str(shards), pipeline=[LoadImage()])
    dataset[0]  # opens a file before the workers start
    loader = DataLoader(dataset, batch_size=4, num_workers=2, collate_fn=stack)
    np.testing.assert_array_equal(np.concatenate(list(loader)), NOISE)


def stack(samples):
    return np.stack([sample['img'] for sample in samples])


def test_a_worker_gets_the_place_of_the_index_and_not_its_content(shards):
    dataset = build(shards)
    dataset.pipeline.transforms.clear()
    assert len(pickle.dumps(dataset)) < 4000, 'as a worker that is spawned gets it'
    copied = pickle.loads(pickle.dumps(dataset))
    assert copied.data_list[11]['img_bytes']() == PNGS[11]
    assert copied.data_list.source.path == str(shards / 'shards.index')
    assert isinstance(copied.data_list.source._records, np.memmap)


def test_the_index_is_made_once(shards, monkeypatch):
    build(shards)
    monkeypatch.setattr(index_module, 'build_index', None)
    assert_all_images(build(shards))


def test_a_new_or_longer_shard_is_listed(shards):
    assert len(build(shards)) == 12
    shutil.copy(shards / 'part-000.tar', shards / 'part-003.tar')
    assert len(build(shards)) == 17
    shutil.copy(shards / 'part-000.tar', shards / 'part-002.tar')  # had 2 images
    assert len(build(shards)) == 20


def test_a_broken_index_is_made_again(shards):
    build(shards)
    for damage in (b'', b'\xff' * 100, b'{}\n', b'[]\n'):
        (shards / 'shards.index').write_bytes(damage)
        assert_all_images(build(shards))
    os.truncate(shards / 'shards.index', 200)
    assert_all_images(build(shards))


def test_a_folder_that_is_read_only_has_its_index_in_the_cache(
    shards, monkeypatch, tmp_path
):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    access = os.access
    monkeypatch.setattr(
        os, 'access', lambda path, mode: path != str(shards) and access(path, mode)
    )
    before = sorted(shards.iterdir())
    assert_all_images(build(shards))
    assert sorted(shards.iterdir()) == before
    (made,) = (tmp_path / 'cache/mmbam').iterdir()
    monkeypatch.setattr(index_module, 'build_index', None)
    assert_all_images(build(shards))


def open_at_once(folder, barrier, results):
    barrier.wait()
    results.put(len(open_index(folder)))


def test_processes_that_open_it_first_at_once_agree(shards):
    context = multiprocessing.get_context('fork')
    barrier, results = context.Barrier(4), context.Queue()
    ranks = [
        context.Process(target=open_at_once, args=(shards, barrier, results))
        for _ in range(4)
    ]
    for rank in ranks:
        rank.start()
    assert [results.get(timeout=60) for _ in ranks] == [12] * 4
    for rank in ranks:
        rank.join()
    assert not list(shards.glob('.*')), 'no lock and no part is left'


def test_damaged_shards_hold_unreadable_images(shards, caplog):
    """As damaged files: counted, named, replaced, and too many end the run."""
    build(shards)
    index = open_index(shards)
    with open(shards / 'part-000.tar', 'r+b') as file:  # a header, and an image
        file.seek(int(index._records['offset'][1]) - 512)
        file.write(bytes(512))
        file.seek(int(index._records['offset'][3]) + 5)
        file.write(b'\xff' * 99)
    os.truncate(shards / 'part-001.tar', int(index._records['offset'][8]) + 99)
    (shards / 'part-002.tar').unlink()
    load = LoadImage(max_errors=6)
    dataset = ShardDataset(str(shards), pipeline=[load])
    infos = [dataset.get_data_info(i) for i in range(12)]
    good = [i for i, info in enumerate(infos) if load(info) is not None]
    assert good == [0, 2, 4, 5, 6, 7]
    reasons = {Path(path).stem[-2:]: why for path, why in load.errors.paths().items()}
    assert list(reasons) == ['01', '03', '08', '09', '10', '11']
    assert reasons['01'].startswith('OSError: the shard is damaged, or is another one')
    assert reasons['08'] == 'OSError: the shard ends before the end of this member'
    assert reasons['10'].startswith('FileNotFoundError')
    assert dataset[10]['sample_idx'] in good, 'another sample takes its place'
    load.errors.max_errors = 5
    with pytest.raises(TooManyReadErrors, match='6 images cannot be read'):
        load(dataset.get_data_info(10))


def test_a_shard_that_is_damaged_before_it_is_indexed(shards, caplog):
    content = bytearray((shards / 'part-000.tar').read_bytes())
    header = content.index(b'\x89PNG') - 512
    content[header : header + 9] = b'\7' * 9
    (shards / 'part-000.tar').write_bytes(content)
    assert_all_images(build(shards), range(1, 12))


def test_an_archive_beside_images_is_no_shard(shards, tmp_path):
    def kind(path):
        return dataset_of(path)['type']

    shard = shards / 'part-000.tar'
    assert kind(shards) == kind(shard) == 'mmbam.ShardDataset'
    (shards / '.hidden').mkdir()
    (shards / 'notes.txt').touch()
    assert kind(shards) == 'mmbam.ShardDataset'
    (shards / 'train').mkdir()
    assert kind(shards) == 'mmbam.FolderDataset'
    (shards / 'train').rmdir()
    (shards / 'a.JPG').touch()
    assert kind(shards) == 'mmbam.FolderDataset'


def test_no_shards_and_compressed_ones_are_refused(tmp_path, shards):
    with pytest.raises(InputError, match='is no shard and holds none'):
        ShardDataset(str(tmp_path / 'gone'))
    subprocess.run(['gzip', shards / 'part-000.tar'], check=True)
    os.rename(shards / 'part-000.tar.gz', shards / 'part-000.tar')
    with pytest.raises(InputError, match='part-000.tar.* is compressed.*run gunzip'):
        build(shards)


def test_names_of_any_bytes_and_files_of_any_number(tmp_path, monkeypatch):
    """More shards than a process keeps open, with names that are no UTF-8."""
    monkeypatch.setattr(index_module, '_OPEN', 2)
    folder = os.fsdecode(os.fsencode(tmp_path) + b'/gr\xfcn 1')
    os.mkdir(folder)
    for i, png in enumerate(PNGS):
        with webdataset.TarWriter(f'{folder}/\udcfc{i:02}.tar') as sink:
            sink.write({'__key__': f'ä{i}', 'png': png})
    dataset = build(folder)
    before = len(os.listdir('/proc/self/fd'))
    assert_all_images(dataset)
    assert_all_images(dataset)
    assert len(os.listdir('/proc/self/fd')) < before + 6
    assert dataset[3]['img_path'] == f'{folder}/\udcfc03.tar/ä3.png'
