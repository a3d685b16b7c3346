"""Time and memory of a whole training step: ``python benchmarks/step.py``.

Preprocessing, forward, backward, AdamW and moving average of ViTs on random images:

- 2 x 224 crops: BAM with a teacher against mmpretrain's MoCo v3 and DINO, each with its
  published projector and loss;
- 2 x 224 + 6 x 96 crops: BAM with a moving average as teacher against the same step
  done the straightforward way: the teacher sees every crop, the loss multiplies whole
  matrices pair by pair, the average is a loop over the parameters.

Rounds alternate between the methods, and the median of the rounds' ratios counts. CPU
time is the sum over all threads.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from mmengine.logging import MessageHub, MMLogger
from mmengine.model import revert_sync_batchnorm
from mmengine.optim import OptimWrapper
from mmpretrain.registry import MODELS
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import (  # noqa: E402
    fresh_process,
    parser,
    peak_growth,
    positive,
)
from benchmarks.direct_loss import direct_loss  # noqa: E402
from mmbam.models import BAM, embed_views  # noqa: E402

# Dims, blocks and heads of MoCo v3's ViT-S and of DeiT's tiny ViT.
ARCHS = {
    'ViT-S/16': dict(embed_dims=384, num_layers=12, num_heads=12),
    'ViT-Ti/16': dict(embed_dims=192, num_layers=12, num_heads=3),
}
# As large as minutes on two cores allow.
BATCHES = {'ViT-S/16': 32, 'ViT-Ti/16': 64}
TWO, EIGHT = [224] * 2, [224] * 2 + [96] * 6
# Crops, and the methods to compare with and the largest share of their time allowed.
CASES: dict[str, tuple[list[int], dict[str, float | None]]] = {
    'MoCo v3': (TWO, {}),
    'DINO': (TWO, {}),
    'BAM': (TWO, {'MoCo v3': 1.0, 'DINO': 0.93}),
    # With mmpretrain's ViT, as the two above have it: the method alone.
    'BAM, their ViT': (TWO, {'MoCo v3': None, 'DINO': None}),
    'straightforward': (EIGHT, {}),
    'BAM, multi-crop': (EIGHT, {'straightforward': 0.85}),
}
OURS = ('BAM', 'BAM, multi-crop')
Sample = tuple[float, float]


class StraightforwardBAM(BAM):
    """The step without any optimization, with the same networks."""

    momentum = 0.995

    def loss(self, inputs: list[Tensor], data_samples=None) -> dict[str, Tensor]:
        teacher = self.teacher
        with torch.no_grad():
            for mine, theirs in (
                (teacher.backbone, self.backbone),
                (teacher.neck, self.neck),
            ):
                for old, new in zip(mine.parameters(), theirs.parameters()):
                    old.data.mul_(self.momentum).add_((1 - self.momentum) * new.data)
            z_target = embed_views(teacher.backbone, teacher.neck, inputs)
        z = embed_views(self.backbone, self.neck, inputs)
        loss = direct_loss(z, z_target, num_views=len(inputs))
        return dict(loss=loss)


def method(name: str, arch: str) -> tuple[dict, dict | None]:
    """Config of a method's model and its gradient clipping, both as published."""
    numbers = ARCHS[arch]
    width = numbers['embed_dims']
    common = dict(
        data_preprocessor=dict(
            type='SelfSupDataPreprocessor',
            mean=[123.675, 116.28, 103.53],
            std=[58.395, 57.12, 57.375],
            to_rgb=True,
        ),
        backbone=dict(
            # BAM uses the network of its recipes, the others mmpretrain's.
            type='mmbam.ClsViT' if name in OURS else 'MoCoV3ViT',
            arch=dict(numbers, feedforward_channels=4 * width),
            img_size=224,
            patch_size=16,
            stop_grad_conv1=True,
        ),
    )
    if name == 'MoCo v3':
        mlp = dict(
            type='NonLinearNeck',
            hid_channels=4096,
            out_channels=256,
            with_bias=False,
            with_last_bn=True,
            with_last_bn_affine=False,
            with_last_bias=False,
            with_avg_pool=False,
        )
        cfg = dict(
            type='MoCoV3',
            base_momentum=0.01,
            neck=dict(mlp, in_channels=width, num_layers=3),
            head=dict(
                type='MoCoV3Head',
                predictor=dict(mlp, in_channels=256, num_layers=2),
                loss=dict(type='CrossEntropyLoss', loss_weight=2 * 0.2),
                temperature=0.2,
            ),
        )
        clip = None
    elif name == 'DINO':
        cfg = dict(
            type='mmbam.DINO',
            neck=dict(type='mmbam.DINONeck', in_channels=width),
            head=dict(
                type='mmbam.BAMHead',
                loss=dict(type='mmbam.DINOLoss', out_channels=65536, num_views=2),
            ),
        )
        clip = dict(max_norm=3.0)
    else:
        views = len(CASES[name][0])
        cfg = dict(
            type=StraightforwardBAM if name == 'straightforward' else 'mmbam.BAM',
            neck=dict(type='mmbam.BAMNeck', in_channels=width),
            head=dict(
                type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=views)
            ),
            teacher=dict(type='mmbam.EMATeacher'),
        )
        clip = dict(max_norm=0.3)
    return {**cfg, **common}, clip


def build(cfg: dict) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS.build(cfg)
    model.init_weights()
    return revert_sync_batchnorm(model).train()


def make_step(
    model: nn.Module, clip: dict | None, sizes: list[int], batch: int, **adamw
) -> Callable[[], None]:
    """A function that runs one step.

    A first step with two images creates the optimizer's state and library buffers.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    adam = torch.optim.AdamW(trained, lr=1e-4, **adamw)
    optimizer = OptimWrapper(adam, clip_grad=clip)
    inputs = [
        torch.randint(0, 256, (batch, 3, size, size), dtype=torch.uint8)
        for size in sizes
    ]

    def step(images: int = batch) -> None:
        views = [view[:images] for view in inputs]
        model.train_step(dict(inputs=views, data_samples=None), optimizer)

    step(2)
    return step


def step_of(name: str, arch: str, batch: int) -> Callable[[], None]:
    """A step of a method."""
    cfg, clip = method(name, arch)
    return make_step(build(cfg), clip, CASES[name][0], batch)


def peak_memory(name: str, arch: str, batch: int, threads: int) -> int:
    """Peak bytes that model, optimizer and a step add to a process."""
    prepare(threads)
    gc.collect()
    return peak_growth(lambda: step_of(name, arch, batch)())


def prepare(threads: int) -> None:
    torch.set_num_threads(threads)
    MMLogger.get_instance('step', log_level='ERROR')  # hides the log of init_weights
    # The moving averages read it from the hub, where the runner puts it.
    MessageHub.get_current_instance().update_info('max_iters', 1000)


def measure(step: Callable[[], None]) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    return time.process_time() - cpu, time.perf_counter() - wall


def ratio_of(samples: dict[str, list[Sample]], name: str, base: str, clock: int):
    pairs = zip(samples[name], samples[base])
    return statistics.median(a[clock] / b[clock] for a, b in pairs)


def report(samples: dict[str, list[Sample]], memory: dict[str, int]) -> None:
    """Print a line for each method and for each comparison."""
    for name, of_method in samples.items():
        cpu, wall = (statistics.median(column) for column in zip(*of_method))
        walls = [w for _, w in of_method]
        crops = '2 x 224' + (' + 6 x 96' if len(CASES[name][0]) > 2 else '')
        print(
            f'  {name:<16} {crops:<16} {cpu:7.2f} s CPU {wall:7.2f} s '
            f'({min(walls):.2f} to {max(walls):.2f}) {memory[name] / 2**20:6.0f} MB'
        )
    for name in samples:
        for base, target in CASES[name][1].items():
            cpu, wall = (ratio_of(samples, name, base, clock) for clock in (0, 1))
            verdict = ''
            if target is not None:
                met = 'met' if max(cpu, wall) <= target else 'MISSED'
                verdict = f'; target {target:.2f}: {met}'
            print(
                f'  {name} / {base}: {cpu:.3f} of its CPU time, {wall:.3f} of its wall '
                f'time, {memory[name] / memory[base]:.3f} of its memory{verdict}'
            )


def main() -> None:
    options = parser(__doc__, rounds=3, threads=2)
    options.add_argument(
        '--archs',
        nargs='+',
        choices=ARCHS,
        default=list(ARCHS),
        help='networks to measure',
    )
    options.add_argument(
        '--batch-size', type=positive, help=f'images in a batch, else {BATCHES}'
    )
    args = options.parse_args()
    prepare(args.threads)
    print(
        f'{args.threads} threads, float32, torch {torch.__version__}; medians of '
        f'{args.rounds} rounds, wall time with its range'
    )
    for arch in args.archs:
        batch = args.batch_size or BATCHES[arch]
        print(f'{arch}, batch {batch}', flush=True)
        with fresh_process() as run:
            memory = {
                name: run(peak_memory, name, arch, batch, args.threads)
                for name in CASES
            }
        steps = {name: step_of(name, arch, batch) for name in CASES}
        samples: dict[str, list[Sample]] = {name: [] for name in CASES}
        for _ in range(args.rounds):
            for name, step in steps.items():
                samples[name].append(measure(step))
        report(samples, memory)
        del steps


if __name__ == '__main__':
    main()
