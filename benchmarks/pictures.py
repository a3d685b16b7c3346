"""The pictures of docs/: ``python benchmarks/pictures.py [--out docs/images]``.

- ``idea.png``: S, A and B of 16 patches of the made world, two views each, by the four
  functions of the loss. Patches at a quarter of their resolution stand for latents, so
  that nothing has to be trained.
- ``runs.png``: loss and entropies of three runs of a tiny ViT: the recipe, tau_b too
  high, learning rate too high.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.alarm import Views, train  # noqa: E402
from benchmarks.common import parser  # noqa: E402
from mmbam.demo.world.patches import draw_patch  # noqa: E402
from mmbam.demo.world.photographs import class_names  # noqa: E402
from mmbam.models.losses.functional import (  # noqa: E402
    attention,
    balance,
    similarity,
)
from mmbam.visualization.figures import save_figure  # noqa: E402

SIZE, CLASSES, EACH = 32, 4, 4
RUNS = {
    'healthy: the recipe': {},
    'collapsed: tau_b 0.15 instead of 0.03': dict(tau_b=0.15),
    'targets no sharper: tau_b 0.1': dict(tau_b=0.1),
}


def make_views() -> list[np.ndarray]:
    """Two crops of each patch, view by view; patches of a class stand together."""
    rng = np.random.default_rng(1)
    patches = [
        draw_patch(name, 'train', SIZE, rng)
        for name in class_names(16)[:CLASSES]
        for _ in range(EACH)
    ]
    views = []
    for corner in ((0, 0), (2, 2)):
        for patch in patches:
            y, x = corner
            part = patch[y : y + SIZE - 2, x : x + SIZE - 2]
            views.append(cv2.resize(part, (SIZE, SIZE)))
    return views


def draw_idea(path: Path) -> None:
    """S, A and B side by side, with the images at their edges."""
    views = make_views()
    n = len(views) // 2
    small = [cv2.resize(view, (SIZE // 4,) * 2, interpolation=3) for view in views]
    z = torch.from_numpy(np.stack(small)).flatten(1).float()
    Z = F.normalize(z - z.mean(dim=1, keepdim=True), dim=-1)
    image = torch.arange(2 * n) % n
    positive = image[:, None] == image
    S = similarity(Z, Z)
    masked = similarity(Z, Z, positive)
    A, B = attention(masked, 0.1), balance(masked, 0.05)
    figure = Figure(figsize=(13, 5), layout='constrained')
    axes = figure.subplots(1, 3)
    shown = (
        (S, 'S: cosine similarities', 'coolwarm', -1, 1),
        (A, 'A: what each view attends to (tau 0.1)', 'magma', 0, None),
        (B, 'B: the same, balanced (tau_b 0.05)', 'magma', 0, None),
    )
    top = float(torch.quantile(B, 0.995))
    strip = np.concatenate(views, axis=1)
    for axis, (matrix, title, colors, low, high) in zip(axes, shown):
        axis.imshow(matrix, cmap=colors, vmin=low, vmax=top if high is None else high)
        axis.set(title=title, xlim=(-3, 2 * n - 0.5), ylim=(2 * n - 0.5, -3))
        axis.imshow(strip, cmap='gray', extent=(-0.5, 2 * n - 0.5, -0.7, -2.7))
        axis.imshow(
            np.concatenate(views, axis=0),
            cmap='gray',
            extent=(-2.7, -0.7, 2 * n - 0.5, -0.5),
        )
        axis.set(xlim=(-3, 2 * n - 0.5), ylim=(2 * n - 0.5, -3), aspect='equal')
        axis.set_axis_off()
        if matrix is not S:
            sums = matrix.sum(dim=0)
            axis.text(
                n,
                2 * n + 0.6,
                f'sums of columns: {sums.min():.2f} to {sums.max():.2f}',
                ha='center',
                va='top',
            )
    save_figure(figure, path)


def draw_runs(path: Path, iterations: int) -> None:
    """Loss and entropies of healthy and sick runs, and where the alarm was raised."""
    from mmengine.config import Config

    cfg = Config.fromfile(ROOT / 'configs/tiny/bam_vit_32px.py')
    data = Views(cfg.train_pipeline[2]['views'][:2])
    figure = Figure(figsize=(13, 6), layout='constrained')
    rows = figure.subplots(2, len(RUNS), sharex=True, sharey='row')
    for column, (title, changes) in zip(rows.T, RUNS.items()):
        run = train('vit', True, 0, iterations, data, **changes)
        steps = range(1, len(run.losses) + 1)
        column[0].plot(steps, run.losses)
        column[0].set(title=title, ylabel='loss, from uniform (nats)')
        for part, label in (('a', 'A'), ('b', 'B')):
            sharpness = [getattr(signs, f'sharpness_{part}') for signs in run.curve]
            column[1].plot(steps, [-value for value in sharpness], label=label)
        column[1].set(xlabel='iteration', ylabel='entropy, from uniform (nats)')
        column[1].legend()
        for axis in column:
            for number in run.alarms:
                axis.axvline(number, color='tab:red', ls=':')
            axis.axhline(0, color='gray', lw=0.8)
            axis.grid(alpha=0.3)
        print(f'{title}: alarms at {run.alarms or "no iteration"}', flush=True)
    save_figure(figure, path)


def main() -> None:
    options = parser(__doc__, iterations=200)
    options.add_argument(
        '--out', type=Path, default=ROOT / 'docs/images', help='folder for the pictures'
    )
    args = options.parse_args()
    torch.set_num_threads(1)
    draw_idea(args.out / 'idea.png')
    draw_runs(args.out / 'runs.png', args.iterations)


if __name__ == '__main__':
    main()
