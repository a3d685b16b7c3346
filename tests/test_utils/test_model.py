"""Which networks can be in the channels-last format."""

import pytest

from mmbam.utils.model import takes_channels_last
from tests.helpers.networks import mm


@pytest.mark.parametrize(('width', 'expected'), [(8, False), (16, True)])
def test_thin_networks_stay_out_of_the_channels_last_format(width, expected):
    thin = dict(stem_channels=width, base_channels=width)
    network = mm(type='mmpretrain.ResNet', depth=18, **thin)
    assert takes_channels_last(network) is expected
