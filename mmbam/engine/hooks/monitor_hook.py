"""Health signs of a pre-training run, without labels, and an alarm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmbam.evaluation.unlabeled import pair_similarities
from mmbam.models.teacher import FrozenTeacher
from mmbam.registry import HOOKS
from mmbam.utils.errors import ExpectedError, InputError
from mmbam.utils.model import unwrap

from .collapse import LOOK_EVERY, CollapseAlarm, HealthyCheckpoint, Signs
from .signs import effective_rank, entropy_signs, over_ranks, uniform_entropies

# Entry of the message hub that lists dict(iter, message); it survives a resume.
ALARMS = 'mmbam_alarms'
# Steps in a row that a loss scaler may skip while it looks for its scale.
MAX_SKIPPED = 32


class TrainingCollapsed(ExpectedError, RuntimeError):
    """Ends a run that has nothing more to learn."""


@HOOKS.register_module()
class MonitorHook(Hook):
    """Log health signs of latents and gradients, and stop a run that is dead.

    Every ``interval`` iterations it logs, beside the loss and the entropies that BAM
    itself logs:

    - ``monitor/rankme``: effective rank of the first view's latents (RankMe), and
      ``monitor/backbone_rankme``: that of its embeddings before the projector, which no
      batch norm spreads out;
    - ``monitor/positive_similarity`` and ``monitor/other_similarity``: mean cosine
      similarity of two views of one image, and of different images;
    - ``monitor/uniform_entropy``: entropy of A, and loss, if it knows nothing (BAM);
    - ``grad_norm``: norm of all gradients before clipping.

    All are of the batch of all ranks.

    Gradients that are not finite end the run in the same iteration, before a
    checkpoint of it can be saved. A loss that is not finite is seen within 10
    iterations, and weights are looked at before every checkpoint. A run whose targets
    teach nothing (:class:`CollapseAlarm`) raises an alarm after 50 iterations, again
    each time that the state has lasted twice as long, and ends after 5 % of its
    iterations, but not before 100 and not after 1000. From the first sign on, the last
    healthy checkpoint has a second name, ``healthy_*.pth``, so that later ones do not
    push it out. Methods without entropies, such as DINO, and those with a frozen
    teacher are judged by the similarities, at every ``interval``-th iteration and only
    after the warm-up of the learning rate.

    Args:
        interval (int): Number of iterations between logs. Defaults to 50.
        on_collapse (str): ``'stop'`` ends a dead run with an error; ``'warn'`` logs
            alarms and goes on. Defaults to ``'stop'``.
    """

    def __init__(self, interval: int = 50, on_collapse: str = 'stop') -> None:
        if interval < 1:
            raise InputError(
                f'MonitorHook: interval must be at least 1, got {interval}.'
            )
        if on_collapse not in ('stop', 'warn'):
            raise InputError(
                "MonitorHook: on_collapse must be 'stop' or 'warn', got "
                f'{on_collapse!r}.'
            )
        self.interval = interval
        self.on_collapse = on_collapse
        self.alarm = CollapseAlarm(max_iters=0)
        self._watching = False
        self._latents: Tensor | None = None
        self._embeddings: Tensor | None = None
        self._calls: list[Tensor] = []  # embeddings, by call of the projector
        self._micro_batches: Any = None
        self._norm: Tensor | None = None
        self._num_images = 0
        self._bad_steps = self._bad_losses = 0
        self._sick = False
        self._highest_lr = -math.inf
        self._healthy = HealthyCheckpoint()
        self._handles: list[Any] = []

    def before_train(self, runner: Runner) -> None:
        """Listen to the latents that the loss is given, and to the gradients."""
        model = unwrap(runner.model)
        loss_module = self._loss_module(model)
        self.alarm = CollapseAlarm(runner.max_iters)
        self._micro_batches = getattr(model, 'micro_batches', None)
        self._own_targets = hasattr(loss_module, 'positive_mask') and not isinstance(
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
        """Watch the latents of iterations that are to be logged."""
        self._watching = self.every_n_train_iters(runner, self.interval)
        self._latents = self._embeddings = self._norm = None
        self._calls = []

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch=None, outputs=None
    ) -> None:
        """Look at the gradients, log the signs, and look for a dead run."""
        self._check_gradients(runner)
        lr = max(runner.optim_wrapper.get_lr()['lr'])
        warming_up = lr > self._highest_lr
        self._highest_lr = max(lr, self._highest_lr)
        latents = self._latents
        if latents is not None:
            positive, other = self._log(runner, latents)
        if latents is None and not self.every_n_train_iters(runner, LOOK_EVERY):
            return
        loss, entropies, images = over_ranks(outputs, self._num_images)
        self._bad_losses = 0 if math.isfinite(loss) else self._bad_losses + 1
        self._refuse(runner, 'The loss is not finite', self._bad_losses, LOOK_EVERY)
        if self._own_targets and entropies is not None:
            loss_module = self._loss_module(unwrap(runner.model))
            if latents is not None:
                name = 'train/monitor/uniform_entropy'
                value = uniform_entropies(loss_module, images)[0]
                runner.message_hub.update_scalar(name, value)
            signs = entropy_signs(loss_module, images, *entropies)
            self._judge(runner, signs, images)
        elif latents is not None and not warming_up:
            self._judge(runner, Signs(positive=positive, other=other), images)

    def after_train_epoch(self, runner: Runner) -> None:
        """Look at the weights before a checkpoint of the epoch replaces another."""
        self._check_weights(runner, unwrap(runner.model).state_dict())

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Look at the weights that are to be saved."""
        self._check_weights(runner, checkpoint['state_dict'])

    def _check_weights(self, runner: Runner, weights: Mapping[str, Tensor]) -> None:
        if not all(bool(value.isfinite().all()) for value in weights.values()):
            # A loss scaler skips steps that would do this.
            self._refuse(runner, 'Weights are not finite', MAX_SKIPPED)

    def _check_gradients(self, runner: Runner) -> None:
        # The loss has just been read for the log, so the device has nothing left to do
        # and reading the norm waits for nothing. Gradients are the mean of all ranks'.
        hub = runner.message_hub
        if self._norm is not None:
            norm = self._norm.item()
            if self._watching:
                hub.update_scalar('train/grad_norm', norm)
        elif not self._own_norm and 'train/grad_norm' in hub.log_scalars:
            norm = hub.get_scalar('train/grad_norm').current()
        else:  # no step was taken: gradients are accumulated, or the scaler skipped it
            return
        self._bad_steps = 0 if math.isfinite(norm) else self._bad_steps + 1
        self._refuse(runner, 'Gradients are not finite', self._bad_steps)

    def _refuse(
        self, runner: Runner, what: str, times: int = 1, iterations: int = 1
    ) -> None:
        """Stop, or warn at the first, second, fourth ... of ``times`` in a row."""
        scaled = hasattr(runner.optim_wrapper, 'loss_scaler')
        if times * iterations < (MAX_SKIPPED if scaled else 1) or times & (times - 1):
            return
        if not self._sick:  # what was saved before is healthy
            self._healthy.note(runner)
        self._sick = True
        self._healthy.keep()
        lr = max(runner.optim_wrapper.get_lr()['lr'])
        message = (
            f'{what} at iteration {runner.iter + 1}. {self._healthy.describe()} What '
            f'usually helps: a lower learning rate (now {lr:.3g}) or a longer warm-up; '
            'gradient clipping; bfloat16 in place of float16.'
        )
        self._say(runner, message, self.on_collapse == 'stop')

    def _judge(self, runner: Runner, signs: Signs, images: int) -> None:
        if self._bad_steps or self._bad_losses:
            return
        due = self.alarm.check(runner.iter + 1, signs)
        self._sick = self.alarm.sign is not None
        if not self._sick:
            self._healthy.note(runner)
            return
        self._healthy.keep()
        stop = self.on_collapse == 'stop' and self.alarm.is_final
        if not due and not stop:
            return
        loss_module = self._loss_module(unwrap(runner.model))
        message = self.alarm.describe(
            getattr(loss_module, 'tau_b', None),
            max(runner.optim_wrapper.get_lr()['lr']),
            images,
        )
        message += f' {self._healthy.describe()}'
        if self.on_collapse == 'stop' and not stop:
            end = self.alarm.since + self.alarm.stop_after
            message += f' If this lasts, the run stops at iteration {end}.'
        self._say(runner, message, stop)

    def _say(self, runner: Runner, message: str, stop: bool) -> None:
        if self.on_collapse == 'stop':
            hooks = runner.cfg.get('custom_hooks') or []
            kinds = [str(hook.get('type')).rpartition('.')[2] for hook in hooks]
            place = 'on_collapse'
            if type(self).__name__ in kinds:
                place = f'custom_hooks.{kinds.index(type(self).__name__)}.on_collapse'
            message += f' To go on regardless: --cfg-options {place}=warn.'
        runner.logger.error(message)
        alarms = runner.message_hub.get_info(ALARMS, [])
        entry = dict(iter=runner.iter + 1, message=message)
        runner.message_hub.update_info(ALARMS, [*alarms, entry])
        if stop:
            raise TrainingCollapsed(message)

    def _log(self, runner: Runner, latents: Tensor) -> tuple[float, float]:
        """Log the signs of latents; the similarities of positive and other pairs."""
        assert self._embeddings is not None
        positive, other = pair_similarities(latents)
        scalars = {
            'rankme': effective_rank(latents[0]),
            'backbone_rankme': effective_rank(self._embeddings[: self._num_images]),
            'positive_similarity': positive,
            'other_similarity': other,
        }
        self._latents = self._embeddings = None
        runner.message_hub.update_scalars(
            {f'train/monitor/{name}': value for name, value in scalars.items()}
        )
        return positive, other

    def _keep_latents(self, module: nn.Module, args: tuple) -> None:
        self._num_images = len(args[0]) // module.num_views
        if self._watching:
            z = args[0].detach()
            self._latents = z.view(module.num_views, -1, z.shape[-1]).float()
            if self._embeddings is None and self._calls:
                self._embeddings = self._of_first_view(*self._latents.shape[:2])
            self._calls = []

    @torch.compiler.disable  # a compiled model would be compiled for either state
    def _keep_embeddings(self, module: nn.Module, args: tuple) -> None:
        # After the loss, micro-batches pass once more for their gradient.
        if self._watching and self._embeddings is None:
            self._calls.append(args[0].detach().float())

    def _of_first_view(self, num_views: int, num_images: int) -> Tensor:
        """The embeddings of the first view, which comes first in its micro-batches."""
        calls = self._calls
        while sum(map(len, calls)) > num_views * num_images:
            calls.pop(0)  # of an attempt that did not fit into memory
        size = getattr(self._micro_batches, 'size', None) or num_images
        views = max(1, len(calls[0]) // min(size, num_images))
        parts = calls[: -(-num_images // size)]
        return torch.cat([part[: len(part) // views] for part in parts])

    def _measure_gradients(self, optimizer, args, kwargs) -> None:
        norms = [
            parameter.grad.norm()
            for group in optimizer.param_groups
            for parameter in group['params']
            if parameter.grad is not None
        ]
        self._norm = torch.stack(norms).norm()

    @staticmethod
    def _loss_module(model: nn.Module) -> nn.Module:
        module: Any = getattr(getattr(model, 'head', None), 'loss_module', None)
        if not hasattr(module, 'num_views'):
            raise InputError(
                'MonitorHook needs a model whose head.loss_module gets the latents of '
                f'num_views views, as that of BAM, but {type(model).__name__} has none.'
            )
        return module
