"""tau_b moves on a line and then stays."""

from types import SimpleNamespace

import pytest
from mmengine.logging import MessageHub

from mmbam.engine.hooks import TauBHook
from mmbam.models import BAMHead, BAMLoss


def test_moves_on_a_line_and_stays():
    head = BAMHead(BAMLoss(num_views=2))
    runner = SimpleNamespace(
        model=SimpleNamespace(head=head),
        message_hub=MessageHub.get_instance('tau_b'),
    )
    hook = TauBHook(start=0.03, end=0.05, epochs=10)
    seen = []
    for epoch in (0, 5, 10, 200):
        runner.epoch = epoch
        hook.before_train_epoch(runner)
        seen.append(head.loss_module.tau_b)
    assert seen == pytest.approx([0.03, 0.04, 0.05, 0.05])
    assert runner.message_hub.get_scalar('train/tau_b').current() == 0.05


@pytest.mark.parametrize('wrong', [dict(start=0), dict(start=0.03, epochs=0)])
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ValueError, match='TauBHook: .* must be'):
        TauBHook(**wrong)
