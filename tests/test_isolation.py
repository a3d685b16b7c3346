"""No test sees what another left in mmengine's global instances."""

from __future__ import annotations

import pytest
from mmengine.logging import MessageHub, MMLogger
from mmengine.registry import DefaultScope


@pytest.fixture(scope='module')
def leftovers():
    """As a fixture that trains."""
    MMLogger.get_instance('left_over')
    MessageHub.get_instance('left_over')
    DefaultScope.get_instance('left_over', scope_name='mmdet')


def test_what_a_fixture_of_a_module_leaves_is_gone(leftovers):
    for manager in (MMLogger, MessageHub, DefaultScope):
        assert not manager.check_instance_created('left_over')


@pytest.mark.parametrize('turn', ['first', 'second'])
def test_global_instances_start_empty(turn):
    assert MessageHub.get_current_instance().get_info('left_over', None) is None
    assert DefaultScope.get_current_instance() is None
    MessageHub.get_current_instance().update_info('left_over', turn)
    DefaultScope.get_instance('left_over', scope_name='mmdet')
