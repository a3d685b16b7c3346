"""The table of boxes is one piece of memory, whoever reads it."""

import copy

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from mmbam.datasets import BoxTable
from mmbam.datasets.boxes import boxes_from_heat_maps


class Boxes(Dataset):
    """Each sample is its box, as a loader's worker sees it."""

    def __init__(self, table):
        self.table = table

    def __len__(self):
        return len(self.table)

    def __getitem__(self, index):
        return self.table[index] or (-1.0,) * 4


def some_boxes(n, seed=0):
    edges = torch.rand(n, 4, generator=torch.Generator().manual_seed(seed))
    return torch.cat((edges[:, :2] / 2, 0.6 + edges[:, 2:] * 0.4), dim=1)


def test_rows_without_a_box_are_none():
    table = BoxTable(3)
    assert [table[i] for i in range(3)] == [None] * 3
    boxes = some_boxes(3)
    boxes[1] = float('nan')
    table.write(boxes)
    assert table[1] is None
    assert table[2] == tuple(boxes[2].tolist())
    assert table[-1] == table[2]


def test_slices_and_copies_share_the_memory():
    table = BoxTable(5)
    part, again = table.slice(2, 5), copy.deepcopy(table).slice(2, 5)
    table.write(some_boxes(5))
    assert len(part) == 3
    assert [part[i] for i in range(3)] == [table[i] for i in range(2, 5)]
    assert again[0] == table[2]
    assert torch.equal(table.slice(1, 4).slice(1, 2).read(), table.read()[2:3])


@pytest.mark.parametrize('method', ['fork', 'spawn'])
def test_persistent_workers_see_new_boxes_in_the_next_batch(method):
    table = BoxTable(8)
    loader = DataLoader(
        Boxes(table.slice(2, 8)),
        batch_size=3,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=method,
        collate_fn=np.array,
    )
    assert (np.concatenate(list(loader)) == -1).all()
    for seed in range(2):
        boxes = some_boxes(8, seed)
        table.write(boxes)
        np.testing.assert_array_equal(np.concatenate(list(loader)), boxes[2:].numpy())


def test_reading_gives_a_private_copy():
    table = BoxTable(1)
    table.write(some_boxes(1))
    table.read().zero_()
    assert table[0] is not None


@pytest.mark.parametrize(
    ('boxes', 'message'),
    [
        (torch.zeros(3, 4), r'shape \(2, 4\), but got \(3, 4\)'),
        (torch.tensor([[0, 0, 1, 1], [0.5, 0, 0.4, 1]]), 'but sample 1 has'),
        (torch.tensor([[0, 0, 1, 1.5], [0, 0, 1, 1]]), 'but sample 0 has'),
        (torch.tensor([[0, 0, 1, float('nan')], [0, 0, 1, 1]]), 'but sample 0 has'),
    ],
)
def test_what_is_no_box_is_refused(boxes, message):
    table = BoxTable(2)
    with pytest.raises(ValueError, match=message):
        table.write(boxes.float())
    assert table[0] is None and table[1] is None


def test_slices_outside_the_table_are_refused():
    with pytest.raises(ValueError, match='Samples 1 to 4 are not within a table of 3'):
        BoxTable(3).slice(1, 4)
    with pytest.raises(ValueError, match='at least 1 sample'):
        BoxTable(0)


def slow_box(heat, threshold, size):
    heat = (heat - heat.min()) / (heat.max() - heat.min())
    heat = torch.nn.functional.interpolate(
        heat[None, None], (size, size), mode='bilinear'
    )
    warm = [
        (row, column)
        for row in range(size)
        for column in range(size)
        if heat[0, 0, row, column] > threshold
    ]
    rows, columns = zip(*warm)
    h0, h1, w0, w1 = min(rows), max(rows) + 1, min(columns), max(columns) + 1
    return [h0 / size, w0 / size, h1 / size, w1 / size]


def test_boxes_of_a_batch_equal_a_loop_over_pixels():
    torch.manual_seed(0)
    heat = torch.randn(6, 7, 7).exp() ** 3
    heat[0] = 0
    heat[0, 2, 5] = 1
    boxes = boxes_from_heat_maps(heat, threshold=0.3, size=28)
    expected = torch.tensor([slow_box(h, 0.3, 28) for h in heat])
    torch.testing.assert_close(boxes, expected)
    assert (expected[:, 2] < 1).any() and (expected[:, 1] > 0).any()


@pytest.mark.parametrize('value', [0.0, 1.0, -3e5, float('nan'), float('inf')])
def test_a_map_that_says_nothing_gives_the_whole_image(value):
    heat = torch.rand(2, 7, 7)
    heat[0] = value
    if value == 1.0:  # rounding is not heat
        heat[0, 3, 3] += torch.finfo().eps
    boxes = boxes_from_heat_maps(heat)
    assert boxes[0].tolist() == [0, 0, 1, 1]
    heat[0] = torch.rand(7, 7)
    torch.testing.assert_close(boxes[1], boxes_from_heat_maps(heat)[1])


def test_low_precision_heat_maps_give_float32_boxes():
    assert boxes_from_heat_maps(torch.rand(1, 4, 4).bfloat16()).dtype == torch.float32
