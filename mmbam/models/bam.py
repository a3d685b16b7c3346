"""The algorithm: which views go through which network (paper, Algorithm 1, App. C)."""

from __future__ import annotations

from functools import partial

import torch
from mmengine.dist import get_world_size
from mmengine.logging import MessageHub
from mmpretrain.models.selfsup import BaseSelfSupervisor, MoCoV3ViT
from mmpretrain.structures import DataSample
from torch import Tensor, nn

from mmbam.registry import MODELS
from mmbam.utils.errors import InputError

from .backbones.grad_checkpointing import checkpoint_blocks
from .latents import embed_views
from .micro_batches import MicroBatches, WaitingViews, tensors_of
from .teacher import EMATeacher


@MODELS.register_module()
class BAM(BaseSelfSupervisor):
    """Balanced self-Attention Matching.

    `Unsupervised Representation Learning by Balanced Self Attention Matching
    <https://arxiv.org/abs/2408.02014>`_ (ECCV 2024). The pipeline's first
    ``num_target_views`` views (set in the loss) are the targets. Any number of further
    views, usually smaller crops, may follow.

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
        micro_batch_size (int | str, optional): Number of images that the networks see
            at a time, with all views of one size, while the loss sees the whole batch.
            The result is that of the whole batch, in the memory of a micro-batch; the
            student runs twice. ``'auto'`` halves the batch until a step fits into
            memory. Defaults to None: all images at once.
        micro_batch_norm (str, optional): ``'per_micro_batch'`` allows batch norm with
            ``micro_batch_size``, with the statistics of each micro-batch, so that the
            result differs from that of the whole batch. Defaults to None: batch norm is
            refused.
        data_preprocessor (dict, optional): Module that normalizes the views. Defaults
            to None, mmpretrain's ``SelfSupDataPreprocessor``.
        init_cfg (dict, optional): Initialization of the weights. Defaults to None.
    """

    def __init__(
        self,
        backbone: dict,
        neck: dict,
        head: dict,
        teacher: dict | nn.Module | None = None,
        grad_checkpointing: bool = False,
        channels_last: bool = False,
        micro_batch_size: int | str | None = None,
        micro_batch_norm: str | None = None,
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
            self.teacher.start(self.backbone, self.neck)  # copies, so before the next
        if grad_checkpointing:
            checkpoint_blocks(self.backbone)
        if channels_last:
            # Activations follow the memory format of the weights.
            self.to(memory_format=torch.channels_last)
        self.micro_batches = None
        if micro_batch_size is not None:
            networks = dict(backbone=self.backbone, neck=self.neck)
            if self.teacher is not None:
                networks.update(teacher=self.teacher)
            self.micro_batches = MicroBatches(
                micro_batch_size, self.data_preprocessor, networks, micro_batch_norm
            )
        self._followed_version = -1  # of the student, see _update_teacher

    def init_weights(self) -> None:
        """Initialize the student, and copy its weights to a moving average."""
        super().init_weights()
        self.init_teacher()

    def init_teacher(self) -> None:
        """Copy the student's present weights to a moving average."""
        if self.teacher is not None:
            self.teacher.copy_from(self.backbone, self.neck)

    @property
    def target_backbone(self) -> nn.Module:
        """Backbone to evaluate: the moving average of the student if there is one, or
        else the student, also where a frozen teacher gives the targets."""
        if isinstance(self.teacher, EMATeacher):
            return self.teacher.backbone
        return self.backbone

    def loss(
        self,
        inputs: list[Tensor] | WaitingViews,
        data_samples: list[DataSample] | None = None,
    ) -> dict[str, Tensor]:
        """Compute the loss of a batch: Algorithm 1 for any number of views, with the
        teacher of App. C.

        Args:
            inputs (list[Tensor] | WaitingViews): Views of the images, targets first,
                each of shape (n, c, h, w).
            data_samples (list[DataSample], optional): Not used.

        Returns:
            dict[str, Tensor]: The loss, and the entropies of A and B.
        """
        views, num_views = inputs, self.head.loss_module.num_views
        if len(views) != num_views:
            raise InputError(
                f'The pipeline makes {len(views)} views of an image, but '
                f'model.head.loss.num_views is {num_views}.'
            )
        # Checked before the networks run: batch norm's own error would not help.
        if self.training and len(tensors_of(views)[0]) * get_world_size() < 2:
            raise InputError(
                'A batch must hold at least 2 images, but got 1: raise '
                'train_dataloader.batch_size.'
            )
        if self.training and self.teacher is not None:
            self._update_teacher()
        if self.training and self.micro_batches is not None:
            self.micro_batches.rehearse(
                views, self._latents, lambda *z: self.head.loss(*z)['loss']
            )
        return self.head.loss(*self._latents(views))

    def _latents(
        self, views: list[Tensor] | WaitingViews
    ) -> tuple[Tensor, Tensor | None]:
        """The student's latents of all views, and the teacher's of those it sees."""
        run = self.micro_batches or (lambda embed, views: embed(views))
        z_target = None  # without a teacher, the targets are rows of z
        if self.teacher is not None:
            num_teacher_views = self.head.loss_module.num_teacher_views
            with torch.no_grad():  # so that micro-batches are not computed twice
                z_target = run(self.teacher, views[:num_teacher_views])
        z = run(partial(embed_views, self.backbone, self.neck), views)  # z = g(f(x))
        return z, z_target

    @torch.compiler.disable  # reads the message hub
    def _update_teacher(self) -> None:
        student = [*self.backbone.parameters(), *self.neck.parameters()]
        # torch counts changes of a tensor in place: each step of the optimizer raises
        # the sum. Gradients alone do not tell: some loops clear them only after this.
        version = sum(p._version for p in student)
        accumulating = any(p.grad is not None for p in student)
        if accumulating and version == self._followed_version:
            return  # no step since the last update (accumulative_counts)
        self._followed_version = version
        # The runner sets both values. Without it, the momentum stays at its start.
        hub = MessageHub.get_current_instance()
        max_iters = hub.get_info('max_iters', None)
        progress = hub.get_info('iter', 0) / max_iters if max_iters else 0.0
        assert self.teacher is not None
        self.teacher.update(self.backbone, self.neck, progress)
