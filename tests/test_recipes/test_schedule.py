"""The learning rate follows from the batch, the width and the start of a run."""

import pytest

from mmbam.recipes import numbers
from mmbam.recipes.schedule import peak_rate


@pytest.mark.parametrize(
    'batch, width, from_weights, share',
    [
        (256, 64, False, 1.0),
        (64, 64, False, 0.5),  # the square root
        (256, 32, False, 1.0),
        (256, 128, False, 0.5),  # in proportion to a wider embedding
        (256, 64, True, 0.1),
    ],
)
def test_the_rate_of_a_short_run(batch, width, from_weights, share):
    rate = peak_rate(numbers.SHORT, batch, width, from_weights)
    assert rate == pytest.approx(share * numbers.SHORT.lr, rel=1e-2)


@pytest.mark.parametrize('schedule', [numbers.LONG, numbers.LONG_RESNET])
def test_the_rate_of_a_long_run_knows_no_width(schedule):
    rates = {peak_rate(schedule, 2048, width, False) for width in (64, 768)}
    assert list(rates) == [pytest.approx(schedule.lr / 2, rel=1e-2)]
