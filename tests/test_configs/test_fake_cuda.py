"""No recipe leaves a tensor on the CPU: its loss runs on a GPU that is not there.

Fake tensors have a device, a type and a shape, but no memory, and refuse to be combined
across devices. Such a test needs no GPU and takes seconds at full size.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.model import BaseModel
from mmengine.registry import MODELS, init_default_scope
from mmpretrain.structures import DataSample
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from mmbam.models import FrozenTeacher

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = sorted(
    path.relative_to(ROOT / 'configs').as_posix()
    for path in (ROOT / 'configs' / 'bam').rglob('*.py')
)
GPU = torch.device('cuda:0')

pytestmark = pytest.mark.skipif(
    torch.__version__ < '2.6',
    reason='fake tensors of the classic torch cannot run these models',
)


def views_of(cfg: Config) -> list[int]:
    """The size of each view that the config's pipeline makes."""
    for step in cfg.train_dataloader.dataset.pipeline:
        if step.type == 'mmbam.MultiCrop':
            return [v.size for v in step.views for _ in range(v.get('num', 1))]
        if step.type == 'MultiView':
            crops = zip(step.transforms, step.num_views)
            return [crop.scale for (crop, *_), num in crops for _ in range(num)]
    raise AssertionError('no transform makes views')


def move(model: BaseModel) -> None:
    """What ``model.to(GPU)`` does, but to fake tensors of the same shape."""

    def fake(value: torch.Tensor) -> torch.Tensor:
        layout = value.size(), value.stride()
        return torch.empty_strided(*layout, dtype=value.dtype, device=GPU)

    for module in model.modules():
        for name, value in module._parameters.items():
            if value is not None:
                moved = nn.Parameter(fake(value), value.requires_grad)
                module._parameters[name] = moved
        for name, value in module._buffers.items():
            if value is not None:
                module._buffers[name] = fake(value)
    model._set_device(GPU)  # of the preprocessor


def fake_loss(path: Path, **changes) -> torch.Tensor:
    """The loss of a recipe on the fake GPU, in mixed precision."""
    cfg = Config.fromfile(path)
    cfg.model.update(changes)
    init_default_scope('mmpretrain')
    model = dict(cfg.model, data_preprocessor=cfg.data_preprocessor)
    if 'checkpoint' in (model.get('teacher') or {}):
        # A network instead of a config: the file with its weights is not there.
        model['teacher'] = FrozenTeacher(MODELS.build(model['teacher'].backbone))
    model = MODELS.build(model)
    model.train()
    with FakeTensorMode():
        move(model)
        images = [
            torch.empty(4, 3, size, size, dtype=torch.uint8) for size in views_of(cfg)
        ]
        batch = dict(inputs=images, data_samples=[DataSample()] * 4)
        batch = model.data_preprocessor(batch, training=True)
        with torch.autocast('cuda', dtype=torch.float16):
            return model(**batch, mode='loss')['loss']


@pytest.fixture(autouse=True)
def fake_cuda(monkeypatch):
    """Let torch believe in a GPU; fake tensors never ask it to compute."""
    monkeypatch.setattr(torch.cuda, '_lazy_init', lambda: None)
    # The backward pass wants a thread for a real device; the loss has one inside.
    monkeypatch.setattr(torch.Tensor, 'backward', lambda *_, **__: None)
    # Only shapes matter: leave the weights as they are allocated.
    for name in ('uniform_', 'normal_'):
        monkeypatch.setattr(torch.Tensor, name, lambda weight, *_, **__: weight)


@pytest.mark.parametrize('config', CONFIGS)
def test_the_loss_of_a_recipe_is_computed_on_the_gpu_alone(config):
    loss = fake_loss(ROOT / 'configs' / config)
    assert loss.device == GPU and loss.shape == ()


def test_a_tensor_on_the_cpu_is_found(monkeypatch):
    from mmbam.models import BAMLoss

    forward = BAMLoss.forward
    monkeypatch.setattr(
        BAMLoss, 'forward', lambda *args: forward(*args) * torch.ones(1)
    )
    with pytest.raises(RuntimeError, match='found at least two devices|cuda:0, cpu'):
        fake_loss(ROOT / 'configs/bam/vit-s16_300e.py')


def test_micro_batches_restore_the_random_states_of_the_gpu(monkeypatch):
    from mmbam.models import micro_batches

    devices = []
    plain = micro_batches.checkpoint

    def spy(function, *args, **kwargs):
        # Checkpointing looks at the tensors among its arguments for devices.
        devices.extend(a.device for a in args if isinstance(a, torch.Tensor))
        return plain(function, *args, **kwargs)

    monkeypatch.setattr(micro_batches, 'checkpoint', spy)
    path = ROOT / 'configs/bam/vit-s16_1gpu_300e.py'
    assert fake_loss(path, micro_batch_size=2).device == GPU
    # Two micro-batches of two sizes, of which the last is not computed again.
    assert devices == [GPU] * 3
