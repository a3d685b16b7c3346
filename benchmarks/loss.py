"""Time and memory of BAM's loss against the direct autograd implementation.

Forward and backward with 2 + 6 views and a teacher. The alternative is the direct form:
whole matrices, one product per pair of views, balanced over all rows. mmbam is shown
with all rows balanced, to compare the results, and with its default, the rows of the
target views. At n = 512 and 1024 the default should take at most 0.6 x the time and
0.2 x the memory.

Usage: python benchmarks/loss.py [--sizes 256 512 1024 2048] [--repeats 15]
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
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
)
from benchmarks.direct_loss import direct_loss  # noqa: E402
from mmbam.models import BAMLoss  # noqa: E402

NUM_VIEWS, NUM_TARGETS, DIM = 8, 2, 256


def losses() -> dict[str, Callable]:
    return {
        'direct': partial(direct_loss, num_views=NUM_VIEWS),
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


class Racer:
    """One loss in a process of its own: what others free is not its business.

    In one process, the memory of the direct form is given back to the system while
    another loss is timed, which makes that one some ms slower.
    """

    def __init__(self, name: str, n: int, threads: int) -> None:
        self.pool = ProcessPoolExecutor(1, multiprocessing.get_context('spawn'))
        self.result = self.pool.submit(_prepare, name, n, threads).result()
        self.seconds: list[float] = []

    def run(self) -> None:
        self.seconds.append(self.pool.submit(_timed_step).result())
        time.sleep(0.05)  # threads wait for more to do, at full speed, for a while

    def median(self) -> float:
        return statistics.median(self.seconds)


def _prepare(name: str, n: int, threads: int) -> tuple[float, np.ndarray]:
    global _run
    torch.set_num_threads(threads)
    _run = partial(step, losses()[name], *latents(name, n))
    value, grad = _run()
    return value, grad.numpy().copy()


def _timed_step() -> float:
    start = time.perf_counter()
    _run()
    return time.perf_counter() - start


def main() -> None:
    options = parser(__doc__, repeats=15, threads=2)
    options.add_argument(
        '--sizes',
        type=positive,
        nargs='+',
        default=[256, 512, 1024, 2048],
        help='numbers n of images in a batch',
    )
    args = options.parse_args()
    print(
        f'V = {NUM_VIEWS}, T = {NUM_TARGETS}, d = {DIM}, teacher on, {args.threads} '
        'threads, forward and backward, float32'
    )
    print(
        f'{"n":>5}  {"loss":<16} {"time":>9} {"ratio":>6} {"memory":>9} {"ratio":>6}'
        f'  {"relative difference":>19}'
    )
    for n in args.sizes:
        memory = {}
        for name in losses():
            with fresh_process() as run:
                memory[name] = run(peak_memory, name, n, args.threads)
        racers = {name: Racer(name, n, args.threads) for name in losses()}
        for _ in range(args.repeats):
            for racer in racers.values():
                racer.run()
        base_time = racers['direct'].median()
        base_value, base_grad = racers['direct'].result
        for name, racer in racers.items():
            racer.pool.shutdown()
            seconds = racer.median()
            value, grad = racer.result
            error = max(
                abs(value - base_value) / abs(base_value),
                np.linalg.norm(grad - base_grad) / np.linalg.norm(base_grad),
            )
            shown = 'other target' if 'default' in name else f'{error:.1e}'
            print(
                f'{n:>5}  {name:<16} {seconds * 1e3:>6.0f} ms '
                f'{seconds / base_time:>6.2f} {memory[name] / 2**20:>6.0f} MB '
                f'{memory[name] / memory["direct"]:>6.2f}  {shown:>19}'
            )


if __name__ == '__main__':
    main()
