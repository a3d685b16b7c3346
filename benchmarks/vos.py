"""Time and memory of label propagation in videos against the dense computation.

One frame of DAVIS-2017 at 480p with a ViT-B/16: 30 x 54 tokens of 768 numbers, with the
first and the 28 last frames as context. The dense form compares every token with every
token of each context frame and masks what lies outside the neighborhood. The features
are those of a moving scene plus noise, so neighbors are neither trivial nor random. The
second pair of rows propagates with T = 7, 14, 21 and 28 in one search, where the dense
form starts anew for each T.

Other jobs may share the machine: repeats alternate between the two forms, and the
median of the CPU time on one thread counts.

Usage: python benchmarks/vos.py [--last 28] [--repeats 3]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.common import fresh_process, parser, peak_growth  # noqa: E402
from mmbam.evaluation.video import hard_labels  # noqa: E402
from mmbam.evaluation.video.neighbours import local_neighbours  # noqa: E402
from mmbam.evaluation.video.propagation import average_labels  # noqa: E402

HEIGHT, WIDTH, DIM, PATCH = 30, 54, 768, 16
OBJECTS, RADIUS, TOP_K, TEMPERATURE, TARGET = 4, 12, 5, 0.1, 2.0


def scene(num_context: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features of a frame (c, h, w), and features and labels of its context.

    A scene of a few smooth patterns drifts by about a token in two frames; the labels
    drift along and lose their sharp edges, as propagated ones do.
    """
    torch.manual_seed(0)
    margin = num_context // 2 + 2
    shape = HEIGHT + margin, WIDTH + margin
    coarse = torch.randn(1, DIM, shape[0] // 3, shape[1] // 3)
    world = torch.nn.functional.interpolate(coarse, shape, mode='bicubic')[0]
    row, column = torch.meshgrid(*map(torch.arange, shape), indexing='ij')
    objects = torch.zeros(shape, dtype=torch.long)
    for k in range(1, OBJECTS + 1):
        inside = (row - 8 * k) ** 2 + (column - 11 * k) ** 2 < 36
        objects[inside] = k
    one_hot = torch.nn.functional.one_hot(objects, OBJECTS + 1).permute(2, 0, 1)
    soft = torch.nn.functional.avg_pool2d(one_hot.float()[None], 3, 1, 1)[0]
    frames, labels = [], []
    for t in range(num_context + 1):
        part = slice(t // 2, t // 2 + HEIGHT), slice(t // 2, t // 2 + WIDTH)
        frames.append(
            world[:, part[0], part[1]] + 0.5 * torch.randn(DIM, HEIGHT, WIDTH)
        )
        labels.append((one_hot if t == 0 else soft)[:, part[0], part[1]].float())
    return frames[-1], torch.stack(frames[:-1]), torch.stack(labels[:-1])


def contexts(last: list[int], num_context: int) -> dict[int, list[int]]:
    """Indices of the first frame and of the T last ones, for each T."""
    return {t: [0, *range(max(1, num_context - t), num_context)] for t in last}


def dense(last: list[int], num_context: int) -> Callable[[], dict[int, Tensor]]:
    query, context, labels = scene(num_context)
    row, column = torch.meshgrid(
        torch.arange(HEIGHT), torch.arange(WIDTH), indexing='ij'
    )
    place = torch.stack([row.flatten(), column.flatten()], dim=1)
    near = ((place[:, None] - place).abs().amax(dim=2) <= RADIUS).float()

    def run() -> dict[int, Tensor]:
        return {
            t: dense_step(query, context[chosen], labels[chosen], near)
            for t, chosen in contexts(last, num_context).items()
        }

    return run


def dense_step(query: Tensor, context: Tensor, labels: Tensor, near: Tensor) -> Tensor:
    """Soft labels (classes, h, w) of a frame, with affinities of all pairs of tokens.

    Args:
        query (Tensor): Features (c, h, w) of the frame.
        context (Tensor): Features (n, c, h, w) of the context frames.
        labels (Tensor): Soft labels (n, classes, h, w) of the context frames.
        near (Tensor): 1 for each pair of neighboring tokens, else 0: (h * w, h * w).
    """
    tokens = torch.nn.functional.normalize(query, dim=0).flatten(1).T
    context = torch.nn.functional.normalize(context, dim=1).flatten(2)
    affinity = (tokens @ context / TEMPERATURE).exp() * near  # (n, queries, keys)
    affinity = affinity.transpose(0, 1).flatten(1)
    smallest = affinity.topk(TOP_K, dim=1).values[:, -1:]
    affinity[affinity < smallest] = 0
    affinity /= affinity.sum(dim=1, keepdim=True)
    values = labels.flatten(2).transpose(1, 2).flatten(0, 1)  # (n * keys, classes)
    return (affinity @ values).T.unflatten(1, query.shape[1:])


def local(last: list[int], num_context: int) -> Callable[[], dict[int, Tensor]]:
    query, context, labels = scene(num_context)
    # Context frames were normalized when they came in; the query is normalized in run.
    context = torch.nn.functional.normalize(context, dim=1)
    context = context.permute(0, 2, 3, 1).contiguous()
    labels = labels.flatten(2).transpose(1, 2).contiguous()

    def run() -> dict[int, Tensor]:
        tokens = torch.nn.functional.normalize(query, dim=0)
        tokens = tokens.permute(1, 2, 0).contiguous()
        nearest = local_neighbours(tokens, context, radius=RADIUS)
        return {
            t: average_labels(*nearest, labels, chosen).T.unflatten(1, (HEIGHT, WIDTH))
            for t, chosen in contexts(last, num_context).items()
        }

    return run


RUNS = {'dense': dense, 'mmbam': local}


def peak_memory(name: str, last: list[int], num_context: int) -> int:
    """Bytes by which a step lets the memory of a fresh process grow at its peak."""
    torch.set_num_threads(1)
    RUNS[name]([1], 2)()  # libraries make their buffers at first use
    run = RUNS[name](last, num_context)
    return peak_growth(run)


def main() -> None:
    args = parser(__doc__, last=28, repeats=3).parse_args()
    torch.set_num_threads(1)

    print(
        f'{HEIGHT} x {WIDTH} tokens of {DIM}, neighborhood {RADIUS}, top-{TOP_K}, '
        f'{OBJECTS} objects, one frame, one thread, float32'
    )
    print(
        f'{"T":<12} {"form":<6} {"time":>8} {"speed":>7} {"memory":>8} {"ratio":>6}  '
        'labels of all pixels'
    )
    for last in ([args.last], [7, 14, 21, 28]):
        num_context = max(last) + 1
        memory = {}
        for name in RUNS:
            with fresh_process() as run:
                memory[name] = run(peak_memory, name, last, num_context)
        runs = {name: make(last, num_context) for name, make in RUNS.items()}
        results = {name: run() for name, run in runs.items()}
        equal = compare(results['dense'], results['mmbam'])
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(args.repeats):
            for name, run in runs.items():
                start = time.process_time()
                run()
                times[name].append(time.process_time() - start)
        seconds = {name: statistics.median(times[name]) for name in runs}
        for name in runs:
            speed = seconds['dense'] / seconds[name]
            print(
                f'{",".join(map(str, last)):<12} {name:<6} {seconds[name] * 1e3:>5.0f} '
                f'ms {speed:>5.1f} x {memory[name] / 2**20:>5.0f} MB '
                f'{memory[name] / memory["dense"]:>6.2f}  '
                f'{equal if name == "mmbam" else ""}'
            )
        if speed < TARGET:
            sys.exit(f'{speed:.1f} x is below the target of {TARGET} x.')


def compare(expected: dict[int, Tensor], got: dict[int, Tensor]) -> str:
    """Assert that the labels are the same, and say how many there are."""
    pixels, size = 0, (HEIGHT * PATCH, WIDTH * PATCH)
    for t, soft in expected.items():
        labels = hard_labels(soft, size)
        assert len(labels.unique()) == OBJECTS + 1, 'an object got lost'
        assert torch.equal(labels, hard_labels(got[t], size)), f'T = {t}: other labels'
        pixels += labels.numel()
    return f'equal ({pixels} pixels)'


if __name__ == '__main__':
    main()
