"""S, A, B and match as the paper defines them (Sec. 3)."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from mmbam.models import BAMLoss
from mmbam.models.losses.functional import attention, balance, match, similarity
from tests.test_models.test_losses.oracle import sinkhorn

N, V, DIM = 5, 2, 8


def latents(rows: int = V * N, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(rows, DIM, generator=generator, dtype=torch.float64)
    return F.normalize(z, dim=-1)


def images(views: int = V) -> torch.Tensor:
    return torch.arange(N).repeat(views)


def similarities(mask='exclude') -> torch.Tensor:
    positive = images()[:, None] == images() if mask else None
    return similarity(latents(), latents(), positive, 0.0 if mask == 'zero' else -1e4)


@pytest.mark.parametrize('mask', ['exclude', 'zero', None])
def test_s_holds_cosines_and_treats_only_views_of_one_image_otherwise(mask):
    Z = latents()
    S = similarities(mask)
    for i in range(V * N):
        for j in range(V * N):
            if i % N == j % N and mask == 'zero':
                assert S[i, j] == 0
            elif i % N == j % N and mask == 'exclude':
                assert attention(S, tau=1.0)[i, j] == 0
            else:
                cosine = torch.cosine_similarity(Z[i], Z[j], dim=0)
                torch.testing.assert_close(S[i, j], cosine)


def test_rows_of_a_and_b_sum_to_one():
    ones = torch.ones(V * N, dtype=torch.float64)
    A, B = attention(similarities(), tau=0.1), balance(similarities(), tau_b=0.05)
    torch.testing.assert_close(A.sum(dim=1), ones)
    torch.testing.assert_close(B.sum(dim=1), ones)
    assert not torch.allclose(A.sum(dim=0), ones, atol=0.1)


def test_b_is_doubly_stochastic_and_symmetric_in_the_limit():
    S = similarities()
    B = balance(S, tau_b=0.05, iters=2000)
    torch.testing.assert_close(B.sum(dim=0), torch.ones(V * N, dtype=torch.float64))
    torch.testing.assert_close(B, B.T)
    # The minimum of Eq. 4 has this form: log B is S / tau_b plus rows plus columns.
    rest = (B.log() - S / 0.05)[:N, N:]
    rest = rest[:2, 2:4]  # four pairs of different images
    torch.testing.assert_close(rest[0, 0] + rest[1, 1], rest[0, 1] + rest[1, 0])


@pytest.mark.parametrize('iters', [1, 2, 3, 10])
@pytest.mark.parametrize('tau_b', [0.1, 0.05, 0.005])
def test_b_is_what_scaling_columns_and_rows_in_turn_gives(iters, tau_b):
    S = similarities()
    expected = sinkhorn((S / tau_b).exp(), iters)
    torch.testing.assert_close(balance(S, tau_b, iters), expected)
    B = balance(S.float(), tau_b, iters)
    torch.testing.assert_close(B.double(), expected, rtol=1e-3, atol=1e-4)


def test_further_rows_count_in_the_sums_of_columns_only():
    S = similarities()
    positive = images(3)[:, None] == images()
    local = similarity(latents(3 * N, seed=1), latents(), positive)
    expected = balance(torch.cat([S, local]), tau_b=0.05)[: V * N]
    B = balance(S, tau_b=0.05, further_rows=lambda: local.split(N))
    torch.testing.assert_close(B, expected)
    assert not torch.allclose(B, balance(S, tau_b=0.05))


def test_blocks_are_balanced_each_on_its_own():
    S = torch.stack([similarities(None), similarities('zero')])
    expected = [balance(block, tau_b=0.05) for block in S]
    torch.testing.assert_close(balance(S, tau_b=0.05), torch.stack(expected))


def test_log_a_is_exact_where_a_rounds_to_zero():
    S = torch.tensor([[1.0, -1.0]])
    assert attention(S, tau=0.01)[0, 1] == 0
    assert attention(S, tau=0.01, log=True)[0, 1] == -200
    torch.testing.assert_close(attention(S, 0.5, log=True), attention(S, 0.5).log())


def test_match_is_the_cross_entropy_of_rows():
    S = similarities('zero')
    B = balance(S, tau_b=0.05)
    expected = F.cross_entropy(S / 0.1, B, reduction='none')
    torch.testing.assert_close(match(B, attention(S, 0.1).log()), expected)


def test_the_four_calls_on_whole_matrices_are_the_loss():
    S = similarities()
    log_A, B = attention(S, tau=0.1, log=True), balance(S, tau_b=0.05)
    swapped = B.roll(N, dims=0)  # row i of view 0 gets b of view 1, and the reverse
    torch.testing.assert_close(match(swapped, log_A).mean(), BAMLoss(V)(latents()))
