"""The algorithm: which views go through which network (paper, Algorithm 1)."""

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
    <https://arxiv.org/abs/2408.02014>`_ (ECCV 2024). The first ``num_target_views``
    views of the pipeline (an argument of the loss) are the targets. Any number of
    further views, usually smaller crops, may follow.

    Args:
        backbone (dict): Network f, a backbone of mmpretrain or timm.
        neck (dict): Projector g, usually :class:`BAMNeck`.
        head (dict): :class:`BAMHead` with the loss.
        teacher (dict, optional): :class:`EMATeacher` or :class:`FrozenTeacher`.
            Defaults to None: the student's own latents are the targets.
        grad_checkpointing (bool): Whether to store only the inputs of the student's
            blocks and recompute the rest in the backward pass, which saves memory and
            costs time. Defaults to False.
        channels_last (bool): Whether to use torch's channels-last memory format, which
            is faster for convolutional backbones. The same seed then draws other
            initial weights. Defaults to False.
        data_preprocessor (dict, optional): Module that normalises the views. Defaults
            to None, mmpretrain's ``SelfSupDataPreprocessor``.
        init_cfg (dict, optional): Initialisation of the weights. Defaults to None.
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
            # mmpretrain freezes the sine-cosine positions only in init_weights, after
            # a distributed wrapper has listed the weights that need gradients.
            self.backbone.pos_embed.requires_grad_(False)
        self.teacher = MODELS.build(teacher) if isinstance(teacher, dict) else teacher
        if self.teacher is not None:
            self.teacher.start(self.backbone, self.neck)
        if grad_checkpointing:
            checkpoint_blocks(self.backbone)
        if channels_last:
            # Activations follow the memory format of the weights.
            self.to(memory_format=torch.channels_last)

    def init_weights(self) -> None:
        """Initialise the student, and copy its weights to a moving average."""
        super().init_weights()
        self.init_teacher()

    def init_teacher(self) -> None:
        """Copy the student's present weights to a moving average."""
        if self.teacher is not None:
            self.teacher.copy_from(self.backbone, self.neck)

    @property
    def target_backbone(self) -> nn.Module:
        """Backbone to evaluate: the moving average if there is one, or the student."""
        if isinstance(self.teacher, EMATeacher):
            return self.teacher.backbone
        return self.backbone

    def loss(
        self, inputs: list[Tensor], data_samples: list[DataSample] | None = None
    ) -> dict[str, Tensor]:
        """Compute the loss of a batch, as in Algorithm 1.

        Args:
            inputs (list[Tensor]): Views of the images, targets first, each of shape
                (n, c, h, w).
            data_samples (list[DataSample], optional): Not used.

        Returns:
            dict[str, Tensor]: The loss, and the entropies of A and B.
        """
        views, loss = inputs, self.head.loss_module
        if len(views) != loss.num_views:
            raise InputError(
                f'The pipeline makes {len(views)} views of an image, but '
                f'model.head.loss.num_views is {loss.num_views}.'
            )
        if self.teacher is None:
            z_target = None  # the targets are rows of z
        else:
            if self.training:
                self._update_teacher()
            z_target = self.teacher(views[: loss.num_teacher_views])
        z = embed_views(self.backbone, self.neck, views)  # z = g(f(x))
        return self.head.loss(z, z_target)

    @torch.compiler.disable  # reads the message hub
    def _update_teacher(self) -> None:
        # The runner sets both values. Without it, the momentum stays at its start.
        hub = MessageHub.get_current_instance()
        max_iters = hub.get_info('max_iters', None)
        progress = hub.get_info('iter', 0) / max_iters if max_iters else 0.0
        assert self.teacher is not None
        self.teacher.update(self.backbone, self.neck, progress)
