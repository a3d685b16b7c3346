"""The recipe of vit-s16_300e.py, with the paper's batch of 4096, on a single GPU.

The networks see 64 images at a time, the loss all 4096 (docs/virtual_batch.md). Fit
``model.micro_batch_size`` to the GPU, or let ``'auto'`` do so.
"""

_base_ = './vit-s16_300e.py'

model = dict(micro_batch_size=64)
# A batch of views takes 1.9 GB of host memory, and each worker makes a whole one.
train_dataloader = dict(batch_size=4096, prefetch_factor=1)
