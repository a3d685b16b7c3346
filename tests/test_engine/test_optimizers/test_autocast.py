"""bfloat16 training without a GPU."""

import torch
from mmengine.registry import OPTIM_WRAPPERS
from torch import nn


def test_computes_in_bfloat16_and_updates_float32_weights():
    layer = nn.Linear(4, 2)
    before = layer.weight.detach().clone()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    wrapper = OPTIM_WRAPPERS.build(
        dict(type='mmbam.AutocastOptimWrapper', optimizer=optimizer)
    )
    with wrapper.optim_context(layer):
        output = layer(torch.ones(3, 4))
    wrapper.update_params(output.float().sum())
    assert output.dtype == torch.bfloat16
    assert layer.weight.dtype == torch.float32
    torch.testing.assert_close(layer.weight, before - 0.3)
