"""What the progress line calls healthy."""

import math

import pytest

from mmbam.engine.hooks.collapse import Signs, find_sign, health

HEALTHY = Signs(sharpness_a=1.0, sharpness_b=2.0, gap=1.0)
EMPTY = Signs(sharpness_a=1.0, sharpness_b=1.0, gap=0.0)


def test_a_loss_below_that_of_uniform_attention_is_healthy():
    assert health(HEALTHY, lead=0.1) == 'healthy'
    assert health(HEALTHY, lead=-0.1) == 'not learning yet'
    assert health(HEALTHY, lead=math.nan) == 'not learning yet'


@pytest.mark.parametrize('lead', [-1.0, 1.0])
def test_what_raises_the_alarm_is_no_signal(lead):
    assert find_sign(EMPTY) == 'empty'
    assert health(EMPTY, lead) == 'no signal'
