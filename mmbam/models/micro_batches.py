"""An exact batch in parts: the networks see a few images at a time, the loss sees all.

The latents of every micro-batch are computed without keeping activations. The loss
compares all of them. In the backward pass each micro-batch goes through the network
once more, for its share of the gradient. Without batch norm no image depends on another
before the loss, so the result is that of the whole batch.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from mmengine.dist import all_reduce, get_world_size
from mmengine.logging import print_log
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from mmbam.utils.errors import InputError
from mmbam.utils.random import preserved_randomness

from .latents import group_by_size

AUTO = 'auto'
PER_MICRO_BATCH = 'per_micro_batch'
# The second one has the optimizer's state in memory as well.
REHEARSALS = 2


class WaitingViews:
    """Views (n, c, h, w) as the loader made them, usually uint8 in host memory.

    Views of more than 8 bits wait as float32, see :class:`mmbam.LoadImage`, and take
    four times as much. Not a list: DistributedDataParallel moves lists of tensors to
    the device.
    """

    def __init__(self, views: Sequence[Tensor]) -> None:
        self.views = views

    def __len__(self) -> int:
        return len(self.views)

    def __getitem__(self, part: slice) -> WaitingViews:
        return WaitingViews(self.views[part])


class MicroBatches:
    """Runs networks on micro-batches of images, exactly as on the whole batch.

    Args:
        size (int | str): Number of images in a micro-batch, or ``'auto'``.
        data_preprocessor (nn.Module): Module that normalizes images, changed in place:
            in training it lets the views wait and normalizes them by micro-batch.
        networks (dict[str, nn.Module]): Networks of student and teacher by name.
        norm (str, optional): ``'per_micro_batch'`` allows batch norm. Defaults to None.
    """

    def __init__(
        self,
        size: int | str,
        data_preprocessor: nn.Module,
        networks: dict[str, nn.Module],
        norm: str | None = None,
    ) -> None:
        if size != AUTO and not (isinstance(size, int) and size >= 1):
            raise InputError(
                "BAM: micro_batch_size must be None, 'auto' or an integer of at least "
                f'1, but got {size!r}.'
            )
        if norm not in (None, PER_MICRO_BATCH):
            raise InputError(
                f'BAM: micro_batch_norm must be None or {PER_MICRO_BATCH!r}, but got '
                f'{norm!r}.'
            )
        for name, network in networks.items():
            network.train()  # norms that stay in evaluation mode do no harm
            for layer, module in network.named_modules(prefix=name):
                if norm is None and _is_batch_norm(module) and module.training:
                    raise InputError(
                        'BAM: micro_batch_size gives the gradient of the whole batch, '
                        f'but {layer} is a {type(module).__name__}, whose statistics '
                        'would be those of a micro-batch: use networks without batch '
                        f"norm, or accept it with micro_batch_norm='{PER_MICRO_BATCH}'."
                    )
        self.size = None if size == AUTO else int(size)
        self._rehearsals = REHEARSALS if size == AUTO else 0
        self._networks = list(networks.values())
        self._preprocess = data_preprocessor.forward
        data_preprocessor.forward = self._wait

    @torch.compiler.disable
    def _wait(self, data: Any, training: bool = False) -> Any:
        if training and isinstance(data, dict):
            return dict(data, inputs=WaitingViews(data['inputs']))
        return self._preprocess(data, training)

    @torch.compiler.disable  # forward and recomputation must run the same code
    def __call__(
        self, embed: Callable, views: WaitingViews | Sequence[Tensor]
    ) -> Tensor:
        """Compute the latents of all views, ordered view by view: (V * n, d).

        ``embed`` does so for the views of a micro-batch. Waiting views are normalized
        here, others are used as they are.
        """
        waiting, tensors = isinstance(views, WaitingViews), tensors_of(views)
        n = len(tensors[0])
        size = self.size or n
        # Nothing is recomputed if the whole batch is one micro-batch.
        recompute = size < n and torch.is_grad_enabled()
        # Checkpointing restores the random states of the devices of its arguments.
        on_device = torch.empty(0, device=next(self._networks[0].parameters()).device)

        @torch.compiler.disable
        def run(_: Tensor, part: list[Tensor]) -> Tensor:
            if waiting:
                data = dict(inputs=part, data_samples=None)
                part = self._preprocess(data, True)['inputs']
            # Half-precision copies of the weights are made anew. The gradients of a
            # shared copy would be added up in half precision.
            torch.clear_autocast_cache()
            return embed(part)

        parts = [
            (indices, start)
            for indices in group_by_size(tensors)
            for start in range(0, n, size)
        ]
        latents: list[list[Tensor]] = [[] for _ in tensors]
        for indices, start in parts:
            part = [tensors[i][start : start + size] for i in indices]
            # The backward pass begins with the last part, so its activations may stay.
            if recompute and (indices, start) != parts[-1]:
                z = checkpoint(
                    run,
                    on_device,
                    part,
                    use_reentrant=False,
                    context_fn=lambda: (nullcontext(), self._kept_statistics()),
                )
            else:
                z = run(on_device, part)
            for i, rows in zip(indices, z.chunk(len(indices))):
                latents[i].append(rows)
        return torch.cat([rows for of_view in latents for rows in of_view])

    @torch.compiler.disable
    def rehearse(
        self,
        views: WaitingViews | Sequence[Tensor],
        embed: Callable[[Any], tuple],
        loss: Callable[..., Tensor],
    ) -> None:
        """Halve an automatic size until forward and backward pass fit into memory.

        ``embed`` turns the views into the arguments of ``loss``. A rehearsal changes
        neither gradients nor random states, so the step that follows has the same
        result as with this size from the start. It takes place in the first two steps.
        All ranks choose the same size.
        """
        if self._rehearsals == 0 or not torch.is_grad_enabled():
            return
        self._rehearsals -= 1
        n = len(tensors_of(views)[0])
        before, self.size = self.size, min(self.size or n, n)
        while not self._fits(views, embed, loss):
            if self.size == 1:
                raise RuntimeError(
                    "micro_batch_size='auto': there is not enough memory for a step "
                    'with one image at a time.'
                )
            self.size = -(-self.size // 2)
        if self.size != before:
            print_log(
                f"micro_batch_size='auto': the networks see {self.size} of {n} images "
                'at a time.',
                logger='current',
            )

    def _fits(self, views: Any, embed: Callable, loss: Callable) -> bool:
        weights = [p for m in self._networks for p in m.parameters() if p.requires_grad]
        with preserved_randomness(), self._kept_statistics():
            latents = _attempt(embed, views)
            if latents is None:
                return False
            if get_world_size() == 1:
                value = _attempt(loss, *latents)
            else:  # a rank must not leave the loss while others wait for it there
                value = loss(*latents)
            del latents
            if value is None:
                return False
            differentiate = partial(torch.autograd.grad, allow_unused=True)
            return _attempt(differentiate, value, weights) is not None

    @contextmanager
    def _kept_statistics(self) -> Iterator[None]:
        """Leave the running statistics of batch norms alone: once a step is enough."""
        kept: list[tuple[Any, float | None, Tensor]] = [
            (module, module.momentum, module.num_batches_tracked.clone())
            for network in self._networks
            for module in network.modules()
            if _is_batch_norm(module) and module.track_running_stats
        ]
        for norm, _, _ in kept:
            norm.momentum = 0.0
        try:
            yield
        finally:
            for norm, momentum, batches in kept:
                norm.momentum = momentum
                norm.num_batches_tracked.copy_(batches)


def tensors_of(views: WaitingViews | Sequence[Tensor]) -> Sequence[Tensor]:
    """The views themselves, whether they wait or not."""
    return views.views if isinstance(views, WaitingViews) else views


def _is_batch_norm(module: Any) -> bool:
    # The name is that of mmcv's own, which does not inherit from torch's.
    return isinstance(module, _BatchNorm) or type(module).__name__ == 'SyncBatchNorm'


def _attempt(function: Callable, *args: Any) -> Any:
    """Call a function; return None if memory is too small on any rank."""
    result = None
    try:
        result = function(*args)
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
    # Here the traceback is gone, and with it the tensors that it kept.
    fits = torch.tensor(int(result is not None))
    all_reduce(fits, 'min')
    if fits:
        return result
    del result
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def _is_out_of_memory(error: RuntimeError) -> bool:
    of_cpu = "can't allocate memory" in str(error)
    return of_cpu or isinstance(error, torch.cuda.OutOfMemoryError)
