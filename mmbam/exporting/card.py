"""The model card of a folder for the Hugging Face Hub."""

from __future__ import annotations

from typing import Any

from .source import Source

_ROWS = dict(
    method='method',
    network='network',
    weights='weights of the',
    data='images',
    epochs='epochs',
    iterations='optimizer steps',
    planned_epochs='epochs of the whole run',
    images_per_device='images per step and device',
    optimizer='optimizer',
    learning_rate='learning rate',
    channels='order of the channels',
    mean='mean of the channels, of 255',
    std='deviation of the channels, of 255',
    checkpoint='checkpoint',
    checkpoint_sha256='SHA-256 of the checkpoint',
    mmbam='version of mmbam',
)


def model_card(source: Source, recipe: dict[str, Any]) -> str:
    """Write how a network was trained, on what, and under which license.

    Args:
        source (Source): The network. What its config does not say is left out.
        recipe (dict): ``architecture`` in timm.
    """
    facts = source.facts
    license, method = facts.get('license'), _cell(facts.get('method', ''))
    rows = [
        f'| {name} | {_cell(facts[key])} |'
        for key, name in _ROWS.items()
        if key in facts
    ]
    sizes = (
        f'Images of {source.size} x {source.size} pixels were used to check it; others '
        'work as well.'
        if source.dynamic
        else f'It takes images of {source.size} x {source.size} pixels.'
    )
    terms = (
        f'The license of the weights is {_cell(license)}.'
        if license
        else 'Nobody has stated a license of the weights yet: ask who trained them.'
    )
    return '\n'.join(
        [
            '---',
            'library_name: timm',
            'pipeline_tag: image-feature-extraction',
            *([f'license: {_cell(license)}'] if license else []),
            'tags:',
            '- timm',
            '- transformers',
            '- image-feature-extraction',
            '- self-supervised',
            '---',
            '',
            f'# {_cell(facts["network"])}{f" trained with {method}" if method else ""}',
            '',
            f'A backbone without a head, `{recipe["architecture"]}` of timm with the '
            f'`model_args` of `config.json`. {sizes}',
            '',
            '```python',
            'import timm',
            '',
            "model = timm.create_model('local-dir:PATH', pretrained=True).eval()",
            'embedding = model(images)',
            'tokens = model.forward_features(images)',
            '```',
            '',
            '## How it was trained',
            '',
            '| what | value |',
            '| --- | --- |',
            *rows,
            '',
            '## License',
            '',
            f'{terms} The terms of the images that it was trained on may limit its '
            'use. The code of [BAM](https://arxiv.org/abs/2408.02014) in mmbam is '
            'under Apache 2.0.',
            '',
            '`certificate.json` says with which libraries this folder was opened and '
            'compared with the checkpoint.',
            '',
        ]
    )


def _cell(value: Any) -> str:
    """A value that cannot break out of its cell."""
    text = ', '.join(map(str, value)) if isinstance(value, list) else str(value)
    return ' '.join(text.replace('|', '/').replace('`', "'").split())
