"""The config of BAM in a recipe."""

from __future__ import annotations

from . import numbers
from .networks import Network
from .views import PREPROCESSOR


def model_config(
    network: Network,
    widths: tuple[int, int, int],
    act: str,
    norm: dict | None,
    num_views: int,
    teacher: dict | None,
) -> dict:
    """Write the config of the whole model.

    Args:
        network (Network): The backbone.
        widths (tuple[int, int, int]): Widths of the projector: into it, within, and out
            of it.
        act (str): Activation of the projector.
        norm (dict, optional): Norm of the projector.
        num_views (int): Number of views of an image.
        teacher (dict, optional): Config of the teacher.
    """
    return dict(
        type='mmbam.BAM',
        backbone=network.config,
        neck=dict(
            type='mmbam.BAMNeck',
            in_channels=widths[0],
            hid_channels=widths[1],
            out_channels=widths[2],
            num_layers=3,
            act_cfg=dict(type=act),
            norm_cfg=norm,
        ),
        head=dict(
            type='mmbam.BAMHead',
            loss=dict(
                type='mmbam.BAMLoss',
                num_views=num_views,
                num_target_views=2,
                tau=numbers.TAU,
                tau_b=numbers.TAU_B,
                sinkhorn_iters=3,
            ),
        ),
        teacher=teacher,
        data_preprocessor=PREPROCESSOR,
        channels_last=network.channels_last,
    )
