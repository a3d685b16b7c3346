"""What makes a training step faster: ``python benchmarks/switches.py``.

Times BAM's step (2 x 224 + 6 x 96 crops, moving average as teacher, AdamW) with each
switch on and off, in alternating rounds. Everything else is as in the recipes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from mmengine.model import MMDistributedDataParallel
from mmpretrain.models.utils.attention import scaled_dot_product_attention_pyimpl
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import parser  # noqa: E402
from benchmarks.direct_loss import direct_loss  # noqa: E402
from benchmarks.step import EIGHT, build, make_step, method, prepare  # noqa: E402

NAME = 'BAM, multi-crop'
RESNET = dict(type='ResNet', depth=50)


def config(arch: str, **changes) -> dict:
    """BAM's config with changes of the backbone or the loss."""
    cfg, _ = method(NAME, 'ViT-S/16' if arch == 'ResNet-50' else arch)
    if arch == 'ResNet-50':
        cfg['backbone'] = RESNET
        cfg['neck'].update(in_channels=2048, act_cfg=dict(type='ReLU'))
    cfg['backbone'] = {**cfg['backbone'], **changes.get('backbone', {})}
    cfg['head']['loss'] = {**cfg['head']['loss'], **changes.get('loss', {})}
    return cfg


def loop_over_parameters(model: nn.Module) -> None:
    """Compute the moving average one parameter at a time."""
    teacher = model.teacher

    @torch.no_grad()
    def update(backbone: nn.Module, neck: nn.Module, progress: float) -> None:
        for mine, theirs in ((teacher.backbone, backbone), (teacher.neck, neck)):
            for old, new in zip(mine.parameters(), theirs.parameters()):
                old.mul_(0.995).add_(0.005 * new)

    teacher.update = update


def whole_matrices(model: nn.Module) -> None:
    """Replace the loss by whole matrices and autograd."""

    def forward(z: Tensor, z_target: Tensor) -> Tensor:
        return direct_loss(z, z_target, len(EIGHT), balance_rows='targets')

    model.head.loss_module.forward = forward


def written_out_attention(model: nn.Module) -> None:
    """Replace fused attention by two products and a softmax."""
    for network in (model.backbone, model.teacher.backbone):
        for layer in network.layers:
            attn = layer.attn
            attn.scaled_dot_product_attention = scaled_dot_product_attention_pyimpl


def inference_mode(model: nn.Module) -> None:
    """Run the teacher's forward pass in torch's inference mode."""
    embed = model.teacher.forward
    model.teacher.forward = lambda views: torch.inference_mode()(embed)(views).clone()


def compile_backbones(model: nn.Module) -> None:
    model.backbone.compile()
    model.teacher.backbone.compile()


def channels_last(model: nn.Module) -> None:
    model.to(memory_format=torch.channels_last)


def in_parallel(model: nn.Module, **kwargs) -> nn.Module:
    """Wrap the model for a process group of one process."""
    if not dist.is_initialized():
        dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
    return MMDistributedDataParallel(model, broadcast_buffers=False, **kwargs)


def nothing(model: nn.Module) -> None:
    """Leave the model as it is."""


Side = dict
# For each switch: the side with it, the side without it, and whether the recipes or
# tools turn it on. A side changes the config, the built model, its wrapper or AdamW.
VIT_SWITCHES: dict[str, tuple[Side, Side, bool]] = {
    'last block computes [cls] alone': (
        {},
        dict(backbone=dict(type='MoCoV3ViT')),
        True,
    ),
    'teacher sees the target views only': (
        {},
        dict(loss=dict(balance_rows='all')),
        True,
    ),
    'loss one view at a time': ({}, dict(model=whole_matrices), True),
    'multi-tensor moving average': ({}, dict(model=loop_over_parameters), True),
    'fused attention': ({}, dict(model=written_out_attention), True),
    'gradients as views of buckets': (
        dict(parallel=dict(gradient_as_bucket_view=True)),
        dict(parallel={}),
        True,
    ),
    'inference mode for the teacher': (dict(model=inference_mode), {}, False),
    'multi-tensor AdamW': (dict(adamw=dict(foreach=True)), {}, False),
    'fused AdamW': (dict(adamw=dict(fused=True)), {}, False),
    'torch.compile of the backbones': (dict(model=compile_backbones), {}, False),
}
CNN_SWITCHES: dict[str, tuple[Side, Side, bool]] = {
    'channels_last': (dict(model=channels_last), {}, True),
}


def step_of(side: Side, arch: str, batch: int) -> Callable[[], None]:
    model = build(config(arch, **side))
    side.get('model', nothing)(model)
    if 'parallel' in side:
        model = in_parallel(model, **side['parallel'])
    return make_step(model, dict(max_norm=0.3), EIGHT, batch, **side.get('adamw', {}))


def seconds(step: Callable[[], None]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def main() -> None:
    names = [*CNN_SWITCHES, *VIT_SWITCHES]
    options = parser(__doc__, batch_size=4, rounds=5, threads=2)
    options.add_argument(
        '--arch',
        choices=('ViT-S/16', 'ViT-Ti/16'),
        default='ViT-S/16',
        help='ViT of the switches for ViTs',
    )
    options.add_argument(
        '--switches',
        nargs='+',
        choices=names,
        default=names,
        metavar='NAME',
        help='switches to measure',
    )
    args = options.parse_args()
    prepare(args.threads)
    print(
        f'Batch {args.batch_size}, {args.threads} threads, float32, torch '
        f'{torch.__version__}: median of the ratios of {args.rounds} rounds, range'
    )
    rows = [('ResNet-50', *row) for row in CNN_SWITCHES.items()]
    rows += [(args.arch, *row) for row in VIT_SWITCHES.items()]
    for arch, name, (on, off, used) in rows:
        if name not in args.switches:
            continue
        make = partial(step_of, arch=arch, batch=args.batch_size)
        try:
            steps = [make(on), make(off)]
            for step in steps:  # torch.compile compiles at the first whole batch
                step()
        except Exception as error:  # not every torch has every switch on every device
            if used:
                raise
            reason = ' '.join(str(error).split())[:60]
            print(f'  {arch:<9} {name:<35} not available here: {reason}')
            continue
        times = [[seconds(step) for step in steps] for _ in range(args.rounds)]
        ratios = sorted(with_it / without for with_it, without in times)
        print(
            f'  {arch:<9} {name:<35} {statistics.median(ratios):.3f} x '
            f'({ratios[0]:.3f} to {ratios[-1]:.3f}), {"on" if used else "off"} here',
            flush=True,
        )


if __name__ == '__main__':
    main()
