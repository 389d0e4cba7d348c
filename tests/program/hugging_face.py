#!/usr/bin/env python3
"""Penstock against transformers itself, both ways: logits within 1e-4 of the largest, in fp32; greedy text equal.

    hugging_face.py PENSTOCK PRINT_LOGITS     needs torch and transformers; scripts/hugging_face_check brings them

Models are made here, at random; nothing is fetched.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
import torch  # noqa: E402
from transformers import (AutoModelForCausalLM, AutoTokenizer, GPT2Config, LlamaConfig, Qwen2Config,  # noqa: E402
                          Qwen3Config)

PENSTOCK, PRINT_LOGITS = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
VOCABULARY, POSITIONS = 300, 64
PROMPT = "A pipeline is"
TOLERANCE = 1e-4

GPT2 = dict(vocab_size=VOCABULARY, n_embd=24, n_layer=2, n_head=3, n_positions=POSITIONS)
LLAMA = dict(vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=POSITIONS, tie_word_embeddings=False)


def rope(kind, theta=10000.0, **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=theta, **more))


# name: config, element type of the file, whether the bias after attention must be made zero
THEIRS = {
    "gpt2": (GPT2Config(**GPT2), torch.float32, False),
    "gpt2-untied": (GPT2Config(**GPT2, tie_word_embeddings=False, n_inner=36, activation_function="gelu_pytorch_tanh"),
                    torch.bfloat16, False),
    "llama": (LlamaConfig(**LLAMA, rms_norm_eps=1e-5), torch.float32, False),
    "llama-tied-wide": (LlamaConfig(**(LLAMA | dict(tie_word_embeddings=True)), head_dim=16), torch.bfloat16, False),
    "llama-linear": (LlamaConfig(**LLAMA, **rope("linear", factor=4.0)), torch.float32, False),
    "llama-3.1": (LlamaConfig(**LLAMA, head_dim=16, **rope("llama3", 500.0, factor=8.0, low_freq_factor=1.0,
                                                         high_freq_factor=4.0, original_max_position_embeddings=32)),
                  torch.float32, False),
    "llama-bias": (LlamaConfig(**LLAMA, attention_bias=True), torch.float32, True),
    "qwen2": (Qwen2Config(**LLAMA, **rope("default", 1e6)), torch.float16, False),
    "qwen3": (Qwen3Config(**LLAMA, head_dim=16), torch.bfloat16, False),
    "qwen3-bias": (Qwen3Config(**LLAMA, head_dim=8, attention_bias=True), torch.float32, True),
}

# Those that come with the tokenizer of their own class: which, its end of text, and elements that no token has.
TOKENIZERS = {"llama-3.1": ("tokenizer_llama3", "<|end_of_text|>", 5), "qwen2": ("tokenizer_qwen2", "<|endoftext|>", 0),
              "qwen3": ("tokenizer_qwen2", "<|im_end|>", 11)}

# name: keys of [model] of a job that Penstock trains, and the class that it becomes
OURS = {
    "ours-gpt2": ('family = "gpt2"\nlayers = 3\nhidden_size = 24\nheads = 3\ndropout = 0.1\nqkv_bias = false', "gpt2"),
    "ours-llama": ('family = "llama"\nlayers = 2\nhidden_size = 24\nheads = 4\nkv_heads = 2\nhead_dim = 8\n'
                   'ffn_hidden_size = 40\nrope_scaling = {type = "linear", factor = 2.0}', "llama"),
    "ours-llama3": ('family = "llama"\nlayers = 2\nhidden_size = 24\nheads = 4\nffn_hidden_size = 40\n'
                    'tie_embeddings = true\nrope_theta = 500.0\nrope_scaling = {type = "llama3", factor = 8.0, '
                    'original_max_position_embeddings = 32}', "llama"),
    "ours-qwen2": ('family = "llama"\nlayers = 2\nhidden_size = 24\nheads = 4\nkv_heads = 1\nhead_dim = 10\n'
                   'ffn_hidden_size = 40\nqkv_bias = true', "qwen2"),
    "ours-qwen3": ('family = "llama"\nlayers = 2\nhidden_size = 24\nheads = 4\nffn_hidden_size = 40\nqkv_bias = true\n'
                   'qk_norm = true', "qwen3"),
}


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(map(str, command))}\n{done.stdout.decode()}{done.stderr.decode()}")
    return done.stdout


def check(name, what, holds, detail=""):
    if not holds:
        sys.exit(f"FAILED: {name}: {what} {detail}")


def fill(model, zero_output_bias):
    """Weights with which nothing drops out: norms are not 1, biases not 0, logits far apart."""
    for name, value in model.named_parameters():
        spread = torch.randn_like(value)
        is_norm = value.dim() == 1 and ("norm" in name or ".ln_" in name and name.endswith("weight"))
        value.data.copy_(1 + 0.2 * spread if is_norm else 0.3 * spread)
        if zero_output_bias and name.endswith("o_proj.bias"):
            value.data.zero_()


def load(folder):
    model, facts = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                        output_loading_info=True)
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        check(folder, f"transformers reports {problem}", not facts[problem], facts[problem])
    return model.eval()


def compare(name, folder, job):
    """What transformers computes from `folder` and Penstock from the newest checkpoint of `job`."""
    model = load(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokens = tokenizer(PROMPT * 3)["input_ids"][:40]
    ours = torch.tensor([[float(value) for value in row.split()]
                         for row in run(PRINT_LOGITS, job, *tokens).decode().splitlines()])
    with torch.no_grad():
        theirs = model(torch.tensor([tokens])).logits[0]
        prompt = tokenizer(PROMPT, return_tensors="pt")
        text = model.generate(**prompt, max_new_tokens=20, do_sample=False)
    check(name, "logits have shapes", ours.shape == theirs.shape, f"{ours.shape}, {theirs.shape}")
    distance = float((ours - theirs).abs().max() / theirs.abs().max())
    check(name, "logits differ by", distance <= TOLERANCE, distance)
    their_text = tokenizer.decode(text[0], skip_special_tokens=True)
    our_text = run(PENSTOCK, "generate", job, "--prompt", PROMPT, "--tokens", 20, "--temperature", 0, "--set",
                   "precision.compute=fp32").decode(errors="replace")[:-1]
    check(name, "greedy texts differ:", our_text == their_text, f"{our_text!r}, {their_text!r}")
    return distance


def write_tokenizer(text):
    run(PENSTOCK, "tokenizer", "train", "--input", text, "--vocab-size", VOCABULARY, "--output", "tokenizer.json")


def tokenizer_folder(name, source, end):
    """What transformers reads a tokenizer from."""
    pathlib.Path(name).mkdir()
    pathlib.Path(f"{name}/tokenizer.json").write_bytes(pathlib.Path(source).read_bytes())
    pathlib.Path(f"{name}/tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": end}))
    return name


def from_transformers():
    for seed, (name, (config, dtype, zero_output_bias)) in enumerate(THEIRS.items()):
        torch.manual_seed(seed)
        folder = "tokenizer"
        if name in TOKENIZERS:
            fixture, end, unused = TOKENIZERS[name]
            folder = tokenizer_folder(f"{name}-tokenizer", SOURCE / f"tests/data/fixtures/{fixture}.json", end)
            config.vocab_size = len(AutoTokenizer.from_pretrained(folder)) + unused
        end = AutoTokenizer.from_pretrained(folder).eos_token_id
        config.bos_token_id = config.eos_token_id = config.pad_token_id = end
        model = AutoModelForCausalLM.from_config(config)
        fill(model, zero_output_bias)
        model.to(dtype).save_pretrained(f"{name}-theirs", **({"max_shard_size": "20KB"} if seed % 2 else {}))
        AutoTokenizer.from_pretrained(folder).save_pretrained(f"{name}-theirs")
        run(PENSTOCK, "import", f"{name}-theirs", "-o", f"runs/{name}")
        job = f"runs/{name}/job.toml"
        there = compare(name, f"{name}-theirs", job)
        run(PENSTOCK, "export", f"runs/{name}", "--to", "hf", "-o", f"{name}-ours", "--shard-size",
            "30KB" if seed % 3 else "5GB")
        back = compare(name, f"{name}-ours", job)
        before, after = (load(f"{name}-{whose}").state_dict() for whose in ("theirs", "ours"))
        # A llama with biases on queries, keys and values comes back as qwen2, which has no bias after attention.
        names = {key for key in before if not key.endswith("o_proj.bias") or key in after}
        check(name, "tensors differ:", names == set(after), set(before) ^ set(after))
        check(name, "values differ", all(torch.equal(before[key], after[key]) for key in names))
        print(f"{name}: logits differ by {there:.1e} imported, {back:.1e} exported; text equal", flush=True)


def from_penstock():
    run(PENSTOCK, "data", "prepare", "--input", "text.txt", "--tokenizer", "tokenizer.json", "--output", "tokens")
    for name, (keys, kind) in OURS.items():
        pathlib.Path(f"{name}.toml").write_text(f"""
[run]
name = "{name}"
steps = 30
[model]
{keys}
sequence_length = {POSITIONS}
init_std = 0.2
[data]
train = ["tokens"]
tokenizer = "tokenizer.json"
[batch]
global = 4
micro = 2
[parallel]
pipeline = 2
[learning_rate]
max = 1e-2
[log]
console = "quiet"
""")
        run(PENSTOCK, "train", f"{name}.toml")
        run(PENSTOCK, "export", f"runs/{name}", "-o", name)
        check(name, "its class is", load(name).config.model_type == kind, load(name).config.model_type)
        exact = compare(name, name, f"{name}.toml")
        run(PENSTOCK, "export", f"runs/{name}/checkpoints/step-00000030", "-o", f"{name}-bf16", "--dtype", "bf16")
        full, rounded = load(name).state_dict(), load(f"{name}-bf16").state_dict()
        check(name, "bf16 is rounded otherwise",
              all(torch.equal(full[key].bfloat16().float(), rounded[key]) for key in full))
        # And back: the very checkpoint, but for what only training has.
        run(PENSTOCK, "import", name, "-o", f"runs/{name}-again")
        again = compare(name, name, f"runs/{name}-again/job.toml")
        print(f"{name}: logits differ by {exact:.1e} exported, {again:.1e} imported again; text equal", flush=True)


torch.set_num_threads(1)
with tempfile.TemporaryDirectory(prefix="penstock-hugging-face-") as folder:
    os.chdir(folder)
    pathlib.Path("text.txt").write_text("".join(page.read_text() for page in sorted((SOURCE / "docs").glob("*.md"))))
    write_tokenizer("text.txt")
    tokenizer_folder("tokenizer", "tokenizer.json", "<|endoftext|>")
    from_transformers()
    from_penstock()
print(f"{len(THEIRS)} models of transformers and {len(OURS)} of Penstock: all equal")
