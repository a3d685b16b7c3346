"""Health signs of a pre-training run, without labels, and an alarm."""

from __future__ import annotations

import math

import torch
from mmengine.dist import all_reduce, get_world_size
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.runner import Runner
from torch import Tensor, nn

from mmbam.evaluation import rankme
from mmbam.evaluation.features import gather_rows
from mmbam.evaluation.similarity import pair_similarities
from mmbam.registry import HOOKS

from .collapse import CollapseAlarm


class TrainingCollapsed(RuntimeError):
    """Raised to end a run that has nothing more to learn."""


@HOOKS.register_module()
class MonitorHook(Hook):
    """Log how the latents and gradients of a run are doing, and stop a collapsed one.

    Every ``interval`` iterations it logs, beside the loss and the entropies that BAM
    itself logs:

    - ``monitor/rankme``: effective rank of the first view's latents (RankMe);
    - ``monitor/positive_similarity`` and ``monitor/other_similarity``: mean cosine
      similarity of two views of one image, and of different images;
    - ``grad_norm``: norm of all gradients before clipping.

    All are of the batch of all ranks. An alarm follows when the loss or the gradients
    are not finite, or when features have become constant or uniform.

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
        samples: int = 1024,
    ) -> None:
        for name, value in dict(
            interval=interval, patience=patience, samples=samples
        ).items():
            if value < 1:
                raise ValueError(
                    f'{name} of MonitorHook must be at least 1, but got {value}.'
                )
        if on_collapse not in ('stop', 'warn'):
            raise ValueError(
                "on_collapse of MonitorHook must be 'stop' or 'warn', but got "
                f'{on_collapse!r}.'
            )
        self.interval = interval
        self.on_collapse = on_collapse
        self.samples = samples
        self.alarm = CollapseAlarm(patience, grace, max_similarity, min_gap)
        self._alarmed = False
        self._watching = False
        self._latents: Tensor | None = None
        self._grad_norm: float | None = None
        self._handles = []

    def before_train(self, runner: Runner) -> None:
        """Listen to the latents that the loss is given, and to the gradients."""
        loss_module = self._loss_module(runner.model)
        self._handles = [loss_module.register_forward_pre_hook(self._keep_latents)]
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
        self._latents = self._grad_norm = None

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None, outputs=None
    ) -> None:
        """Log the signs and look for collapse."""
        if not self._watching or self._latents is None:
            return
        self._watching = False
        latents, self._latents = self._latents, None
        images = torch.tensor([latents.shape[1]])
        all_reduce(images)
        positive, other = pair_similarities(latents)
        rows = torch.cat(gather_rows(latents[0, : self.samples].contiguous()))
        signs = {
            'monitor/rankme': rankme(rows[: self.samples]),
            'monitor/positive_similarity': positive,
            'monitor/other_similarity': other,
        }
        hub = runner.message_hub
        if not self._own_norm and 'train/grad_norm' in hub.log_scalars:
            self._grad_norm = hub.get_scalar('train/grad_norm').current()
        elif self._grad_norm is not None:
            signs['grad_norm'] = self._grad_norm
        hub.update_scalars({f'train/{name}': value for name, value in signs.items()})
        sign = self.alarm.check(
            runner.iter + 1,
            _worst_of_ranks(float(outputs['loss'])),
            self._grad_norm,
            positive,
            other,
        )
        if sign is not None and not self._alarmed:
            self._raise_alarm(runner, sign, int(images))

    def _raise_alarm(self, runner: Runner, sign: str, images: int) -> None:
        self._alarmed = True
        loss_module = self._loss_module(runner.model)
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
        if is_model_wrapper(model):
            model = model.module
        module = getattr(getattr(model, 'head', None), 'loss_module', None)
        if not hasattr(module, 'num_views'):
            raise ValueError(
                'MonitorHook needs a model whose head.loss_module is called with the '
                'latents of num_views views, as that of BAM, but '
                f'{type(model).__name__} has none.'
            )
        return module


def _worst_of_ranks(loss: float) -> float:
    """The mean over ranks, not finite if that of one rank is not."""
    total = torch.tensor([loss if math.isfinite(loss) else math.nan])
    all_reduce(total)
    return total.item() / get_world_size()
