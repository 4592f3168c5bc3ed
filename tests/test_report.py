"""The page: it stands alone, nothing in it can break out of its place, it stays small, and a browser can use it."""

import html
import html.parser
import json
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest
from conftest import blobs, changed

import agtf

HOSTILE = [
    "</script><script>x()</script>",
    "<img src=x onerror=x()>",
    "\"'&<>",
    "$title ${data} $$",
    "<!--",
    "-->",
    "]]>",
]
HOSTILE += ["\ud800 alone", "\x00\x1b\n\t", "\u2028\u202e", "数字", "", "7", "&lt;b&gt;", "<a href='http://x.org'>"]
VOID = {"meta", "input", "br"}


class Page(html.parser.HTMLParser):
    """Elements with their attributes, and their texts; an end without a beginning is an error."""

    def __init__(self, path):
        super().__init__()
        self.text = path.read_bytes().decode("utf-8")
        self.open, self.elements, self.texts = [], [], {}
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def data(self):
        return json.loads(re.search(r'id="data">(.*?)</script>', self.text, re.S)[1])


def page_of(result, path):
    result.report(path)
    return Page(path)


def with_names(result):
    """The result with names that may contain anything."""
    n, widths = len(result.labels), [moments[1].shape[1] for moments in result._profile]
    names = [[HOSTILE[j % len(HOSTILE)] for j in range(d)] for d in widths]
    views = [f"{HOSTILE[v]} {v}" for v in range(len(widths))]
    samples = [HOSTILE[i] if i < len(HOSTILE) else f"sample <{i}>" for i in range(n)]
    return changed(result, view_names=views, feature_names=names, sample_names=samples)


@pytest.fixture(scope="module")
def result():
    return agtf.cluster(blobs(n=90, k=4, widths=(4, 6), spread=2.0)[0], 4)


@pytest.mark.parametrize("V, k", [(1, 2), (2, 4), (2, 40)])
def test_the_page_has_it_all_and_stands_alone(tmp_path, V, k):
    result = agtf.cluster(blobs(n=max(60, 5 * k), k=k, widths=range(3, 3 + V), spread=2.0)[0], k)
    page = page_of(result, tmp_path / "report.html")
    identifiers = [a["id"] for _, a in page.elements if "id" in a]
    assert len(set(identifiers)) == len(identifiers) and set(identifiers) >= {f"cluster-{c}" for c in range(k)}
    assert len(page.all("article")) == k and len(page.all("html")) == len(page.all("main")) == 1
    assert all(not {"src", "href", "srcset", "onclick"} & set(a) for _, a in page.elements)
    assert all(re.fullmatch(r"--bar: [01]\.\d\d", a["style"]) for _, a in page.elements if "style" in a)
    assert not {"link", "img", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.elements}
    assert "default-src 'none'" in page.all("meta")[2]["content"]
    assert not re.search(r"https?:|//[a-z]|url\(|@import|fetch\(|XMLHttp|eval\(|innerHTML", page.text)
    words = " ".join([*page.texts["h2"], *page.texts["b"]])
    for wanted in ("Data", "Options", "Agreement", "Certainty", "Convergence", "Look up", "Clusters", "Each cluster"):
        assert wanted in words
    assert page.text.index("<form>") < page.text.index("Look up")  # which is not printed
    assert not re.search(r"\d{5}", page.text.split("<b>Options:</b>")[1].split("</p>")[0])
    half = np.median(result.memberships.max(axis=1))
    assert f"half of the samples have a membership above {half:.2f}" in page.text
    assert f"joint {result.view_agreement[-1]:.1%} of the samples" in page.text
    assert page.texts["title"] == page.texts["h1"] == [f"{k} clusters of {len(result.labels)} samples"]
    sortable = page.text.split('<table class="sortable">')[1].split("</table>")[0]
    assert sortable.count("<tr>") == k + 1
    bars = [a for a in page.all("td") if "style" in a]
    assert len(bars) >= k * V * 3 and {a["class"] for a in bars} == {"more", "less"}
    one = result.describe(0)
    strongest = one.differences[one.views == 0][0]
    assert float(bars[0]["style"][-4:]) == pytest.approx(min(abs(strongest) / 3, 1), abs=0.01)
    assert bars[0]["class"] == ("more" if strongest > 0 else "less")
    assert page.text.count("which agrees on") == k * V


def answer(result, i):
    """What the page says about a sample."""
    percent = round(100 * result.memberships[i].max())
    return f"Number {i}, cluster {result.labels[i]}, membership {percent}%\n{result.explain(i)}"


def test_the_data_for_looking_up_are_those_of_explain(result, tmp_path):
    data = page_of(result, tmp_path / "report.html").data
    assert data == {str(i): [None, answer(result, i)] for i in range(90)}


def test_names_stay_in_their_place(result, tmp_path):
    plain, page = page_of(result, tmp_path / "plain.html"), page_of(with_names(result), tmp_path / "named.html")
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert len(page.all("script")) == 2 and page.text.count("</script>") == 2 and "<!--" not in page.text
    assert [page.data[str(i)] for i in range(len(HOSTILE))] == [
        [name, answer(with_names(result), i)] for i, name in enumerate(HOSTILE)
    ]
    shown = {html.unescape(text) for text in page.texts["td"]}
    assert {"<img src=x onerror=x()>", "$title ${data} $$", "&lt;b&gt;"} & shown


def many(result, times):
    """The same result with every sample repeated."""
    graph = {name: np.tile(getattr(result, name), (times, 1, 1)) for name in ("_index", "_weight")}
    graph["_told"] = np.tile(result._told, (times, 1))
    memberships = np.tile(result.memberships, (times, 1))
    return changed(result, labels=np.tile(result.labels, times), memberships=memberships, **graph)


@pytest.mark.parametrize("name", [None, "sample number {}", "x" * 90 + "{}"])
def test_pages_of_many_samples_stay_small_and_say_so(result, tmp_path, name):
    large = many(result, 1112)  # 100,080 samples
    n = len(large.labels)
    if name:
        large = changed(large, sample_names=[name.format(i) for i in range(n)])
    page = page_of(large, tmp_path / "report.html")
    assert 2_800_000 < (tmp_path / "report.html").stat().st_size < 3_000_000
    known = page.data
    assert f"{n - len(known)} of {n} samples cannot be looked up here" in page.text and len(known) > 2000
    assert all(known[i][1] == answer(large, int(i)) for i in list(known)[:50])
    certain = large.memberships.max(axis=1)
    assert np.median(certain[list(map(int, known))]) < np.quantile(certain, 0.1)
    assert set(map(str, large.describe().typical.ravel())) <= set(known)


def test_a_hundred_clusters_and_a_run_without_iterations(tmp_path):
    page = page_of(agtf.cluster(blobs(n=300, k=100)[0], 100, max_iter=0), tmp_path / "report.html")
    assert len(page.all("article")) == 100 and "0 iterations" in page.text


CLICKS = """
const out = {}, rows = () => [...document.querySelectorAll(".sortable tbody tr")];
const column = c => rows().map(row => parseFloat(row.cells[c].textContent));
const press = c => document.querySelectorAll(".sortable th button")[c].click();
const sign = c => document.querySelectorAll(".sortable th")[c].getAttribute("aria-sort");
const ask = text => { document.forms[0].wanted.value = text; document.forms[0].requestSubmit();
  return document.getElementById("answer").textContent; };
out.before = column(0);
press(1); out.up = [column(1), sign(1), column(0)];
press(1); out.down = [column(1), sign(1)];
press(2); out.moved = [sign(1), sign(2), column(2)];
out.number = ask("11");
out.name = WANTED.map(ask);
out.unknown = ask("nobody"); out.far = ask("100000"); out.prototype = ask("toString");
out.focusable = document.querySelector(".sortable th button").tabIndex;
out.scripts = document.scripts.length; out.images = document.images.length;
out.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
out.bar = getComputedStyle(document.querySelector("article td[style]"), "::before").width;
setTimeout(() => { out.problems = window.problems;
  out.back = getComputedStyle(document.documentElement).backgroundColor;
  document.body.replaceChildren(JSON.stringify(out)); }, 200);
"""
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
--disable-component-update --disable-sync --enable-logging=stderr --virtual-time-budget=5000 --dump-dom""".split()


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width, dark", [(1200, False), (500, True)])
def test_a_browser_sorts_and_looks_up(result, tmp_path, width, dark):
    named, wanted = with_names(result), [name for name in HOSTILE if name and "\ud800" not in name and "\n" not in name]
    page = page_of(named, tmp_path / "report.html").text
    listen = "<head><script>var problems = []; window.onerror = text => problems.push(text);"
    listen += 'document.addEventListener("securitypolicyviolation", e => problems.push(e.blockedURI));</script>'
    page = page.replace("<head>", listen, 1)
    clicks = CLICKS.replace("WANTED", json.dumps(wanted).replace("<", "\\u003c"))
    page = page.replace("</body>", f"<script>{clicks}</script></body>")
    (tmp_path / "clicked.html").write_text(page, encoding="utf-8")
    size = [f"--window-size={width},900", f"--user-data-dir={tmp_path / 'profile'}"]
    scheme = ["--force-dark-mode"] if dark else []
    address = pathlib.Path(tmp_path / "clicked.html").as_uri()
    done = subprocess.run(["chromium", *FLAGS, *size, *scheme, address], capture_output=True, text=True, timeout=120)
    assert "CONSOLE" not in done.stderr
    out = json.loads(html.unescape(re.search(r"<body>(.*)</body>", done.stdout, re.S)[1]))
    found, k = named.describe(), 4
    assert out["problems"] == [] and out["scripts"] == 4 and out["images"] == 0 and out["overflow"] == 0
    assert out["before"] == list(range(k))
    assert out["up"][:2] == [sorted(found.sizes), "ascending"] and sorted(out["up"][2]) == list(range(k))
    assert out["down"] == [sorted(found.sizes)[::-1], "descending"]
    assert out["moved"][:2] == [None, "ascending"] and out["moved"][2] == sorted(out["moved"][2])
    assert out["number"] == answer(named, 11)
    assert out["name"] == [answer(named, named.sample_names.index(name)) for name in wanted]
    assert out["unknown"] == "Sample nobody is not on this page." and "100000 is not" in out["far"]
    assert out["prototype"] == "Sample toString is not on this page." and out["focusable"] == 0
    assert float(out["bar"].rstrip("px")) > 5
    assert (int(re.search(r"\d+", out["back"])[0]) < 60) == dark


def test_empty_clusters_and_a_single_one(tmp_path):
    with pytest.warns(UserWarning, match="empty"):
        result = agtf.cluster([np.repeat([[0.0, 1.0], [5.0, 3.0]], 6, axis=0)], 3)
    page = page_of(result, tmp_path / "report.html")
    assert len(page.all("article")) == 3 and "0 samples" in page.text
    alone = page_of(agtf.AGTF(n_clusters=1).fit(blobs()[0]).result_, tmp_path / "alone.html")
    assert len(alone.all("article")) == 1 and len(alone.data) == 60
