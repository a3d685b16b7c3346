"""Time and memory of BAM's loss against the direct autograd implementation.

Forward and backward with 2 + 6 views and a teacher. The alternative is the oracle of
the tests: full matrices, one product per pair of views, balanced over all rows. Ours
balances all rows here too, so that the results can be compared; the default, which
balances only the rows of the target views, is shown beside it.

Usage: python benchmarks/loss.py [--sizes 256 512 1024 2048] [--repeats 15]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.arguments import positive  # noqa: E402
from benchmarks.memory import peak_growth  # noqa: E402
from mmbam.models import BAMLoss  # noqa: E402
from tests.loss_oracle import bam_loss_oracle  # noqa: E402

NUM_VIEWS, NUM_TARGETS, DIM = 8, 2, 256


def losses() -> dict[str, Callable]:
    return {
        'direct': partial(bam_loss_oracle, num_views=NUM_VIEWS, balance_rows='all'),
        'mmbam, all rows': BAMLoss(NUM_VIEWS, balance_rows='all'),
        'mmbam (default)': BAMLoss(NUM_VIEWS),
    }


def latents(name: str, n: int) -> tuple[Tensor, Tensor]:
    """Nearby latents, as after some training: attention far from uniform."""
    torch.manual_seed(n)
    centres = torch.randn(max(1, n // 8), DIM).repeat_interleave(8, dim=0)
    z = (centres + torch.randn(NUM_VIEWS, n, DIM)).flatten(0, 1).requires_grad_()
    z_target = (centres + torch.randn(NUM_VIEWS, n, DIM)).flatten(0, 1)
    return z, z_target[: NUM_TARGETS * n] if 'default' in name else z_target


def step(loss: Callable, z: Tensor, z_target: Tensor) -> tuple[float, Tensor]:
    z.grad = None
    value = loss(z, z_target)
    value.backward()
    return value.item(), z.grad


def peak_memory(name: str, n: int, threads: int) -> int:
    """Bytes by which a process that has made one step grows at the peak of another."""
    torch.set_num_threads(threads)
    loss = losses()[name]
    # Products of this size make their library's own buffers, which then stay.
    step(loss, *latents(name, n))
    inputs = latents(name, n)
    return peak_growth(lambda: step(loss, *inputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument(
        '--sizes', type=positive, nargs='+', default=[256, 512, 1024, 2048]
    )
    parser.add_argument('--repeats', type=positive, default=15)
    parser.add_argument('--threads', type=positive, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    print(
        f'V = {NUM_VIEWS}, T = {NUM_TARGETS}, d = {DIM}, teacher on, {args.threads} '
        'threads, forward and backward, float32'
    )
    print(
        f'{"n":>5}  {"loss":<16} {"time":>9} {"ratio":>6} {"memory":>9} {"ratio":>6}'
        f'  {"relative difference":>19}'
    )
    # Every tensor goes back to the system when it is freed, so that the peak shows.
    os.environ['MALLOC_MMAP_THRESHOLD_'] = str(2**16)
    runs = losses()
    for n in args.sizes:
        inputs = {name: latents(name, n) for name in runs}
        times: dict[str, list[float]] = {name: [] for name in runs}
        memory = {}
        for name in runs:
            with ProcessPoolExecutor(1, multiprocessing.get_context('spawn')) as pool:
                memory[name] = pool.submit(peak_memory, name, n, args.threads).result()
        results = {name: step(loss, *inputs[name]) for name, loss in runs.items()}
        for _ in range(args.repeats):
            for name, loss in runs.items():
                start = time.perf_counter()
                step(loss, *inputs[name])
                times[name].append(time.perf_counter() - start)
        base_time = statistics.median(times['direct'])
        base_value, base_grad = results['direct']
        for name in runs:
            seconds = statistics.median(times[name])
            value, grad = results[name]
            error = max(
                abs(value - base_value) / abs(base_value),
                ((grad - base_grad).norm() / base_grad.norm()).item(),
            )
            shown = 'other target' if 'default' in name else f'{error:.1e}'
            print(
                f'{n:>5}  {name:<16} {seconds * 1e3:>6.0f} ms '
                f'{seconds / base_time:>6.2f} {memory[name] / 2**20:>6.0f} MB '
                f'{memory[name] / memory["direct"]:>6.2f}  {shown:>19}'
            )


if __name__ == '__main__':
    main()
