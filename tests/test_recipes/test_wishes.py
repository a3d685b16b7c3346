"""What a user may ask for, and the batch size that follows."""

import pytest

from mmbam.recipes.wishes import Wishes, batch_size_of
from mmbam.utils.errors import InputError


@pytest.mark.parametrize(
    'count, size', [(10, 10), (64, 64), (100, 96), (1000, 120), (3000, 256)]
)
def test_a_small_set_gets_a_batch_that_it_fills(count, size):
    assert batch_size_of(count, None) == size


@pytest.mark.parametrize('count', [5, 64, 70, 257, 999, 1300, 10**6])
@pytest.mark.parametrize('devices', [1, 2])
def test_every_batch_is_shared_by_the_devices_and_no_larger_than_the_set(
    count, devices
):
    size = batch_size_of(count, None, devices)
    assert size % devices == 0
    assert 2 * devices <= size <= min(256, count)


@pytest.mark.parametrize(
    'count, wished, devices, match',
    [
        (64, 65, 1, 'must not exceed the number of images, 64, but got 65'),
        (64, 9, 2, 'multiple of the 2 devices'),
        (64, 2, 2, 'at least 2 images on each'),
        (3, None, 2, 'at least 2 images on each of 2 devices'),
    ],
)
def test_a_batch_that_cannot_be_is_refused(count, wished, devices, match):
    with pytest.raises(InputError, match=match):
        batch_size_of(count, wished, devices)


@pytest.mark.parametrize(
    'given, match',
    [
        (dict(epochs=0), 'epochs must be at least 1, but got 0'),
        (dict(batch_size=1), 'at least 2, but got 1'),
        (dict(model='resnet19'), 'resnet18, .* but got .resnet19.*mean resnet18'),
        (dict(model='timm:resnet19'), 'timm has no network .*but it has resnet1'),
        (dict(model='convnext_atto'), 'timm:convnext_atto'),
        (dict(init='none.pth'), '--init must name a file or folder'),
        (dict(prefix='encoder'), '--prefix encoder needs --init'),
        (dict(teacher='resnet18'), 'needs both'),
        (dict(options={'train_cfg.max_epochs': 3}), 'by --epochs, not'),
    ],
)
def test_a_wrong_wish_is_refused_in_one_sentence(given, match):
    with pytest.raises(InputError, match=match):
        Wishes(**{'model': 'resnet18', 'out': 'runs/x', **given})
