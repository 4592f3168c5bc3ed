"""Accuracy when (sample, view) pairs are missing, against k-means on features with the column means filled in.

    python tests/benchmarks/missing.py [--quick] [--json FILE]

Rows are shuffled; pairs are removed at random, every sample keeping at least one view.
"""

import argparse
import json

import numpy as np
from datasets import agtf, available, load, our_scaling, shuffled
from sklearn.cluster import KMeans

RATES = (0.0, 0.1, 0.3, 0.5)


def holes(n, V, rate, seed):
    """What is seen (n, V): every pair is missing with probability `rate`; samples seen nowhere get one view back."""
    rng = np.random.default_rng(seed)
    seen = rng.random((n, V)) >= rate
    nowhere = np.flatnonzero(~seen.any(axis=1))
    seen[nowhere, rng.integers(0, V, len(nowhere))] = True
    return seen


def imputed_k_means(views, seen, k, seed):
    filled = [np.where(seen[:, [v]], view, view[seen[:, v]].mean(axis=0)) for v, view in enumerate(views)]
    return KMeans(k, n_init=10, random_state=seed).fit(our_scaling(filled)).labels_


def measure(name, rate, seeds):
    """Mean ACC of both methods; None for agtf where too few samples are complete to serve as anchors."""
    views, y = load(name)
    k, ours, theirs = len(np.unique(y)), [], []
    for seed in seeds:
        some, classes = shuffled(views, y, seed)
        seen = holes(len(classes), len(views), rate, seed)
        try:
            ours.append(agtf.score(classes, agtf.cluster(some, k, mask=seen, random_state=seed).labels)["ACC"])
        except ValueError as error:
            print(f"{name}, {rate:.0%} missing, seed {seed}: {error}")
        theirs.append(agtf.score(classes, imputed_k_means(some, seen, k, seed))["ACC"])
    mean = float(np.mean(ours)) if len(ours) == len(seeds) else None
    return {"dataset": name, "missing": rate, "agtf": mean, "imputed k-means": float(np.mean(theirs))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seeds")
    parser.add_argument("--json", help="also write the scores to this file")
    given = parser.parse_args()
    seeds = range(2 if given.quick else 5)
    names = [name for name in ("MSRC", "HandWritten4") if name in available()] or ["digits"]
    rows = [measure(name, rate, seeds) for name in names for rate in RATES]
    print(f"\nACC, rows shuffled, mean of {len(seeds)} seeds\n")
    print("| | missing | agtf | k-means, means filled in |\n|---|---|---|---|")
    for row in rows:
        ours = f"{row['agtf']:.3f}" if row["agtf"] is not None else "too few complete samples"
        print(f"| {row['dataset']} | {row['missing']:.0%} | {ours} | {row['imputed k-means']:.3f} |")
    if given.json:
        with open(given.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
