"""How accurate agtf is on shuffled rows, against simpler ways and against itself without its parts.

    python tests/benchmarks/accuracy.py [--quick] [--json FILE] [--readme]

Every seed shuffles the rows and seeds the method. Scores are mean and standard deviation over seeds; options of
agtf are its defaults unless the line says otherwise. --readme puts the table of means into the README.
"""

import argparse
import json
import platform
import time
import warnings

import numpy as np
import scipy
import sklearn
from datasets import ROOT, agtf, available, load, shuffled
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.preprocessing import StandardScaler

try:
    from mvlearn.cluster import MultiviewCoRegSpectralClustering, MultiviewSpectralClustering
except ImportError:
    MultiviewSpectralClustering = MultiviewCoRegSpectralClustering = None

PAPER = dict(agtf.PAPER, scale="unit", p=0.5, lambda1=100, lambda2=1, n_anchors=0.4)


def agtf_with(**options):
    return lambda views, k, seed, y: agtf.cluster(views, k, random_state=seed, **options).labels


def our_scaling(views):
    data = agtf._arrange(views, None, canonical=False)
    data.scalings = [agtf._fit_scaling(data, v, "auto") for v in range(len(views))]
    return data.joint(np.arange(data.n))


def z_scores(views):
    return StandardScaler().fit_transform(np.hstack(views).astype(float))


def k_means(features):
    return lambda views, k, seed, y: KMeans(k, n_init=10, random_state=seed).fit(features(views)).labels_


def spectral(features):
    def run(views, k, seed, y):
        model = SpectralClustering(k, affinity="nearest_neighbors", random_state=seed)
        return model.fit(features(views)).labels_

    return run


def best_view(views, k, seed, y):
    found = [agtf.cluster([view], k, random_state=seed).labels for view in views]
    return max(found, key=lambda labels: agtf.score(y, labels)["ACC"])


def mvlearn_model(model):
    return lambda views, k, seed, y: model(k, random_state=seed).fit_predict([np.asarray(v, float) for v in views])


LINES = {
    "agtf": agtf_with(),
    "agtf, start only": agtf_with(max_iter=0),
    "agtf, one draw of anchors": agtf_with(n_draws=1),
    "agtf, no joint slice": agtf_with(joint=False),
    "agtf, no norm of H": agtf_with(lambda1=0),
    "agtf, no norm of G": agtf_with(lambda2=0),
    "agtf, neither norm": agtf_with(lambda1=0, lambda2=0),
    "agtf, raw S": agtf_with(normalize=False),
    "agtf, axis lateral": agtf_with(axis="lateral"),
    "agtf, axis view": agtf_with(axis="view"),
    "the paper's protocol": agtf_with(**PAPER),
    "k-means, raw features": k_means(lambda views: np.hstack(views).astype(float)),
    "k-means, z-scores": k_means(z_scores),
    "k-means, our scaling": k_means(our_scaling),
    "spectral, z-scores": spectral(z_scores),
    "spectral, our scaling": spectral(our_scaling),
    "best single view (knows the classes)": best_view,
}
if MultiviewSpectralClustering is not None:
    LINES["mvlearn, multi-view spectral"] = mvlearn_model(MultiviewSpectralClustering)
    LINES["mvlearn, co-regularised"] = mvlearn_model(MultiviewCoRegSpectralClustering)
PEERS = [name for name in LINES if name.startswith(("k-means", "spectral", "mvlearn"))]


def measure(line, views, y, seeds):
    """Scores and seconds of one line on one set, one entry per seed."""
    k = len(np.unique(y))
    runs = []
    for seed in seeds:
        some, classes = shuffled(views, y, seed)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            labels = LINES[line](some, k, seed, classes)
        runs.append({**agtf.score(classes, labels), "seconds": time.perf_counter() - started})
    return {score: [run[score] for run in runs] for score in ("ACC", "NMI", "purity", "seconds")}


def with_noise(name, seeds):
    """ACC without and with one more view of Gaussian noise, as wide as the widest view."""
    views, y = load(name)
    k, width = len(np.unique(y)), max(view.shape[1] for view in views)
    out = {"without": [], "with": []}
    for seed in seeds:
        some, classes = shuffled(views, y, seed)
        noise = np.random.default_rng(seed).normal(size=(len(classes), width))
        for key, given in {"without": some, "with": [*some, noise]}.items():
            out[key].append(agtf.score(classes, agtf.cluster(given, k, random_state=seed).labels)["ACC"])
    return {key: float(np.mean(values)) for key, values in out.items()}


def suggested(name):
    """The five best numbers of clusters, and the rank of the true one."""
    views, y = load(name)
    k = len(np.unique(y))
    found = agtf.suggest_k(views, max(20, 3 * k // 2)).candidates
    return {"classes": k, "first five": found[:5].tolist(), "rank of the truth": found.tolist().index(k) + 1}


def table(results, score, names):
    """Markdown: one row per line, one column per set, and the mean over the sets."""
    rows = ["| | " + " | ".join(names) + " | mean |", "|---|" + "---|" * (len(names) + 1)]
    for line, sets in results.items():
        means = [np.mean(sets[name][score]) for name in names]
        digits = ".1f" if score == "seconds" else ".3f"
        cells = [f"{m:{digits}} ± {np.std(sets[name][score]):{digits}}" for m, name in zip(means, names)]
        rows.append(f"| {line} | " + " | ".join(cells) + f" | **{np.mean(means):{digits}}** |")
    return "\n".join(rows)


def readme_table(results, names, seeds):
    lines = ["agtf", "agtf, start only", *PEERS, "best single view (knows the classes)", "the paper's protocol"]
    rows = ["| ACC, shuffled rows | " + " | ".join(names) + " | mean |", "|---|" + "---|" * (len(names) + 1)]
    for line in lines:
        means = [np.mean(results[line][name]["ACC"]) for name in names]
        rows.append(f"| {line} | " + " | ".join(f"{m:.3f}" for m in means) + f" | **{np.mean(means):.3f}** |")
    rows.append(f"\nMeans of {len(seeds)} seeds, each with its own shuffle.")
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three small sets, two seeds, under 2 minutes")
    parser.add_argument("--json", help="also write all scores to this file")
    parser.add_argument("--readme", action="store_true", help="put the table of means into the README")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    seeds = list(range(2 if given.quick else given.seeds))
    names = available()
    if given.quick:
        names = [name for name in names if name in ("MSRC", "BBCSport")] or ["digits"]
    results = {}
    for line in LINES:
        results[line] = {name: measure(line, *load(name), seeds) for name in names}
        means = [np.mean(results[line][name]["ACC"]) for name in names]
        print(f"{line:38}" + "".join(f"{m:7.3f}" for m in means) + f"  mean {np.mean(means):.3f}", flush=True)
    for score in ("ACC", "NMI", "purity", "seconds"):
        print(f"\n{score}, rows shuffled, mean ± standard deviation of {len(seeds)} seeds\n")
        print(table(results, score, names), flush=True)
    noise = {name: with_noise(name, seeds) for name in names if name in ("MSRC", "HandWritten4")}
    print("\nACC with a view of pure noise added: ", noise)
    k = {name: suggested(name) for name in names}
    print("\nsuggest_k:")
    for name, row in k.items():
        print(f"  {name}: {row}")
    if given.json:
        versions = {"python": platform.python_version(), "agtf": agtf.__version__}
        versions |= {module.__name__: module.__version__ for module in (np, scipy, sklearn)}
        with open(given.json, "w") as file:
            report = {"versions": versions, "seeds": seeds, "scores": results, "noise": noise, "suggest_k": k}
            json.dump({**report, "paper_options": PAPER}, file, indent=1)
    if given.readme:
        readme = ROOT / "README.md"
        before, marked = readme.read_text().split("<!-- accuracy -->\n")
        after = marked.split("<!-- end of accuracy -->\n")[1]
        text = f"<!-- accuracy -->\n{readme_table(results, names, seeds)}\n<!-- end of accuracy -->\n"
        readme.write_text(before + text + after)


if __name__ == "__main__":
    main()
