"""Health signs of a pre-training run, without labels, and an alarm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from mmengine.dist import all_reduce, get_world_size
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmbam.evaluation import rankme
from mmbam.evaluation.features import gather_rows
from mmbam.evaluation.similarity import pair_similarities
from mmbam.models.teacher import FrozenTeacher
from mmbam.registry import HOOKS
from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.model import unwrap

from .collapse import CollapseAlarm, Signs


class TrainingCollapsed(ExpectedError, RuntimeError):
    """Ends a run that has nothing more to learn."""


@HOOKS.register_module()
class MonitorHook(Hook):
    """Log health signs of latents and gradients, and stop a run that has collapsed.

    Every ``interval`` iterations it logs, beside the loss and the entropies that BAM
    itself logs:

    - ``monitor/rankme``: effective rank of the first view's latents (RankMe), and
      ``monitor/backbone_rankme``: that of its embeddings before the projector, which no
      batch norm spreads out;
    - ``monitor/positive_similarity`` and ``monitor/other_similarity``: mean cosine
      similarity of two views of one image, and of different images;
    - ``grad_norm``: norm of all gradients before clipping.

    All are of the batch of all ranks. An alarm follows when the loss or the gradients
    are not finite, when latents have become constant or uniform, and with BAM also when
    the loss is not below that of attending to all images alike, or when B is no sharper
    than A. Other methods, such as DINO, are monitored without these last two.

    The limits were set on tiny networks in batches of 32 images, which
    tests/test_engine/test_monitor_hook.py trains again. In healthy runs, three of each
    recipe, other pairs had a similarity of at most 0.91, B was at least 0.09 nats below
    A, and the loss was below that of uniform attention. In failed runs, other pairs
    were above 0.98, or B less than 0.04 below A, or the loss was not below.

    Args:
        interval (int): Number of iterations between checks. Defaults to 50.
        on_collapse (str): ``'stop'`` saves a checkpoint ``collapsed_iter_N.pth`` and
            ends the run with an error; ``'warn'`` saves it too, logs the alarm once and
            goes on. Defaults to ``'stop'``.
        patience (int): Number of checks in a row that must show a sign. Defaults to 10.
        grace (int): Number of first iterations in which features may be nearly
            constant, as those of a random network are. Defaults to 2000.
        max_similarity (float): Mean similarity of other pairs above which features
            count as constant. Defaults to 0.99.
        min_gap (float): Difference between the similarities of positive and of other
            pairs below which features count as uniform. Defaults to 0.005.
        min_sharpness (float): Difference between the entropies of A and B, in nats,
            below which targets count as empty. Not checked with a frozen teacher, whose
            targets may be flat. Defaults to 0.05.
        samples (int): Largest number of latents to compute the effective rank of.
            Defaults to 1024.
    """

    def __init__(
        self,
        interval: int = 50,
        on_collapse: str = 'stop',
        patience: int = 10,
        grace: int = 2000,
        max_similarity: float = 0.99,
        min_gap: float = 0.005,
        min_sharpness: float = 0.05,
        samples: int = 1024,
    ) -> None:
        for name, value in dict(
            interval=interval, patience=patience, samples=samples
        ).items():
            if value < 1:
                raise InputError(
                    f'MonitorHook: {name} must be at least 1, got {value}.'
                )
        if on_collapse not in ('stop', 'warn'):
            raise InputError(
                "MonitorHook: on_collapse must be 'stop' or 'warn', got "
                f'{on_collapse!r}.'
            )
        self.interval = interval
        self.on_collapse = on_collapse
        self.samples = samples
        self.alarm = CollapseAlarm(
            patience, grace, max_similarity, min_gap, min_sharpness
        )
        self._alarmed = False
        self._watching = False
        self._latents: Tensor | None = None
        self._embeddings: Tensor | None = None
        self._grad_norm: float | None = None
        self._handles: list[Any] = []

    def before_train(self, runner: Runner) -> None:
        """Listen to the latents that the loss is given, and to the gradients."""
        model = unwrap(runner.model)
        loss_module = self._loss_module(model)
        self._own_targets = not isinstance(
            getattr(model, 'teacher', None), FrozenTeacher
        )
        self._handles = [
            loss_module.register_forward_pre_hook(self._keep_latents),
            model.neck.register_forward_pre_hook(self._keep_embeddings),
        ]
        # With clipping mmengine measures the norm itself, before it clips.
        self._own_norm = not runner.optim_wrapper.clip_grad_kwargs
        if self._own_norm:
            optimizer = runner.optim_wrapper.optimizer
            self._handles.append(
                optimizer.register_step_pre_hook(self._measure_gradients)
            )

    def after_train(self, runner: Runner) -> None:
        """Stop listening."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def before_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None
    ) -> None:
        """Watch the iterations that are to be checked."""
        self._watching = self.every_n_train_iters(runner, self.interval)
        self._latents = self._embeddings = self._grad_norm = None

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None, outputs=None
    ) -> None:
        """Log the signs and look for collapse."""
        if not self._watching or self._latents is None or self._embeddings is None:
            return
        self._watching = False
        latents, self._latents = self._latents, None
        embeddings, self._embeddings = self._embeddings, None
        num_images = latents.shape[1]
        loss, sharpness, images = _over_ranks(outputs, num_images)
        positive, other = pair_similarities(latents)
        scalars = {
            'monitor/rankme': self._rank(latents[0]),
            'monitor/backbone_rankme': self._rank(embeddings[:num_images]),
            'monitor/positive_similarity': positive,
            'monitor/other_similarity': other,
        }
        hub = runner.message_hub
        if not self._own_norm and 'train/grad_norm' in hub.log_scalars:
            self._grad_norm = hub.get_scalar('train/grad_norm').current()
        elif self._grad_norm is not None:
            scalars['grad_norm'] = self._grad_norm
        hub.update_scalars({f'train/{name}': value for name, value in scalars.items()})
        loss_module = self._loss_module(unwrap(runner.model))
        signs = Signs(
            loss=loss,
            uniform_loss=_uniform_loss(loss_module, images),
            positive=positive,
            other=other,
            sharpness=sharpness if self._own_targets else None,
            grad_norm=self._grad_norm,
        )
        sign = self.alarm.check(runner.iter + 1, signs)
        if sign is not None and not self._alarmed:
            self._raise_alarm(runner, sign, images)

    def _raise_alarm(self, runner: Runner, sign: str, images: int) -> None:
        self._alarmed = True
        loss_module = self._loss_module(unwrap(runner.model))
        message = self.alarm.describe(
            sign,
            getattr(loss_module, 'tau_b', None),
            max(runner.optim_wrapper.get_lr()['lr']),
            images,
        )
        name = f'collapsed_iter_{runner.iter + 1}.pth'
        runner.save_checkpoint(runner.work_dir, name, by_epoch=False)
        message += f' The state of the run is in {name}.'
        runner.logger.error(message)
        if self.on_collapse == 'stop':
            raise TrainingCollapsed(message)

    def _keep_latents(self, module: nn.Module, args: tuple) -> None:
        if self._watching:
            z = args[0].detach()
            self._latents = z.view(module.num_views, -1, z.shape[-1]).float()

    @torch.compiler.disable  # a compiled model would be compiled for either state
    def _keep_embeddings(self, module: nn.Module, args: tuple) -> None:
        # The first views; smaller ones follow in a call of their own.
        if self._watching and self._embeddings is None:
            self._embeddings = args[0].detach().float()

    def _rank(self, features: Tensor) -> float:
        rows = torch.cat(gather_rows(features[: self.samples].contiguous()))
        return rankme(rows[: self.samples])

    def _measure_gradients(self, optimizer, args, kwargs) -> None:
        if self._watching:
            norms = [
                parameter.grad.norm()
                for group in optimizer.param_groups
                for parameter in group['params']
                if parameter.grad is not None
            ]
            self._grad_norm = torch.stack(norms).norm().item()

    @staticmethod
    def _loss_module(model: nn.Module) -> nn.Module:
        module: Any = getattr(getattr(model, 'head', None), 'loss_module', None)
        if not hasattr(module, 'num_views'):
            raise InputError(
                'MonitorHook needs a model whose head.loss_module gets the latents of '
                f'num_views views, as that of BAM, but {type(model).__name__} has none.'
            )
        return module


def _over_ranks(
    outputs: Mapping[str, Tensor], num_images: int
) -> tuple[float, float | None, int]:
    """Loss, entropy of A minus that of B, and images in the batch of all ranks.

    The loss is not finite if that of one rank is not. Models without these entropies
    have None in their place.
    """
    sharpness = None
    if 'entropy_a' in outputs and 'entropy_b' in outputs:
        sharpness = (outputs['entropy_a'] - outputs['entropy_b']).item()
    # The loss is a mean over ranks, whatever each holds; entropies are means over rows.
    total = torch.tensor(
        [outputs['loss'].item(), num_images * (sharpness or 0.0), num_images],
        dtype=torch.float64,
    )
    all_reduce(total)
    loss, sum_of_sharpness, images = total.tolist()
    if sharpness is not None:
        sharpness = sum_of_sharpness / images
    return loss / get_world_size(), sharpness, int(images)


def _uniform_loss(loss_module: nn.Module, images: int) -> float | None:
    """BAM's loss when a row's attention is the same everywhere; None for others."""
    if not hasattr(loss_module, 'positive_mask'):
        return None
    excluded = loss_module.positive_mask == 'exclude'
    views = loss_module.num_target_views if loss_module.global_norm else 1
    return math.log(views * (images - excluded))
