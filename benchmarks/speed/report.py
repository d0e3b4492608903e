"""Writes speed.md and speed.png from what speed.py measured."""

from math import log
from pathlib import Path
from statistics import mean, stdev

from tfm_lib.show.figure import INK, PALE, Figure, style

# Goals of the project: what is measured, relative to what, and how much is wanted.
GOALS = {
    "training, small, dropout": 1.5,
    "training, small, no dropout": 1.25,
    "training, larger, dropout": 1.4,
    "greedy, small, batch 1": 2.0,
    "greedy, small, batch 32": 4.0,
    "greedy, larger, batch 32": 4.5,
    "beam 4, small, 16 tokens": 1.6,
    "beam 4, small, 128 tokens": 1.6,
    "beam 4, larger, 16 tokens": 1.6,
    "beam 4, larger, 128 tokens": 1.6,
}
TITLES = {
    "training, small, dropout": "Training step, d_model 128, 2 + 2 layers, dropout 0.1",
    "training, small, no dropout": "The same without any dropout",
    "training, larger, dropout": "Training step, d_model 256, 4 + 4 layers, dropout 0.1",
    "greedy, small, batch 1": "Greedy decoding of 32 tokens, d_model 128, batch 1",
    "greedy, small, batch 32": "Greedy decoding of 32 tokens, d_model 128, batch 32",
    "greedy, larger, batch 32": "Greedy decoding of 32 tokens, d_model 256, 4 + 4 layers, batch 32",
    "beam 4, small, 16 tokens": "Beam search, 4 beams, 16 tokens, d_model 128, batch 32, relative to BART's",
    "beam 4, small, 128 tokens": "Beam search, 4 beams, 128 tokens, d_model 128, batch 32, relative to BART's",
    "beam 4, larger, 16 tokens": "Beam search, 4 beams, 16 tokens, d_model 256, 4 + 4 layers, batch 32, to BART's",
    "beam 4, larger, 128 tokens": "Beam search, 4 beams, 128 tokens, d_model 256, 4 + 4 layers, batch 32, to BART's",
}


def best_peer(name: str, rows: dict) -> str:
    """The fastest one that is not ours. d2l's decoding is left out: it is not correct."""
    peers = [peer for peer in rows if peer != "tfm_lib" and not (peer == "d2l" and name.startswith("greedy"))]
    return max(peers, key=lambda peer: rows[peer]["median"])


def growth(rows: dict, kind: str, what: str) -> float:
    """The exponent e with which a figure of attention grows as n^e, from 512, or the first length, to the last."""
    lengths = sorted(map(int, rows))
    first = 512 if 512 in lengths else lengths[0]
    small, large = (rows[str(n)][kind][what] if str(n) in rows else rows[n][kind][what] for n in (first, lengths[-1]))
    return log(large / small) / log(lengths[-1] / first)


def goals_table(results: dict) -> list[str]:
    """Goal beside measured value, a row each."""
    lines = ["| | goal | measured (least to most) | best correct peer |", "|---|---|---|---|"]
    for name, goal in GOALS.items():
        rows = results[name]
        ours = rows["tfm_lib"]
        best = best_peer(name, rows)
        lines.append(
            f"| {TITLES[name]} | {goal} | **{ours['median']:.2f}** ({ours['min']:.2f} to {ours['max']:.2f}) "
            f"| {rows[best]['median']:.2f} ({best}) |"
        )
    exponent = growth(results["attention"], "tfm_lib.attention", "bytes")
    lines.append(f"| Memory of attention, forward, from n = 512 to 4096 | n^1 | **n^{exponent:.2f}** | |")
    return lines


def ratio_table(rows: dict) -> list[str]:
    """Peers by speed, with the sites of their dropout where there is one."""
    sites = any("dropout" in row for row in rows.values())
    head = "| | speed (least to most) | ms |" + (" dropout on |" if sites else "")
    lines = [head, "|---|---|---|" + ("---|" if sites else "")]
    for name, row in sorted(rows.items(), key=lambda item: -item[1]["median"]):
        line = f"| {name} | {row['median']:.2f} ({row['min']:.2f} to {row['max']:.2f}) | {row['ms']:.1f} |"
        lines.append(line + (f" {row['dropout']} |" if sites else ""))
    return lines


def attention_table(rows: dict) -> list[str]:
    """Time and memory of both ways, by length."""
    kinds = list(next(iter(rows.values())))
    lines = ["| n | " + " | ".join(f"{kind}, ms | MiB" for kind in kinds) + " |", "|---" * (1 + 2 * len(kinds)) + "|"]
    for length, row in rows.items():
        cells = " | ".join(f"{row[kind]['ms']:.1f} | {row[kind]['bytes'] / 2**20:.1f}" for kind in kinds)
        lines.append(f"| {length} | {cells} |")
    exponents = ", ".join(f"{kind}: memory n^{growth(rows, kind, 'bytes'):.2f}" for kind in kinds)
    return [*lines, "", f"From n = 512 on, {exponents}."]


def learning_table(rows: dict) -> list[str]:
    """Steps and CPU seconds until nine of ten stories are exactly right."""
    lines = ["| | steps, seed by seed | CPU seconds |", "|---|---|---|"]
    for name, runs in rows.items():
        steps = ", ".join(str(run["steps"] or f"never ({run['exact']:.0%} in the end)") for run in runs)
        seconds = [run["seconds"] for run in runs]
        spread = f" ± {stdev(seconds):.0f}" if len(seconds) > 1 else ""
        lines.append(f"| {name} | {steps} | {mean(seconds):.0f}{spread} |")
    return lines


def picture(results: dict) -> Figure:
    """Our speed and that of the best correct peer, in each discipline, relative to its baseline."""
    names = list(GOALS)
    ours = [results[name]["tfm_lib"] for name in names]
    peers = [best_peer(name, results[name]) for name in names]
    best = [results[name][peer]["median"] for name, peer in zip(names, peers, strict=True)]
    reached = sum(o["median"] >= GOALS[name] for name, o in zip(names, ours, strict=True))
    with style():
        fig = Figure(
            "How many times as fast as torch.nn.Transformer (beam search: as BART's). Dark: tfm_lib, with a line "
            "from its slowest round to its fastest; pale: the best correct peer, by name; diamonds: the goals, of "
            f"which {reached} of {len(names)} are reached.",
            height=4.2,
        )
        ax = fig.subplots()
        places = range(len(names))
        spread = [[o["median"] - o["min"] for o in ours], [o["max"] - o["median"] for o in ours]]
        above, below = [p - 0.2 for p in places], [p + 0.2 for p in places]
        ax.barh(above, [o["median"] for o in ours], 0.38, xerr=spread, ecolor=INK)
        ax.barh(below, best, 0.38, color=PALE)
        for place, (o, peer, speed) in enumerate(zip(ours, peers, best, strict=True)):
            ax.text(0.05, above[place], f"tfm_lib {o['median']:.2f}", color="white", weight="bold", va="center")
            ax.text(0.05, below[place], f"{peer.removeprefix('transformers ')} {speed:.2f}", va="center")
        ax.plot([GOALS[name] for name in names], above, "D", ms=7, mfc="white", mec=INK, mew=1.4, label="goal")
        ax.axvline(1, color=INK, linewidth=0.8, linestyle=":", zorder=0.5)
        ax.set_yticks(places, names)
        ax.invert_yaxis()
        ax.set_xlabel("times as fast as torch.nn.Transformer (beam search: as BART's)")
        ax.legend(loc="upper right", frameon=False)
    return fig


def write(results: dict, folder: Path) -> None:
    """Write speed.md and speed.png into `folder`."""
    fig = picture(results)
    (folder / "speed.png").write_bytes(fig.png())
    facts = [f"- {name}: {value}" for name, value in results["machine"].items()]
    notes = folder / "speed_notes.md"
    lines = [
        "# Speed beside other implementations",
        "",
        "Written by `make bench`. All take turns in random order, with one thread, in CPU time of the process. A speed",
        "says how many times as fast as torch.nn.Transformer something is (beam search: as BART's): in each round the",
        "two times give a ratio, and the figure is the median over the rounds. Shapes, data, loss and Adam are equal;",
        "BART and Marian use one table for embeddings and output. torch.nn.Transformer has no cache: for each token",
        "it computes the whole text so far anew. d2l's decoding is not correct (it adds the encoding of position 0 to",
        "every token), so it does not count as a best peer there. With the same weights our logits differ",
        f"from torch.nn.Transformer's by at most {results['logits differ by']:.0e}, and both write the same tokens.",
        "",
        *facts,
        "",
        f"![{fig.alt}](speed.png)",
        "",
        "## Goals",
        "",
        *goals_table(results),
        "",
        *(notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []),
    ]
    for name, title in TITLES.items():
        lines += ["", f"## {title}", "", *ratio_table(results[name])]
    if "greedy, small, batch 1, compiled" in results:
        rows = results["greedy, small, batch 1, compiled"]
        seconds = rows["tfm_lib, compiled decoder"]["seconds to compile"]
        words = (
            f"`model.decoder.compile(dynamic=True)` before the first text, which then took {seconds:.0f} s; the same"
        )
        lines += ["", "## Greedy decoding, batch 1, with a compiled decoder", "", f"{words} tokens.", ""]
        lines += ratio_table(rows)
    lines += ["", "## Attention alone, 8 heads of width 64, forward", "", *attention_table(results["attention"])]
    lines += ["", "## Until 9 of 10 newsroom stories are exactly right", "", *learning_table(results["learning"])]
    (folder / "speed.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
