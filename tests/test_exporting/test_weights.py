"""The proof compares all weights of both sides by name."""

import pytest

from mmbam.exporting.proof import ProofError, _require_equal


@pytest.mark.parametrize(
    'found, name',
    [(dict(a='1', b='3'), 'b'), (dict(a='1'), 'b'), (dict(a='1', b='2', c='3'), 'c')],
    ids=['changed', 'lost', 'of nobody'],
)
def test_a_weight_that_differs_is_named(found, name):
    expected = dict(a='1', b='2')
    _require_equal('timm', expected, dict(expected))
    with pytest.raises(ProofError, match=f'source has: {name}[.]'):
        _require_equal('timm', expected, found)
