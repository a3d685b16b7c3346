"""Transfer: every data set of the paper and any folder, one row each."""

import cv2
import numpy as np
import pytest
import torch
from mmengine.registry import DATASETS
from sklearn.linear_model import LogisticRegression

from mmbam.evaluation import build_loader
from mmbam.evaluation.transfer import (
    TRANSFER_SETS,
    rgb_to_bgr,
    table_rows,
    transfer_datasets,
    transfer_row,
)
from tests.helpers.folders import make_folders
from tests.test_evaluation.test_logistic import made


def test_the_data_sets_of_the_paper_are_known(tmp_path):
    (tmp_path / 'cars_annos.mat').touch()  # mmpretrain looks at once
    for name in TRANSFER_SETS:
        for split, cfg in transfer_datasets(name, tmp_path).items():
            if cfg is not None:  # not read: only that mmpretrain has it so
                assert len(
                    DATASETS.build({**cfg, 'lazy_init': True}).pipeline.transforms
                )
            else:
                assert split == 'val'


def test_pets_in_their_own_layout(tmp_path):
    """A named data set, made small: 3 breeds, with lists that have their own form."""
    (tmp_path / 'images').mkdir()
    (tmp_path / 'annotations').mkdir()
    for split, number in (('trainval', 4), ('test', 2)):
        lines = []
        for breed in range(3):
            for i in range(number):
                # Not three greys: the middle one would be right by rounding alone.
                image = np.zeros((20, 30, 3), np.uint8)
                image[..., breed] = 200
                cv2.imwrite(str(tmp_path / f'images/{split}{breed}_{i}.jpg'), image)
                lines.append(f'{split}{breed}_{i} {breed + 1} 1 1\n')
        (tmp_path / f'annotations/{split}.txt').write_text(''.join(lines))
    splits = transfer_datasets('pets', tmp_path, size=16)
    assert splits['val'] is None

    def mean_colour(cfg):
        batch = next(iter(build_loader(cfg, num_workers=0)))
        assert batch['inputs'].shape[1:] == (3, 16, 16)
        labels = torch.cat([sample.gt_label for sample in batch['data_samples']])
        return batch['inputs'].float().mean(dim=(2, 3)) / 100, labels

    row = transfer_row(splits, mean_colour, val_fraction=0.25)
    assert row['top1'] == row['mean_per_class'] == 100


def test_cifar_arrays_are_turned_to_the_order_of_files(tmp_path):
    pipeline = transfer_datasets('cifar10', tmp_path)['train']['pipeline']
    assert pipeline[0] is rgb_to_bgr
    image = rgb_to_bgr(dict(img=np.array([[[1, 2, 3]]], np.uint8)))['img']
    assert image.tolist() == [[[3, 2, 1]]]


@pytest.mark.parametrize('with_val', [True, False])
def test_a_row_is_chosen_on_validation_and_fitted_on_both(with_val):
    train, val, test = made()
    data = dict(train=train, val=val, test=test)
    splits = dict(train='train', val='val' if with_val else None, test='test')
    row = transfer_row(splits, data.get, l2_values=[1.0], tol=1e-6)
    x, y = train if not with_val else [torch.cat(p) for p in zip(train, val)]
    expected = LogisticRegression(C=1, tol=1e-8, max_iter=10000).fit(x.double(), y)
    assert row['top1'] == pytest.approx(100 * expected.score(*test))
    assert len(row['val_top1']) == 1


def test_folders_with_and_without_validation(tmp_path):
    make_folders(tmp_path, train=2, test=1)
    assert transfer_datasets('mine', tmp_path)['val'] is None
    (tmp_path / 'val/class0').mkdir(parents=True)
    with pytest.raises(ValueError, match='val.*empty: class0'):
        transfer_datasets('mine', tmp_path)


def test_missing_data_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='pets: there is no folder'):
        transfer_datasets('pets', tmp_path / 'gone')
    with pytest.raises(FileNotFoundError, match='train'):
        transfer_datasets('mine', tmp_path)


def test_the_table_has_a_row_each_and_the_mean():
    rows = dict(
        a=dict(top1=50.0, mean_per_class=40.0, l2=1e-6),
        b=dict(top1=70.0, mean_per_class=50.0, l2=1e5),
    )
    assert table_rows(rows) == [
        ['a', '50.00', '40.00', '1.0e-06'],
        ['b', '70.00', '50.00', '1.0e+05'],
        ['mean', '60.00', '45.00', ''],
    ]
    assert len(table_rows({'a': rows['a']})) == 1, 'one data set needs no mean'
