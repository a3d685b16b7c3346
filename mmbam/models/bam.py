"""The algorithm: which views go where."""

from __future__ import annotations

import torch
from mmengine.logging import MessageHub
from mmpretrain.models.selfsup import BaseSelfSupervisor, MoCoV3ViT
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError

from .backbones.grad_checkpointing import checkpoint_blocks
from .latents import embed_views
from .teacher import EMATeacher


@MODELS.register_module()
class BAM(BaseSelfSupervisor):
    """Balanced self-Attention Matching.

    `Unsupervised Representation Learning by Balanced Self Attention Matching
    <https://arxiv.org/abs/2408.02014>`_ (ECCV 2024). The first views that the pipeline
    makes are the targets, which the loss counts by ``num_target_views``; any number of
    further views, smaller ones in general, may follow.

    Args:
        backbone (dict): f, a backbone of mmpretrain or timm.
        neck (dict): g, the projector, :class:`BAMNeck` in general.
        head (dict): :class:`BAMHead` with the loss.
        teacher (dict, optional): :class:`EMATeacher` or :class:`FrozenTeacher`.
            Defaults to None: the student's own latents are the targets.
        grad_checkpointing (bool): Keep only the inputs of the student's blocks and
            compute the rest again in the backward pass: less memory, more time.
            Defaults to False.
        channels_last (bool): Keep the channels of a pixel side by side in memory, which
            is faster for convolutional backbones. The same seed then draws other
            initial weights. Defaults to False.
        data_preprocessor (dict, optional): Defaults to mmpretrain's
            ``SelfSupDataPreprocessor``.
        init_cfg (dict, optional): Defaults to None.
    """

    def __init__(
        self,
        backbone: dict,
        neck: dict,
        head: dict,
        teacher: dict | nn.Module | None = None,
        grad_checkpointing: bool = False,
        channels_last: bool = False,
        data_preprocessor: dict | nn.Module | None = None,
        init_cfg: dict | None = None,
    ) -> None:
        super().__init__(
            backbone=backbone,
            neck=neck,
            head=head,
            data_preprocessor=data_preprocessor,
            init_cfg=init_cfg,
        )
        if isinstance(self.backbone, MoCoV3ViT):
            # mmpretrain freezes the sine-cosine positions when it initialises weights,
            # which is after a distributed wrapper has counted what gets gradients.
            self.backbone.pos_embed.requires_grad_(False)
        self.teacher = MODELS.build(teacher) if isinstance(teacher, dict) else teacher
        if self.teacher is not None:
            self.teacher.start(self.backbone, self.neck)
        if grad_checkpointing:
            checkpoint_blocks(self.backbone)
        if channels_last:
            self.to(memory_format=torch.channels_last)  # what weights have, maps get

    def init_weights(self) -> None:
        """Initialise the student, and make a moving average equal to it."""
        super().init_weights()
        self.init_teacher()

    def init_teacher(self) -> None:
        """Give a moving average the student's present weights."""
        if self.teacher is not None:
            self.teacher.copy_from(self.backbone, self.neck)

    @property
    def target_backbone(self) -> nn.Module:
        """The backbone to evaluate: the moving average if any, else the student."""
        if isinstance(self.teacher, EMATeacher):
            return self.teacher.backbone
        return self.backbone

    def loss(
        self, inputs: list[Tensor], data_samples: list[DataSample] | None = None
    ) -> dict[str, Tensor]:
        """One step of Algorithm 1.

        Args:
            inputs (list[Tensor]): The views, targets first, each of shape (n, c, h, w).
            data_samples (list[DataSample], optional): Not used.

        Returns:
            dict[str, Tensor]: The loss, and the entropies of A and B.
        """
        loss_module = self.head.loss_module
        if len(inputs) != loss_module.num_views:
            raise InputError(
                f'The pipeline makes {len(inputs)} views of an image, but '
                f'model.head.loss.num_views is {loss_module.num_views}.'
            )
        z_target = None
        if self.teacher is not None:
            self._update_teacher()
            z_target = self.teacher(inputs[: loss_module.num_teacher_views])
        z = embed_views(self.backbone, self.neck, inputs)
        return self.head.loss(z, z_target)

    @torch.compiler.disable  # reads the message hub
    def _update_teacher(self) -> None:
        if not self.training:
            return
        # Set by the runner. In a loop of one's own without them, the momentum stays.
        hub = MessageHub.get_current_instance()
        max_iters = hub.get_info('max_iters', None)
        progress = hub.get_info('iter', 0) / max_iters if max_iters else 0.0
        self.teacher.update(self.backbone, self.neck, progress)
