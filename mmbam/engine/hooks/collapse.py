"""When a run is dead, what to say about it, and the last checkpoint before."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mmengine.dist import is_main_process
from mmengine.runner import Runner

# Iterations between looks at the signs, and iterations that a sign must last.
LOOK_EVERY = 10
PATIENCE = 50
# A dead run stops after this share of its iterations, within these bounds.
STOP_SHARE, STOP_MIN, STOP_MAX = 0.05, 100, 1000
# Nats by which a distribution must be sharper than the uniform one to say anything.
UNIFORM = 1e-3
# B must be sharper than A by this many nats, or by as much as A itself is sharp.
GAP = 0.05
# Latents: mean similarity of different images, and what positive pairs have more.
CONSTANT, ALIKE = 0.99, 0.005


@dataclass
class Signs:
    """Health signs of one iteration, over all ranks.

    Sharpness is the entropy of the uniform distribution minus that of a row, in nats.

    Args:
        sharpness_a (float, optional): Mean sharpness of A's rows.
        sharpness_b (float, optional): Mean sharpness of B's rows.
        gap (float, optional): Entropy of A minus that of B. All three are None for
            methods without A and B, or if targets do not come from the network itself.
        positive (float, optional): Mean similarity of the latents of two views of one
            image.
        other (float, optional): Mean similarity of the latents of different images.
            Both count only without the entropies, and are None until the warm-up is
            over.
    """

    sharpness_a: float | None = None
    sharpness_b: float | None = None
    gap: float | None = None
    positive: float | None = None
    other: float | None = None


class CollapseAlarm:
    """Decides from the health signs of a run whether it is dead.

    A run is dead when its targets teach nothing: B is uniform, or B is no sharper than
    the A that learns from it. Neither is true of a random network, whose B is sharper
    than its A because tau_b is below tau, so no grace is needed at the start. The loss
    does not tell: in healthy tiny ResNets without a teacher it was still above that of
    uniform attention after 100 iterations (``benchmarks/alarm.py``).

    A sign must last for ``PATIENCE`` iterations. The alarm is repeated each time that
    it has lasted twice as long, and the run should stop after 5 % of its iterations,
    but not before 100 and not after 1000.

    Args:
        max_iters (int): Number of iterations of the whole run.
    """

    SIGNS = {
        'uniform': (
            'targets say nothing: the balanced attention B is the same for all images'
        ),
        'empty': (
            'targets are empty: the balanced attention B is no sharper than the '
            'attention A that learns from it'
        ),
        'constant': 'features are constant: different images are as good as equal',
        'alike': (
            'features say nothing: views of one image are no more alike than those of '
            'different images'
        ),
    }

    def __init__(self, max_iters: int) -> None:
        self.stop_after = min(max(int(STOP_SHARE * max_iters), STOP_MIN), STOP_MAX)
        self.sign: str | None = None
        self.since = self.lasted = 0
        self._next = PATIENCE

    def check(self, iteration: int, signs: Signs) -> bool:
        """Look at an iteration's signs; tell whether an alarm is due."""
        found = find_sign(signs)
        if found is None or self.sign is None:
            self.since, self._next = iteration, PATIENCE
        self.sign, self.lasted = found, iteration - self.since
        due = self.lasted >= self._next
        if due:
            self._next = 2 * self.lasted
        return due

    @property
    def is_final(self) -> bool:
        """Whether the state has lasted for so long that the run should stop."""
        return self.lasted >= self.stop_after

    def describe(self, tau_b: float | None, lr: float, images: int) -> str:
        """Say which sign is there, since when, and what usually helps."""
        assert self.sign is not None
        helps = [
            f'a lower learning rate (now {lr:.3g}) or a longer warm-up',
            f'a larger batch (now {images} images)',
        ]
        if tau_b is not None:
            helps.insert(
                0,
                f'a lower tau_b (now {tau_b:.3g}; below 0.075 for ResNet and 0.1 for '
                'ViT) with balancing on',
            )
        return (
            f'The run is dead: {self.SIGNS[self.sign]}, since iteration {self.since}. '
            f'What usually helps: {"; ".join(helps)}.'
        )


def health(signs: Signs, lead: float) -> str:
    """Say in words what the curves of a run mean at the moment.

    ``lead`` is the nats by which the loss is below that of an A that says the same of
    all images. The run is ``'healthy'``; ``'not learning yet'``, as at the start of
    every run; or has ``'no signal'``, which raises the alarm if it lasts.
    """
    if find_sign(signs) is not None:
        return 'no signal'
    return 'healthy' if lead > 0 else 'not learning yet'


def find_sign(signs: Signs) -> str | None:
    """The sign of a dead run (a key of ``CollapseAlarm.SIGNS``) that is there, if any.

    A value that is not a number is no sign here: a loss that is not finite stops the
    run by itself.
    """
    a, b, gap = signs.sharpness_a, signs.sharpness_b, signs.gap
    if a is not None and b is not None and gap is not None:
        if b < UNIFORM:
            return 'uniform'
        # Relative as well: while both are nearly uniform, a small lead of B grows.
        return 'empty' if gap < min(GAP, a) else None
    positive, other = signs.positive, signs.other
    if positive is None or other is None or math.isnan(other):
        return None
    if other > CONSTANT:
        return 'constant'
    return 'alike' if positive - other < ALIKE else None


class HealthyCheckpoint:
    """Knows the last checkpoint that was saved while all was well, and keeps it.

    Keeping means a second name, ``healthy_*.pth``, in the same folder: a hard link,
    which takes no space, or a copy where there are none.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self.kept: Path | None = None

    def note(self, runner: Runner) -> None:
        """All is well: what has been saved until now is healthy."""
        last = runner.message_hub.get_info('last_ckpt', None)
        if last and Path(last).is_file():
            self.path = Path(last)
        if self.kept is not None:
            if is_main_process():
                self.kept.unlink(missing_ok=True)
            self.kept = None

    def keep(self) -> None:
        """Something is wrong: give the last healthy checkpoint its second name."""
        if self.kept is not None or self.path is None or not self.path.is_file():
            return
        self.kept = self.path.with_name(f'healthy_{self.path.name}')
        if is_main_process() and not self.kept.exists():
            try:
                os.link(self.path, self.kept)
            except OSError:
                shutil.copyfile(self.path, self.kept)

    def describe(self) -> str:
        """A sentence that names it."""
        if self.kept is None:
            return 'No checkpoint was saved while the run was healthy.'
        return f'The last healthy checkpoint is {self.kept}.'
