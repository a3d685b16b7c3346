"""What several benchmarks share: options, small networks, images, time and memory."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmpretrain.models.backbones import ResNet
from mmpretrain.models.selfsup import MoCoV3ViT
from torch import nn

BACKBONES = {
    'ViT-S/16': lambda: MoCoV3ViT(arch='mocov3-small', img_size=224, patch_size=16),
    'ResNet-50': lambda: ResNet(50),
}

# Help of the options of :func:`parser`.
ABOUT = dict(
    batch_size='images in a batch',
    epochs='epochs of each run',
    images='number of images',
    iterations='training steps of a run',
    last='number T of last frames in the first pair of rows',
    loss_width="width of the latents with which the loss's own memory is measured",
    members='members of the shards that are indexed',
    micro='images in a micro-batch',
    repeats='turns of each candidate; their median counts',
    rounds='turns of each candidate',
    seeds='number of seeds of each kind of run',
    test='number of test images',
    threads="threads of torch's operators",
    train='number of training images',
)


def positive(text: str) -> int:
    """Parse an integer of at least 1 (a ``type`` for argparse)."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f'must be an integer of at least 1, got {text!r}'
        )
    return int(text)


def parser(about: str, **numbers: int) -> argparse.ArgumentParser:
    """Make a parser with an option for each of some numbers.

    Args:
        about (str): Text whose first line describes the program.
        **numbers (int): Defaults of options of :data:`ABOUT`, integers of at least 1.
    """
    made = argparse.ArgumentParser(
        description=about.split('\n')[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for name, default in numbers.items():
        option = f'--{name.replace("_", "-")}'
        made.add_argument(option, type=positive, default=default, help=ABOUT[name])
    return made


def small_bam(
    width: int, layers: int, size: int, views: int, momentum: float, **others: Any
) -> dict:
    """Config of BAM with a tiny ViT without batch norm; other arguments of BAM."""
    arch = dict(
        embed_dims=width,
        num_layers=layers,
        num_heads=4,
        feedforward_channels=4 * width,
    )
    return dict(
        type='mmbam.BAM',
        data_preprocessor=dict(
            type='SelfSupDataPreprocessor', mean=[124.0] * 3, std=[60.0] * 3
        ),
        backbone=dict(
            type='mmbam.ClsViT',
            arch=arch,
            img_size=size,
            patch_size=8,
            stop_grad_conv1=True,
            out_type='cls_token',
        ),
        neck=dict(
            type='mmbam.BAMNeck',
            in_channels=width,
            hid_channels=4 * width,
            out_channels=2 * width,
        ),
        head=dict(
            type='mmbam.BAMHead', loss=dict(type='mmbam.BAMLoss', num_views=views)
        ),
        teacher=dict(type='mmbam.EMATeacher', momentum=momentum),
        **others,
    )


def photographs() -> tuple[np.ndarray, ...]:
    """Return scikit-image's photographs, in RGB."""
    from skimage import data

    return (
        data.astronaut(),
        data.coffee(),
        data.rocket(),
        data.chelsea(),
        data.stereo_motorcycle()[0],
    )


def seconds(run: Callable[[], None]) -> float:
    """Time of a call: on a CPU, CPU time."""
    if not torch.cuda.is_available():
        began = time.process_time()
        run()
        return time.process_time() - began
    torch.cuda.synchronize()
    began = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - began


def against_forward(
    compare: Callable[[nn.Module, int, int], tuple[Callable, Callable]],
    name: str,
    target: float,
    args: argparse.Namespace,
) -> None:
    """Print the time of something beside that of a plain forward pass.

    Other jobs may share the machine: repeats alternate between the two and the median
    of their ratios counts. On a CPU it is CPU time on one thread.

    Args:
        compare (Callable): Function from a backbone, a number of images and a batch
            size to the forward pass and what is compared with it.
        name (str): Name of the latter.
        target (float): Largest ratio that is allowed.
        args (Namespace): ``images``, ``batch_size`` and ``repeats``.
    """
    torch.set_num_threads(1)
    device = 'cuda' if torch.cuda.is_available() else 'cpu'
    print(f'{args.images} images of 224 x 224, median of {args.repeats} repeats')
    print(f'{"backbone":10} {"forward":>10} {name:>10} {"ratio":>7}  target')
    for backbone, build in BACKBONES.items():
        network = build().to(device)
        network.eval()
        forward, other = compare(network, args.images, args.batch_size)
        forward(), other()  # warm up
        times = [(seconds(forward), seconds(other)) for _ in range(args.repeats)]
        plain, found = map(statistics.median, zip(*times))
        ratio = statistics.median(b / a for a, b in times)
        print(
            f'{backbone:10} {plain:8.2f} s {found:8.2f} s {ratio:7.3f}  '
            f'<= {target:.2f}: {"met" if ratio <= target else "MISSED"}',
            flush=True,
        )


@contextmanager
def fresh_process() -> Iterator[Callable]:
    """Give a function that makes calls in a new process, for :func:`peak_growth`."""
    # Every tensor goes back to the system when it is freed, so that the peak shows.
    os.environ['MALLOC_MMAP_THRESHOLD_'] = str(2**16)
    with ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as pool:
        yield lambda call, *args: pool.submit(call, *args).result()
    del os.environ['MALLOC_MMAP_THRESHOLD_']


def peak_growth(call: Callable[[], object]) -> int:
    """Bytes by which a call raises the peak of this process's resident memory.

    Use it in a fresh process that has called the function once, so that libraries have
    allocated their buffers.
    """
    Path('/proc/self/clear_refs').write_text('5')  # resets the peak
    before = _status('VmRSS')
    call()
    return _status('VmHWM') - before


def _status(field: str) -> int:
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f'/proc/self/status has no field {field}.')
