"""Data sets and pipelines are found however they are wrapped."""

import numpy as np
import pytest
import torch
from mmcv.transforms import BaseTransform
from mmengine.dataset import (
    BaseDataset,
    Compose,
    ConcatDataset,
)
from mmengine.registry import DATASETS
from mmengine.runner import Runner
from mmpretrain.datasets import CIFAR10, CustomDataset, ImageNet
from mmpretrain.datasets.transforms import MultiView
from PIL import Image
from torch.utils.data import Subset, TensorDataset

from mmbam.datasets import BoxTable
from mmbam.datasets.leaves import (
    hand_to_transforms,
    leaf_datasets,
    walk_transforms,
)


class ReadBox(BaseTransform):
    """Leaves the box of the sample, for the tests to see."""

    def set_boxes(self, table):
        self.table = table

    def transform(self, results):
        return dict(results, box=self.table[results['sample_idx']], img=results['id'])


@DATASETS.register_module(force=True)
class Numbers(BaseDataset):
    """Samples with an identity of their own."""

    def __init__(self, first, length, **kwargs):
        self.first, self.length = first, length
        kwargs.setdefault('pipeline', [ReadBox()])
        super().__init__(**kwargs)

    def load_data_list(self):
        return [dict(id=self.first + i) for i in range(self.length)]

    def get_cat_ids(self, idx):
        return [idx % 2 if idx < 4 else 2]


def give_boxes(dataset):
    """Boxes whose height tells the sample, counted over all leaves."""
    leaves = leaf_datasets(dataset)
    ids = [leaf.get_data_info(i)['id'] for leaf in leaves for i in range(len(leaf))]
    table = BoxTable(len(ids))
    for set_boxes, start, stop in hand_to_transforms(leaves, 'set_boxes'):
        set_boxes(table.slice(start, stop))
    heights = torch.tensor(ids)[:, None] / 128 + 1 / 128
    table.write(torch.cat((torch.zeros(len(ids), 2), heights, heights), dim=1))


def leaf(first, length, **kwargs):
    return dict(type='Numbers', first=first, length=length, **kwargs)


WRAPPED = {
    'alone': leaf(0, 5),
    'not serialised': leaf(0, 5, serialize_data=False),
    'lazy': leaf(0, 5, lazy_init=True),
    'some indices': leaf(0, 9, indices=[7, 2, 5]),
    'concatenated': dict(type='ConcatDataset', datasets=[leaf(0, 5), leaf(50, 3)]),
    'repeated': dict(type='RepeatDataset', dataset=leaf(0, 5), times=3),
    'balanced': dict(
        type='ClassBalancedDataset', dataset=leaf(0, 20), oversample_thr=0.9
    ),
    'folded': dict(
        type='KFoldDataset', dataset=leaf(0, 10), seed=1, _scope_='mmpretrain'
    ),
    'nested, lazily': dict(
        type='RepeatDataset',
        times=2,
        lazy_init=True,
        dataset=dict(
            type='ConcatDataset',
            lazy_init=True,
            datasets=[
                leaf(50, 3),
                dict(type='RepeatDataset', times=2, dataset=leaf(0, 9, indices=4)),
            ],
        ),
    ),
}


@pytest.mark.parametrize('cfg', WRAPPED.values(), ids=WRAPPED.keys())
def test_boxes_follow_the_sample_through_wrappers(cfg):
    dataset = DATASETS.build(cfg)
    give_boxes(dataset)
    order = np.random.default_rng(0).permutation(len(dataset))
    for index in order:
        sample = dataset[int(index)]
        assert sample['box'][2] == (sample['id'] + 1) / 128


def test_boxes_follow_the_sample_through_torch_wrappers_and_short_epochs():
    both = ConcatDataset([Numbers(0, 5), Numbers(50, 3)])
    loader = Runner.build_dataloader(
        dict(
            dataset=leaf(0, 40),
            sampler=dict(type='DefaultSampler'),
            batch_size=2,
            num_batch_per_epoch=3,
        )
    )
    for dataset in (Subset(both, [6, 1, 3]), loader.dataset):
        give_boxes(dataset)
        for index in range(len(dataset)):
            sample = dataset[index]
            assert sample['box'][2] == (sample['id'] + 1) / 128


def test_a_data_set_that_is_there_twice_has_its_boxes_once():
    numbers = Numbers(0, 5)
    assert leaf_datasets(ConcatDataset([numbers, numbers])) == [numbers]


def test_unsupported_data_sets_are_named():
    with pytest.raises(TypeError, match='TensorDataset does not say which sample'):
        leaf_datasets(TensorDataset(torch.zeros(3)))
    with pytest.raises(TypeError, match='TensorDataset does not say which sample'):
        leaf_datasets(Subset(TensorDataset(torch.zeros(3)), [0]))


def test_image_lists_folders_and_cifar_are_leaves(tmp_path):
    for name in ('a/1.png', 'b/2.png'):
        (tmp_path / name).parent.mkdir()
        Image.new('RGB', (8, 8)).save(tmp_path / name)
    (tmp_path / 'list.txt').write_text('a/1.png 0\nb/2.png 1\n')
    listed = ImageNet(
        data_root=str(tmp_path), ann_file='list.txt', metainfo=dict(classes=['a', 'b'])
    )
    folder = CustomDataset(data_root=str(tmp_path), with_label=False)
    assert [len(d) for d in leaf_datasets(listed)] == [2]
    assert [len(d) for d in leaf_datasets(folder)] == [2]
    assert issubclass(CIFAR10, BaseDataset)


def test_transforms_are_found_at_any_depth_once():
    readers = [ReadBox() for _ in range(4)]
    pipeline = Compose(
        [
            readers[0],
            MultiView([[readers[1]], [Compose([readers[2]])]], num_views=[2, 6]),
            dict(type='RandomApply', transforms=[readers[3]], prob=0.5),
            lambda results: results,
        ]
    )
    assert [t for t in walk_transforms(pipeline) if isinstance(t, ReadBox)] == readers


def test_one_transform_cannot_serve_two_data_sets():
    shared = [ReadBox()]
    both = ConcatDataset(
        [Numbers(0, 3, pipeline=shared), Numbers(50, 3, pipeline=shared)]
    )
    with pytest.raises(ValueError, match='share one ReadBox object'):
        give_boxes(both)
