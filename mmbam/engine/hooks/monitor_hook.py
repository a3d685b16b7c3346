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
    """Log how the latents and gradients of a run are doing, and stop a collapsed one.

    Every ``interval`` iterations it logs, beside the loss and the entropies that BAM
    itself logs:

    - ``monitor/rankme``: effective rank of the first view's latents (RankMe), and
      ``monitor/backbone_rankme``: that of its embeddings, before the projector, where
      no batch norm can spread out what has shrunk;
    - ``monitor/positive_similarity`` and ``monitor/other_similarity``: mean cosine
      similarity of two views of one image, and of different images;
    - ``grad_norm``: norm of all gradients before clipping.

    All are of the batch of all ranks. An alarm follows when the loss or the gradients
    are not finite, when latents have become constant or uniform, when the loss is not
    below that of attending to all images alike, or when B is no sharper than A.

    The limits were set on tiny networks in batches of 32 images, which
    tests/test_engine/test_monitor_hook.py trains again. Healthy runs, three of each
    recipe, had a similarity of other pairs of 0.91 at most, B below A by 0.09 nats at
    least, and a loss below that of uniform attention. Where training went wrong, other
    pairs were above 0.98, or B less than 0.04 below A, or the loss was not below.

    Args:
        interval (int): Iterations from one check to the next. Defaults to 50.
        on_collapse (str): ``'stop'`` saves a checkpoint ``collapsed_iter_N.pth`` and
            ends the run with an error; ``'warn'`` saves it too, logs the alarm once and
            goes on. Defaults to ``'stop'``.
        patience (int): Checks in a row at which a sign must be seen. Defaults to 10.
        grace (int): Iterations during which features may still be those of a random
            network, which are nearly constant. Defaults to 2000.
        max_similarity (float): Features count as constant above this mean similarity of
            other pairs. Defaults to 0.99.
        min_gap (float): Features count as uniform if positive pairs are not more
            similar than other pairs by at least this. Defaults to 0.005.
        min_sharpness (float): Targets count as empty if the entropy of B is not below
            that of A by at least this, in nats. Not looked at with a frozen teacher,
            whose targets may be as flat as they like. Defaults to 0.05.
        samples (int): Latents that the effective rank is taken of, at most. Defaults to
            1024.
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
                    f'{name} of MonitorHook must be at least 1, but got {value}.'
                )
        if on_collapse not in ('stop', 'warn'):
            raise InputError(
                "on_collapse of MonitorHook must be 'stop' or 'warn', but got "
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
        loss, entropy_a, entropy_b, images = _over_ranks(outputs, num_images)
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
            sharpness=entropy_a - entropy_b if self._own_targets else None,
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
                'MonitorHook needs a model whose head.loss_module is called with the '
                'latents of num_views views, as that of BAM, but '
                f'{type(model).__name__} has none.'
            )
        return module


def _over_ranks(
    outputs: Mapping[str, Tensor], num_images: int
) -> tuple[float, float, float, int]:
    """Loss, entropies of A and B, and number of images of all ranks' batch.

    The loss is not finite if that of one rank is not.
    """
    entropies = [outputs[name].item() for name in ('entropy_a', 'entropy_b')]
    # The loss is a mean over ranks, whatever each holds; entropies are means over rows.
    total = torch.tensor(
        [outputs['loss'].item(), *(num_images * e for e in entropies), num_images],
        dtype=torch.float64,
    )
    all_reduce(total)
    loss, entropy_a, entropy_b, images = total.tolist()
    return loss / get_world_size(), entropy_a / images, entropy_b / images, int(images)


def _uniform_loss(loss_module: nn.Module, images: int) -> float:
    """Cross-entropy of any targets and a row soft-max that is the same everywhere."""
    excluded = loss_module.positive_mask == 'exclude'
    views = loss_module.num_target_views if loss_module.global_norm else 1
    return math.log(views * (images - excluded))
