"""A batch in micro-batches against the whole: ``python benchmarks/virtual_batch.py``.

Preprocessing, forward and backward pass of BAM with a moving average as teacher, a ViT
without batch norm and multi-crop, on random images, for batches of 128 to 1024 images:

- the whole batch at once, as far as memory allows;
- in micro-batches of 32 (``micro_batch_size``), which is exact;
- in batches of 32 whose gradients are accumulated, which is another method, because an
  image is compared with 31 others only.

The ways take turns, and the median of the rounds' ratios counts. CPU time is the sum
over all threads. Memory is what a step adds to model and images in a fresh process,
beside that of a plain step with 32 images.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import (  # noqa: E402
    fresh_process,
    parser,
    peak_growth,
    positive,
    small_bam,
)
from benchmarks.step import build, measure, prepare  # noqa: E402
from mmbam.models import BAM, BAMLoss  # noqa: E402

# As in the recipes, at half the size and with fewer blocks: minutes on two cores.
SIZES = [64] * 2 + [32] * 6
WHOLE, MICRO, ACCUMULATED = 'whole', 'micro-batches', 'accumulated'
TARGETS = dict(gradient=1e-5, memory=1.3, time=1.35)


def make_images(n: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randint(0, 256, (n, 3, s, s), dtype=torch.uint8, generator=generator)
        for s in SIZES
    ]


def step_of(way: str, n: int, micro: int) -> tuple[BAM, Callable[[], None]]:
    """A model, and a function that computes its gradient."""
    # Momentum 1: all steps have the same weights.
    size = micro if way == MICRO else None
    model = build(small_bam(128, 4, 64, 8, momentum=1.0, micro_batch_size=size))
    # Away from the start, where the teacher is the student.
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.02)
    images = make_images(n)

    def step() -> None:
        model.zero_grad()
        size = micro if way == ACCUMULATED else n
        for start in range(0, n, size):
            views = [view[start : start + size] for view in images]
            data = dict(inputs=views, data_samples=None)
            data = model.data_preprocessor(data, True)
            (model(**data, mode='loss')['loss'] * size / n).backward()

    return model, step


def measure_way(way: str, n: int, micro: int, threads: int) -> tuple:
    """CPU and wall time of a step, bytes that it adds at its peak, and its gradient."""
    prepare(threads)
    step_of(way, 2, 2)[1]()  # libraries allocate their buffers
    model, step = step_of(way, n, micro)
    gc.collect()
    times: list[tuple[float, float]] = []
    peak = peak_growth(lambda: times.append(measure(step)))
    grads = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return *times[0], peak, torch.cat(grads).numpy()


def loss_memory(n: int, width: int, threads: int) -> int:
    """Peak bytes that the loss of 8 views adds to the latents, with their gradient."""
    prepare(threads)

    def run(n: int) -> Callable[[], None]:
        z = torch.randn(8 * n, width, requires_grad=True)
        z_target = torch.randn(2 * n, width)
        loss = BAMLoss(num_views=8)
        return lambda: loss(z, z_target).backward()

    run(4)()
    call = run(n)
    gc.collect()
    return peak_growth(call)


def megabytes(size: float) -> str:
    return f'{size / 2**20:8.0f} MB'


def verdict(value: float, target: str) -> str:
    met = 'met' if value <= TARGETS[target] else 'MISSED'
    return f'target {TARGETS[target]:g}: {met}'


def row(way: str, rounds: list[dict[str, tuple]]) -> str:
    """Medians of a way, and its ratios to the whole batch."""
    cpu, wall = (statistics.median(r[way][clock] for r in rounds) for clock in (0, 1))
    peak, gradient = rounds[0][way][2:]
    line = f'{cpu:7.2f} s CPU {wall:7.2f} s {megabytes(peak)}'
    if way == WHOLE or WHOLE not in rounds[0]:
        return line
    times = [
        statistics.median(r[way][clock] / r[WHOLE][clock] for r in rounds)
        for clock in (0, 1)
    ]
    whole_peak, exact = rounds[0][WHOLE][2:]
    error = float(np.linalg.norm(gradient - exact) / np.linalg.norm(exact))
    line += (
        f'  {times[0]:.2f} x CPU, {times[1]:.2f} x time, {peak / whole_peak:.2f} x '
        f'memory, gradient {error:.1e} apart'
    )
    if way == MICRO:
        line += f' ({verdict(error, "gradient")}; CPU, {verdict(times[0], "time")})'
    return line


def main() -> None:
    options = parser(__doc__, micro=32, rounds=3, threads=2, loss_width=512)
    options.add_argument(
        '--batch-sizes',
        nargs='+',
        type=positive,
        default=[128, 256, 512, 1024],
        help='numbers of images in a whole batch',
    )
    options.add_argument(
        '--max-memory',
        type=float,
        default=6,
        help='GB that a whole batch may take; larger ones are left out',
    )
    args = options.parse_args()
    prepare(args.threads)
    print(
        f'{args.threads} threads, float32, torch {torch.__version__}, micro-batches of '
        f'{args.micro}, {args.rounds} rounds'
    )

    # A fresh process, because the limit above counts from the start of a process.
    with fresh_process() as run:
        report(args, lambda *call: run(*call, args.threads))


def report(args: argparse.Namespace, run: Callable) -> None:
    """Print the tables."""
    micro = args.micro
    plain = run(measure_way, WHOLE, micro, micro)[2]
    print(f'plain step with {micro} images: {megabytes(plain)}', flush=True)
    growth: list[tuple[int, int]] = []
    for n in args.batch_sizes:
        ways = [WHOLE, MICRO, ACCUMULATED]
        if plain * n / micro > args.max_memory * 2**30:
            ways.remove(WHOLE)
        rounds = [
            {way: run(measure_way, way, n, micro) for way in ways}
            for _ in range(args.rounds)
        ]
        print(f'n = {n}')
        for way in ways:
            print(f'  {way:<14} {row(way, rounds)}', flush=True)
        peak = rounds[0][MICRO][2]
        growth.append((n, peak))
        print(
            f'  micro-batches / plain step with {micro}: {peak / plain:.2f} x memory '
            f'({verdict(peak / plain, "memory")})',
            flush=True,
        )
    (first, small), (last, large) = growth[0], growth[-1]
    print(
        f'memory in micro-batches, n = {first} to {last}: {large / small:.2f} x for '
        f'{last / first:.0f} x the images'
    )
    for n in (1024, 2048, 4096):
        own = run(loss_memory, n, args.loss_width)
        matrix = 4 * n * 2 * n
        print(
            f'the loss itself, 8 views, width {args.loss_width}, n = {n}: '
            f'{megabytes(own)}, {own / matrix:.1f} x a matrix of n x 2n floats',
            flush=True,
        )


if __name__ == '__main__':
    main()
