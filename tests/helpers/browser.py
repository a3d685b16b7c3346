"""Open a page in headless chromium and say what is wrong with how it looks."""

import html
import json
import re
import shutil
import subprocess

import pytest

NAMES = ('chromium', 'chromium-browser', 'google-chrome', 'chrome')
CHROMIUM = next((path for path in map(shutil.which, NAMES) if path), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason='no chromium is installed')

# In front of everything else on the page, so that it hears of every error.
_LISTEN = """<script>
var complaints = [];
addEventListener('error', e => complaints.push(
  e.message ? 'script: ' + e.message : 'cannot load ' + e.target.outerHTML.slice(0, 80)
), true);
addEventListener('unhandledrejection', e => complaints.push('script: ' + e.reason));
</script>"""
# At the end: what is wider than its place or beside the window.
_LOOK = """<script>
addEventListener('load', () => setTimeout(() => {  // after the page's own scripts
  const say = (what, e) => complaints.push(
    what + ': <' + e.localName + '> ' + (e.innerText || e.alt || '').slice(0, 60));
  const width = document.documentElement.clientWidth;
  if (innerWidth !== WIDTH) complaints.push('the window has ' + innerWidth + ' px');
  for (const e of document.querySelectorAll('body, body *:not(script)')) {
    const box = e.getBoundingClientRect(), style = getComputedStyle(e);
    if (box.right > width + 1 || box.left < -1) say('outside of the window', e);
    if (style.display !== 'inline' && e.scrollWidth > e.clientWidth + 1)
      say(style.overflowX === 'visible' ? 'sticks out' : 'scrolls sideways', e);
    if (/hidden|clip/.test(style.overflowY) && e.scrollHeight > e.clientHeight + 1)
      say('cut off', e);
    if (e.localName === 'img' && !(e.complete && e.naturalWidth)) say('no picture', e);
  }
  if (document.documentElement.scrollWidth > width) complaints.push('page scrolls');
  document.body.setAttribute('data-complaints', JSON.stringify(complaints));
}, 500));
</script>"""


def complaints_about(page, folder, width=1300):
    """What is cut off, scrolls sideways or fails on a page in a window of that width.

    A copy of the page with the looking scripts goes into ``folder``.
    """
    text = page.read_text(encoding='utf-8')
    copy = folder / f'looked_at_{page.name}'
    assert '<head>' in text and '</body>' in text
    text = text.replace('<head>', f'<head>{_LISTEN}', 1)
    before, end, after = text.rpartition('</body>')
    look = _LOOK.replace('WIDTH', str(width))
    copy.write_text(f'{before}{look}{end}{after}', encoding='utf-8')
    done = subprocess.run(
        [CHROMIUM, '--headless', '--no-sandbox', '--disable-gpu', '--dump-dom']
        + [f'--window-size={width},900', f'--user-data-dir={folder / "profile"}']
        + ['--virtual-time-budget=5000', copy.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    found = re.search('data-complaints="(.*?)"', done.stdout)
    assert found, f'chromium showed nothing: {done.stderr[-2000:]}'
    return json.loads(html.unescape(found[1]))
