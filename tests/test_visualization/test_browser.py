"""Pages in a real browser: nothing is cut off or scrolls sideways, no script fails."""

import numpy as np
import pytest
import torch
from PIL import Image

from mmbam.comparison import method_names
from mmbam.comparison.config import shared
from mmbam.comparison.method import load_methods
from mmbam.comparison.report import write_report
from mmbam.comparison.settings import Settings
from mmbam.demo.report import report_sections
from mmbam.demo.run import MEASURES, introduce
from mmbam.utils.files import save_tensors
from mmbam.visualization.cluster_curves import draw_clustering
from mmbam.visualization.page import Section, Table, write_page
from mmbam.visualization.run_pictures import draw_course
from tests.helpers.browser import complaints_about, needs_chromium
from tests.helpers.folders import make_folders

pytestmark = [pytest.mark.slow, needs_chromium]


def made_up_run(name, labeled):
    rng = np.random.default_rng(len(name))
    points = [
        dict(epoch=epoch, seconds=100.0 * epoch, rankme=20.0, agreement=30.0)
        for epoch in range(3)
    ]
    for point in points if labeled else ():
        point.update(knn=rng.uniform(20, 60), linear=rng.uniform(20, 60))
    run = dict(
        method=name, seed=0, epochs=1000, history=points, train_seconds=123456.0,
        losses=(5 + rng.random(100)).tolist(), images_per_second=12345.6,
        step_seconds=dict(median=12.3, p10=11.1, p90=123.4), wait_share=0.5,
        peak_memory=2**37,
    )  # fmt: skip
    return dict(run, nmi=55.5, ari=44.4, clusters=3) if labeled else run


@pytest.mark.parametrize('labeled', [True, False])
def test_a_comparison_fits(labeled, tmp_path):
    make_folders(tmp_path / 'data')
    folder = tmp_path / 'data' if labeled else tmp_path / 'data/train/class0'
    out = tmp_path / 'out'
    methods = load_methods(method_names()[:5])
    looks = dict(
        queries=torch.tensor([0, 1]), neighbours=torch.tensor([[0, 1, 2]] * 2),
        same=torch.tensor([[True, False, True]] * 2), heat=torch.rand(2, 4, 4),
    )  # fmt: skip
    if not labeled:  # of 8 images, 2 are kept to test
        looks['queries'] = torch.tensor([0, 1])
    for method in methods:
        save_tensors(looks, out / f'{method.name}_seed0' / 'looks.pt')
    settings = Settings(str(folder), epochs=1000, size=16, batch_size=4)
    options = {
        'bam': {f'model.head.loss.a_key_of_some_length_{i}': 0.1 for i in range(4)}
    }
    results = dict(
        settings=dict(vars(settings), options=options),
        shared=shared(settings),
        tested=15,
        classes=settings.classes(),
        machine='A processor with a name of usual length, 2 cores, no GPU; torch 2.1',
        methods={
            m.name: dict(title=m.title, source=m.source, own=m.own) for m in methods
        },
        runs=[made_up_run(method.name, labeled) for method in methods],
    )
    results['runs'][0] = dict(method=methods[0].name, seed=0, error='A' + ' long' * 60)
    page = write_report(results, out)
    assert complaints_about(page, tmp_path) == []


def test_the_page_of_the_demo_fits(tmp_path):
    networks = ('raw pixels', 'random network', 'trained student', 'trained teacher')
    spread = dict(nmi=55.5, nmi_std=11.1, ari=44.4, ari_std=10.5)
    scores = {
        name: dict(knn=53.0, linear=55.0, clustering={t: spread for t in (4, 8, 16)})
        for name in networks
    }
    steps = list(range(0, 500, 5))
    values = np.linspace(6, 5, 100).tolist()
    course = {key: (steps, values) for key in ('loss', 'entropy_a', 'entropy_b')}
    draw_course(course, tmp_path / 'curves.png', accuracies={'raw pixels': 18.9})
    clusters = {name: of_network['clustering'] for name, of_network in scores.items()}
    draw_clustering(clusters, tmp_path / 'clustering.png')
    wide = np.zeros((300, 2000, 3), np.uint8)
    for name in ('similarities', 'heatmaps', 'attention'):
        Image.fromarray(wide).save(tmp_path / f'{name}.png')
    about = dict(backbone='vit', epochs=12, patches=(4000, 800), seed=0, seconds=300.0)
    assert set(MEASURES.values()) == set(scores['raw pixels'])
    sections = report_sections(introduce(about), scores, 800, tmp_path)
    page = tmp_path / 'index.html'
    write_page(page, 'What a tiny network learned with BAM', sections)
    assert page.read_text().count('data:image') == 5
    assert complaints_about(page, tmp_path) == []


def test_what_is_wrong_is_found(tmp_path):
    page = tmp_path / 'page.html'
    wide = Table([f'column {i}' for i in range(40)], [[(10.0, 1.0)] * 40])
    write_page(page, 'Wide', [Section('Wide', [wide])])
    assert any('scrolls sideways' in c for c in complaints_about(page, tmp_path))
    for number, (wrong, named) in enumerate(
        {
            '<script>no.such()</script>': 'script: Uncaught ReferenceError',
            '<img alt="" src="gone.png">': 'cannot load',
            '<p style="width:1500px">x</p>': 'page scrolls',
            '<p style="height:5px;overflow:hidden">x</p>': 'cut off',
        }.items()
    ):
        page = tmp_path / f'page{number}.html'
        page.write_text(f'<html><head></head><body>{wrong}</body></html>')
        complaints = complaints_about(page, tmp_path)
        assert any(named in complaint for complaint in complaints), complaints
