"""No test sees what another left in mmengine's global instances."""

from __future__ import annotations

import pytest
from mmengine.logging import MessageHub
from mmengine.registry import DefaultScope


@pytest.mark.parametrize('turn', ['first', 'second'])
def test_global_instances_start_empty(turn):
    assert MessageHub.get_current_instance().get_info('left_over', None) is None
    assert DefaultScope.get_current_instance() is None
    MessageHub.get_current_instance().update_info('left_over', turn)
    DefaultScope.get_instance('left_over', scope_name='mmdet')
