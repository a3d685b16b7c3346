"""Images that cannot be read are logged, replaced, and stop a run when too many."""

import logging
import multiprocessing
import pickle
import traceback
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmengine.dataset import ConcatDataset, RepeatDataset
from mmengine.logging import MMLogger
from mmpretrain.datasets import CustomDataset
from PIL import Image
from torch.utils.data import DataLoader

from mmbam.datasets.robust import ReadErrors, TooManyReadErrors
from mmbam.datasets.seeded import SeededSamples
from mmbam.datasets.transforms import LoadImage


def folder_of(path, good, bad):
    """Images whose gray is their number; bad ones are truncated or no images."""
    path.mkdir()
    for i in range(good):
        Image.new('RGB', (8, 8), (i, i, i)).save(path / f'good{i:04}.png')
    noise = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    whole = cv2.imencode('.png', noise)[1].tobytes()
    for i in range(bad):
        content = whole[: len(whole) // 2] if i % 2 else b'no image'
        (path / f'bad{i:04}.png').write_bytes(content)
    return path


def folder_dataset(path, *front, **kwargs):
    return CustomDataset(
        data_root=str(path), with_label=False, pipeline=[*front, LoadImage(**kwargs)]
    )


def names(batch):
    return [Path(results['img_path']).name for results in batch]


def loader(dataset, workers=2, **kwargs):
    return DataLoader(
        dataset, batch_size=4, num_workers=workers, collate_fn=names, **kwargs
    )


def what_stops(batches):
    """The message of the error that ends the run."""
    with pytest.raises(TooManyReadErrors) as stop:
        list(batches)
    # Drops the iterator now: its workers take 10 s to end if garbage collection does.
    traceback.clear_frames(stop.tb)
    return str(stop.value)


@pytest.fixture
def log(caplog):
    """What mmengine's logger says; it does not pass records on by itself."""
    logger = MMLogger.get_current_instance()
    logger.addHandler(caplog.handler)
    yield caplog
    logger.removeHandler(caplog.handler)


def test_a_bad_image_is_logged_with_its_path_and_replaced(tmp_path, log):
    dataset = folder_dataset(folder_of(tmp_path / 'a', good=20, bad=3))
    (tmp_path / 'a' / 'good0007.png').unlink()
    for _ in range(2):
        taken = [name for batch in loader(dataset, workers=0) for name in batch]
        assert len(taken) == 23 and all(name.startswith('good') for name in taken)
    lines = [r.getMessage() for r in log.records if r.levelno == logging.ERROR]
    for name in ('bad0000.png', 'bad0001.png', 'bad0002.png', 'good0007.png'):
        assert sum(str(tmp_path / 'a' / name) in line for line in lines) == 1
    assert any('truncated' in line for line in lines)
    assert any('FileNotFoundError' in line for line in lines)


def test_an_image_counts_once_however_many_epochs_meet_it(tmp_path):
    dataset = folder_dataset(folder_of(tmp_path / 'a', good=10, bad=6))
    batches = loader(dataset, persistent_workers=True)
    for _ in range(4):
        assert sum(len(batch) for batch in batches) == 16


@pytest.mark.parametrize('context', ['fork', 'spawn'])
def test_workers_count_together_and_stop_with_the_list_of_paths(tmp_path, context):
    folder = folder_of(tmp_path / 'a', good=30, bad=8)
    dataset = folder_dataset(folder, max_errors=7)
    message = what_stops(loader(dataset, multiprocessing_context=context))
    assert '8 images cannot be read and max_errors=7 allows 7' in message
    assert all(str(folder / f'bad{i:04}.png') in message for i in range(8))
    assert 'truncated' in message and 'no image' in message


@pytest.mark.parametrize('workers', [0, 2])
def test_at_least_10_images_may_fail(tmp_path, workers):
    allowed = folder_dataset(folder_of(tmp_path / 'a', good=40, bad=10))
    assert sum(len(batch) for batch in loader(allowed, workers)) == 50
    too_many = folder_dataset(folder_of(tmp_path / 'b', good=40, bad=11))
    assert '11 images' in what_stops(loader(too_many, workers))


def test_a_share_is_of_the_epoch_of_the_loader(tmp_path):
    folder = folder_of(tmp_path / 'a', good=30, bad=15)
    enough = RepeatDataset(folder_dataset(folder, max_errors=0.1), 4)  # 18 of 180
    assert sum(len(batch) for batch in loader(enough)) == 180
    too_few = RepeatDataset(folder_dataset(folder, max_errors=0.07), 4)  # 12 of 180
    assert 'max_errors=0.07 allows 12' in what_stops(loader(too_few))


def test_concatenated_data_sets_replace_within_themselves(tmp_path):
    first = folder_dataset(folder_of(tmp_path / 'a', good=5, bad=1))
    second = folder_dataset(folder_of(tmp_path / 'b', good=5, bad=1))
    both = ConcatDataset([first, second])
    taken = [Path(both[i]['img_path']).parent.name for i in range(12)]
    assert taken == 6 * ['a'] + 6 * ['b']


def test_zero_errors_means_the_first_one_stops(tmp_path):
    folder = folder_of(tmp_path / 'a', good=1, bad=1)
    load = LoadImage(max_errors=0)
    assert load(dict(img_path=str(folder / 'good0000.png'))) is not None
    for name in ('bad0000.png', 'gone.png'):
        with pytest.raises(TooManyReadErrors, match=f'^1 image .*{name}'):
            load(dict(img_path=str(folder / name)))


@pytest.mark.parametrize('workers', [0, 1, 2])
def test_the_replacement_depends_on_seed_and_sample_alone(tmp_path, workers):
    folder = folder_of(tmp_path / 'a', good=50, bad=5)

    def replaced(seed, workers):
        dataset = SeededSamples(folder_dataset(folder), torch.tensor([seed, 0]))
        return [name for batch in loader(dataset, workers) for name in batch][:5]

    expected = replaced(0, 0)
    assert replaced(0, workers) == expected
    assert replaced(1, workers) != expected


def test_two_bad_images_do_not_choose_each_other_forever(tmp_path):
    class Same:
        """A seed that sends every bad image to the same next one."""

        def __call__(self, results):
            np.random.seed(0)
            return results

    folder = folder_of(tmp_path / 'a', good=1, bad=9)
    dataset = folder_dataset(folder, Same(), max_errors=9)
    np.random.seed(0)
    assert Path(dataset.get_data_info(np.random.randint(10))['img_path']).name != (
        'good0000.png'
    )
    assert names([dataset[0]]) == ['good0000.png']


def test_a_pickled_counter_counts_on(tmp_path):
    errors = ReadErrors(max_errors=1)
    copy = pickle.loads(pickle.dumps(errors))
    errors.add('a', OSError('gone'))
    assert list(copy.paths()) == ['a']
    copy.add('a', OSError('gone'))
    with pytest.raises(TooManyReadErrors, match='2 images'):
        copy.add('b', OSError('gone'))


def test_nothing_is_left_behind():
    errors = ReadErrors()
    errors.add('a', OSError('gone'))
    file = errors._file
    assert file.exists()
    del errors
    assert not file.exists()


def test_a_worker_that_ends_takes_nothing_with_it():
    held = [ReadErrors()]
    held[0].add('a', OSError('gone'))
    worker = multiprocessing.get_context('fork').Process(target=held.clear)
    worker.start()
    worker.join()
    assert list(held[0].paths()) == ['a']


@pytest.mark.parametrize('max_errors', [-1, 1.5, -0.1, '1 %'])
def test_a_wrong_limit_is_refused(max_errors):
    with pytest.raises(ValueError, match='max_errors must be'):
        LoadImage(max_errors=max_errors)


def test_a_loaded_image_has_the_keys_of_mmcvs(tmp_path):
    folder = folder_of(tmp_path / 'a', good=3, bad=0)
    results = LoadImage()(dict(img_path=str(folder / 'good0002.png'), sample_idx=3))
    assert results['img'].shape == (8, 8, 3) and (results['img'] == 2).all()
    assert results['img_shape'] == results['ori_shape'] == (8, 8)
    assert results['sample_idx'] == 3
