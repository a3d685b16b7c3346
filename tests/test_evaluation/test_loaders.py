"""The loader of the evaluators: once, in order, or a fixed part of it."""

import pytest

from mmbam.evaluation import build_loader


def read(loader):
    return [int(i) for batch in loader for i in batch]


def test_reads_in_the_order_of_the_data_set():
    assert read(build_loader(range(10), batch_size=3, num_workers=0)) == list(range(10))


def test_a_fraction_is_the_same_every_time_and_another_by_seed():
    parts = [
        read(build_loader(range(100), num_workers=0, fraction=0.095, seed=seed))
        for seed in (0, 0, 1)
    ]
    assert len(parts[0]) == 10  # rounded up
    assert parts[0] == sorted(set(parts[0]))
    assert parts[0] == parts[1] != parts[2]
    assert parts[0] != list(range(10))


@pytest.mark.parametrize('fraction', [0, 1.1])
def test_an_impossible_fraction_is_named(fraction):
    with pytest.raises(ValueError, match=f'fraction.*{fraction}'):
        build_loader(range(10), fraction=fraction)


def test_an_empty_data_set_is_refused():
    with pytest.raises(ValueError, match='empty'):
        build_loader([])
