"""A linear probe on precomputed features."""

from __future__ import annotations

import torch
from mmengine.device import get_device
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .accuracy import check_labels, top_accuracies


def linear_probe(
    train_features: Tensor,
    train_labels: Tensor,
    test_features: Tensor,
    test_labels: Tensor,
    epochs: int = 100,
    batch_size: int = 1024,
    base_lr: float = 0.3,
) -> dict[str, float]:
    """Train a batch norm without affine and a linear layer, and test them.

    Follows the paper's protocol (SGD with momentum 0.9, no decay, cosine schedule)
    without augmentation, since the features are computed once. Every rank computes
    the same.

    Args:
        train_features (Tensor): Features to train on, of shape (N, d), the same on
            every rank.
        train_labels (Tensor): Labels of the training features, of shape (N,), from 0.
        test_features (Tensor): Features to classify, of shape (M, d).
        test_labels (Tensor): Labels of the test features, of shape (M,).
        epochs (int): Number of epochs. Defaults to 100.
        batch_size (int): Batch size, at most N. Defaults to 1024.
        base_lr (float): Learning rate per 256 images. Defaults to 0.3, the paper's for
            ResNet; its value for ViT is 0.002.

    Returns:
        dict[str, float]: ``top1`` and ``top5`` accuracy in per cent.
    """
    check_labels('A linear probe', train_features, train_labels, least=2)
    check_labels('A linear probe', test_features, test_labels, least=2)
    device = get_device()
    x, y = train_features.to(device).float(), train_labels.to(device)
    num_classes = int(max(train_labels.max(), test_labels.max())) + 1
    batch_size = min(batch_size, len(x))
    norm = nn.BatchNorm1d(x.shape[1], affine=False, device=device)
    linear = nn.Linear(x.shape[1], num_classes, device=device)
    nn.init.zeros_(linear.weight)  # Only the order of the samples is random.
    nn.init.zeros_(linear.bias)
    optimizer = torch.optim.SGD(
        linear.parameters(), lr=base_lr * batch_size / 256, momentum=0.9
    )
    steps = len(x) // batch_size
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * steps)
    generator = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        order = torch.randperm(len(x), generator=generator).to(device)
        for batch in order[: steps * batch_size].split(batch_size):
            loss = cross_entropy(linear(norm(x[batch])), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    norm.eval()
    with torch.no_grad():
        logits = linear(norm(test_features.to(device).float()))
    ranked = logits.topk(min(5, num_classes), dim=1).indices
    return top_accuracies(ranked, test_labels)
