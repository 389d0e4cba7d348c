#!/usr/bin/env python3
"""Writes profile.json beside this file: the costs that docs/planner.md plans with. Nothing was measured. A layer
(attention 0.45 of it, MLP 0.55) takes 0.4 ms and 14.6 ms more for every sequence of a micro-batch, a third of it
each in F, I and W; the embedding takes 0.2 of a layer, the head 0.88, all of it in I. Bytes are 0: `plan` and
`replay` count those of the job."""
import json
import pathlib

SIZES = (1, 2, 4)
MODEL = {
    "family": "llama", "layers": 32, "hidden_size": 4096, "heads": 32, "kv_heads": 32, "head_dim": 128,
    "ffn_hidden_size": 11008, "sequence_length": 4096, "vocab_size": 50304, "vocab_pad": 128,
    "tie_embeddings": False, "dropout": 0.0, "norm_epsilon": 1e-5, "rope_theta": 10000.0, "init_std": 0.02,
    "qkv_bias": False, "qk_norm": False, "document_mask": False,
}
# Of a layer; how it is spent in F, I and W; what `selective` and `full` rebuild, in F.
UNITS = {
    "embedding": (0.20, (0.5, 0.5, 0), 0, 0),
    "attention": (0.45, (1 / 3, 1 / 3, 1 / 3), 0.02, 0.8),
    "mlp": (0.55, (1 / 3, 1 / 3, 1 / 3), 0.08, 0.7),
    "head": (0.88, (0, 1, 0), 0, 0),
}
C, F, V = MODEL["hidden_size"], MODEL["ffn_hidden_size"], MODEL["vocab_size"]
PARAMETERS = {"embedding": V * C, "attention": 4 * C * C, "mlp": 3 * C * F, "head": V * C}


def timing(seconds):
    return {"median": seconds, "spread": 0.0, "samples": 1}


def unit(kind):
    share, split, selective, full = UNITS[kind]
    sizes = []
    for size in SIZES:
        seconds = share * (0.4e-3 + 14.6e-3 * size)
        times = [part * seconds for part in split]
        sizes.append({
            "micro_batch": size, "workspace_bytes": 0, "side_band_bytes": 0,
            "modes": [{
                "mode": mode, "forward": timing(times[0]), "recompute": timing(times[0] * rebuilt),
                "backward_input": timing(times[1]), "backward_weight": timing(times[2]),
                "forward_bytes": 0, "kept_bytes": 0, "weight_bytes": 0, "transient_bytes": 0,
            } for mode, rebuilt in (("none", 0), ("selective", selective), ("full", full))],
        })
    parameters = PARAMETERS[kind]
    return {
        "kind": kind, "parameters": parameters, "flops": 0 if kind == "embedding" else 2 * parameters * MODEL["sequence_length"],
        "resident_bytes": 18 * parameters, "gradient_bytes": 4 * parameters,
        "optimizer_step": timing(30 * parameters / 2e12), "sizes": sizes,
    }


profile = {
    "schema": 1, "device": "paper (configs/tuning/make_profile.py)", "versions": {}, "threads": 1, "compute": "bf16",
    "model": MODEL, "tied_embeddings": False, "tied_exchange_bytes": 0, "tied_shared_bytes": 0,
    "shapes": [{"micro_batch": size, "boundary_bytes": 2 * size * MODEL["sequence_length"] * C, "rank_bytes": 0}
               for size in SIZES],
    "units": [unit(kind) for kind in UNITS],
    "links": [{"from": -1, "to": -1, "latency": 10e-6, "bandwidth": 45e9, "bandwidth_alone": 0.0}],
    "reduction": None, "traffic_slowdown": 0.0,
}
path = pathlib.Path(__file__).parent / "profile.json"
path.write_text(json.dumps(profile, indent=1) + "\n")
