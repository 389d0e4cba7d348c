#!/usr/bin/env python3
"""Whole optimizer steps of the same model in PyTorch: what bench_training and bench_step are compared with.

Float32 weights, with bf16 autocast unless told otherwise, flash attention through scaled_dot_product_attention, fused
AdamW, gradients clipped to norm 1; eager, or through torch.compile. Micro-batches that do not fit a GPU are halved, as
bench_training does. Prints and writes one JSON object.
"""

import argparse
import json
import math
import pathlib
import resource
import time
import tomllib

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    """LayerNorm (gpt2) or RMSNorm (llama)."""

    def __init__(self, shape):
        super().__init__()
        self.epsilon = shape.get("norm_epsilon", 1e-5)
        self.weight = nn.Parameter(torch.ones(shape["hidden_size"]))
        self.bias = nn.Parameter(torch.zeros(shape["hidden_size"])) if shape["family"] == "gpt2" else None

    def forward(self, x):
        if self.bias is None:
            return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


class Attention(nn.Module):
    """Causal, grouped-query."""

    def __init__(self, shape):
        super().__init__()
        gpt2 = shape["family"] == "gpt2"
        self.heads = shape["heads"]
        self.kv_heads = shape.get("kv_heads", self.heads)
        self.width = shape.get("head_dim", shape["hidden_size"] // self.heads)
        rows = (self.heads + 2 * self.kv_heads) * self.width
        self.qkv = nn.Linear(shape["hidden_size"], rows, bias=shape.get("qkv_bias", gpt2))
        self.out = nn.Linear(self.heads * self.width, shape["hidden_size"], bias=gpt2)

    def forward(self, x, rotation):
        batch, length, _ = x.shape
        parts = [self.heads * self.width, self.kv_heads * self.width, self.kv_heads * self.width]
        q, k, v = (
            part.view(batch, length, -1, self.width).transpose(1, 2) for part in self.qkv(x).split(parts, dim=-1)
        )
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        grouped = self.heads != self.kv_heads
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


def rotate(x, rotation):
    """Halves layout, as kernels/math/pointwise.h has it."""
    cosine, sine = rotation
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1).to(x.dtype)


class Mlp(nn.Module):
    """GELU (gpt2) or SwiGLU (llama)."""

    def __init__(self, shape):
        super().__init__()
        self.gelu = shape["family"] == "gpt2"
        width = shape.get("ffn_hidden_size", 4 * shape["hidden_size"])
        self.up = nn.Linear(shape["hidden_size"], width if self.gelu else 2 * width, bias=self.gelu)
        self.down = nn.Linear(width, shape["hidden_size"], bias=self.gelu)

    def forward(self, x):
        if self.gelu:
            return self.down(F.gelu(self.up(x), approximate="tanh"))
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Layer(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.attention_norm, self.attention = Norm(shape), Attention(shape)
        self.mlp_norm, self.mlp = Norm(shape), Mlp(shape)

    def forward(self, x, rotation):
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    """Returns the mean loss of a batch."""

    def __init__(self, shape, padding):
        super().__init__()
        gpt2 = shape["family"] == "gpt2"
        padded = math.ceil(shape["vocab_size"] / padding) * padding
        self.vocab = shape["vocab_size"]
        self.tokens = nn.Embedding(padded, shape["hidden_size"])
        self.positions = nn.Embedding(shape["sequence_length"], shape["hidden_size"]) if gpt2 else None
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape["layers"]))
        self.norm = Norm(shape)
        self.head = nn.Linear(shape["hidden_size"], padded, bias=False)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=shape.get("init_std", 0.02))
        if shape.get("tie_embeddings", gpt2):
            self.head.weight = self.tokens.weight
        if not gpt2:
            width = shape.get("head_dim", shape["hidden_size"] // shape["heads"])
            frequencies = shape.get("rope_theta", 10000.0) ** (-torch.arange(0, width, 2).float() / width)
            angles = torch.outer(torch.arange(shape["sequence_length"]).float(), frequencies)
            self.register_buffer("cosine", angles.cos(), persistent=False)
            self.register_buffer("sine", angles.sin(), persistent=False)

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        rotation = None
        if self.positions is None:
            rotation = (self.cosine, self.sine)
        else:
            x = x + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, rotation)
        logits = self.head(self.norm(x))[..., : self.vocab]
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def measure(shape, arguments, sequences, micro_batches):
    """Seconds of a step (median) and the last loss."""
    device = torch.device(arguments.device)
    torch.manual_seed(1)
    with device:
        # Tensor cores like whole tiles of rows; a processor would only copy the logits to leave them out.
        model = Transformer(shape, padding=128 if device.type == "cuda" else 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    compiled = torch.compile(model) if arguments.mode == "compile" else model
    drawn = torch.randint(shape["vocab_size"], (micro_batches, 2, sequences, arguments.sequence), device=device)
    times = []
    for _ in range(arguments.steps + 3):
        start = time.perf_counter()
        total = torch.zeros((), device=device)
        for tokens, targets in drawn:
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=arguments.precision == "bf16"):
                loss = compiled(tokens, targets) / micro_batches
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        last = total.item()  # waits for the device
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    assert math.isfinite(last), "the loss is not finite"
    return sorted(times[3:])[len(times[3:]) // 2], last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a [model] section")
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--sequences", type=int, default=32, help="of a micro-batch")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--steps", type=int, default=5, help="that are timed, behind three that are not")
    parser.add_argument("--mode", choices=("eager", "compile"), default="compile")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--precision", choices=("bf16", "fp32"), default="bf16", help="of products: autocast, or none")
    parser.add_argument("--threads", type=int, help="of the processor; PyTorch's choice where absent")
    parser.add_argument("--json", help="also write the result there")
    arguments = parser.parse_args()
    shape = tomllib.loads(pathlib.Path(arguments.model).read_text())["model"]
    shape["sequence_length"] = arguments.sequence
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.device == "cuda":
        torch.set_float32_matmul_precision("high")

    sequences, micro_batches = arguments.sequences, arguments.micro_batches
    while True:
        try:
            seconds, loss = measure(shape, arguments, sequences, micro_batches)
            break
        except torch.cuda.OutOfMemoryError:
            if sequences == 1:
                raise
        torch.cuda.empty_cache()
        sequences, micro_batches = sequences // 2, micro_batches * 2
    row = {
        "model": pathlib.Path(arguments.model).stem,
        "mode": arguments.mode,
        "torch": torch.__version__,
        "precision": arguments.precision,
        "sequence": arguments.sequence,
        "sequences": sequences,
        "micro_batches": micro_batches,
        "step_seconds": seconds,
        "tokens_per_second": arguments.sequence * sequences * micro_batches / seconds,
        "loss": loss,
    }
    if arguments.device == "cuda":
        row["peak_bytes"] = torch.cuda.max_memory_reserved()
    else:
        row["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(row))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
