"""The numbers of the recipes, and where each comes from.

"paper" is arXiv:2408.02014; "measured" is a run described in docs/small_data.md or
docs/comparison.md, on a small network.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Runs of fewer steps get SHORT, longer ones LONG. The paper's have 94,000; those that
#: were measured here have at most 1,700. The border between them is a guess.
LONG_FROM = 10_000

#: Images in a batch unless one is given. BAM compares the images of a batch with each
#: other, so more say more; 128 learned less than 256 (measured).
BATCH_SIZE = 256
#: Small sets get smaller batches, for at least this many steps in an epoch,
STEPS_PER_EPOCH = 8
#: but no smaller than this, if there are as many images: fewer say too little.
SMALLEST_BATCH = 64

#: Views of photographs are as large as in the paper.
LARGEST_VIEW = 224
#: A local view is to a global one as 96 pixels are to 224 (paper).
LOCAL_SHARE = 96 / 224
#: Up to this size, views are of "small images".
SMALL_VIEW = 64
#: A ViT with fewer patches on a side sees next to nothing.
LEAST_PATCHES = 4
GLOBAL_AREA = (0.25, 1.0)  # paper
LOCAL_AREA = (0.05, 0.25)  # paper
SMALL_LOCAL_AREA = (0.15, 0.4)  # the paper's is next to nothing of a small image
LOCAL_VIEWS = 6  # paper
#: Standard deviation of the blur at 224 pixels; smaller views get less (paper).
SIGMA = (0.1, 2.0)

#: Shares of the run before the first boxes of ContrastiveCrop, and between them:
#: 40 and 20 of 300 epochs in the paper; configs/tiny has a half and a quarter.
LOCALIZE_LONG = (40 / 300, 20 / 300)
LOCALIZE_SHORT = (1 / 2, 1 / 4)

#: Momentum of the teacher (paper). It must not average over more than a tenth of the
#: run, or the teacher stays what it was at random.
MOMENTUM = 0.995
MOMENTUM_SHARE = 0.1

#: Continuing from weights takes a tenth of the learning rate (vit-b16_adapt_100e.py).
INIT_LR = 0.1

#: Images whose sizes are looked at.
SAMPLED = 200


@dataclass(frozen=True)
class Schedule:
    """An optimizer and the course of its learning rate.

    Args:
        optimizer (str): ``'AdamW'`` or ``'LARS'``.
        lr (float): Peak learning rate at ``batch_size``.
        batch_size (int): Batch that ``lr`` is for.
        power (float): Power of the batch with which the learning rate grows.
        warmup (float): Share of the run that is warm-up.
        weight_decay (float): At the start of the run.
        end_decay (float): Factor that it has reached at the end of the run.
        clip (float, optional): Largest norm of the gradients.
        source (str): Where the numbers come from.
    """

    optimizer: str
    lr: float
    batch_size: int
    power: float
    warmup: float
    weight_decay: float
    end_decay: float
    clip: float | None
    source: str


#: ViT, CAFormer and networks of timm (paper, App. D, table a).
LONG = Schedule('AdamW', 0.003, 4096, 1.0, 40 / 300, 0.04, 10.0, 0.3, 'paper')
#: ResNet (paper, App. D, table a). LARS collapses a ViT.
LONG_RESNET = Schedule('LARS', 4.8, 4096, 1.0, 10 / 300, 1e-6, 1.0, None, 'paper')
#: Runs of a few hundred or thousand steps. The rate grows with the square root of small
#: batches: 0.005 at 256 and 0.003 at 128 were the best that were measured.
SHORT = Schedule('AdamW', 0.005, 256, 0.5, 0.1, 0.04, 1.0, 1.0, 'small data')
#: SHORT was measured on networks whose embedding has this width; the rate of wider ones
#: is lower in proportion.
SHORT_WIDTH = 64
#: Widths of the projector's layers: the paper's, and the least of a short run
#: (measured).
LONG_PROJECTOR = 4096
SHORT_PROJECTOR = 512

TAU, TAU_B = 0.1, 0.05  # paper
#: Where the network is its own target in a short run. With the paper's, one
#: of three seeds drifted towards uniform targets (measured).
SHORT_TAU_B = 0.03
