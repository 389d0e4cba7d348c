#!/usr/bin/env python3
"""Penstock's tokens against those of `tokenizers` and `tiktoken` themselves: equal ids on texts in many scripts.

    tokenizer_check.py PENSTOCK PRINT_TOKENS [--rates TEXT]    needs both libraries; scripts/tokenizer_check brings them

With --rates also how fast: of encoding and of training a vocabulary, on that file, with one thread and with all,
each measure taken in turn with the library's, the best of some rounds. Ratios above 1: Penstock is faster.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unicodedata

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/data/fixtures"))

if len(sys.argv) > 1 and sys.argv[1] == "--their-seconds":  # a process of its own: the thread count is read once
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    what, path, text = sys.argv[2:5]
    if what == "encode":
        tokenizer = Tokenizer.from_file(path)
        lines = [line for line in pathlib.Path(text).read_bytes().decode().replace("\n", "\n\0").split("\0") if line]
        begin = time.perf_counter()
        ids = [encoded.ids for encoded in tokenizer.encode_batch_fast(lines, add_special_tokens=False)]
        print(time.perf_counter() - begin, sum(map(len, ids)))
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        begin = time.perf_counter()
        tokenizer.train([text], trainers.BpeTrainer(vocab_size=int(what), min_frequency=2, show_progress=False,
                                                    special_tokens=["<|endoftext|>"],
                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        print(time.perf_counter() - begin, 0)
        tokenizer.save(path)
    sys.exit(0)

import tiktoken  # noqa: E402
import tiktoken_ext.openai_public as published  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

import make_tokenizer_classes as classes  # noqa: E402

PENSTOCK, PRINT_TOKENS = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])


def more_texts():
    """Besides the fixtures' texts: every assigned character of the basic plane, and mixtures of blocks."""
    made = classes.texts()
    known = [chr(c) for c in [*range(0xD800), *range(0xE000, 0x20000)] if unicodedata.category(chr(c)) != "Cn"]
    made += ["".join(known[i:i + 50]) for i in range(0, len(known), 50)]
    made += [f"a{character} {character}b\n" for character in known if unicodedata.category(character)[0] in "MZC"]
    random.seed(5)
    for _ in range(3000):
        start = random.randrange(len(known))
        near = known[start:start + 200]
        made.append("".join(random.choice([random.choice(near), random.choice(" \n\t\r'a1.\u0301"), random.choice(known)])
                            for _ in range(random.randint(1, 40))))
    return made


def ours(tokenizer, texts):
    given = "".join(json.dumps(text) + "\n" for text in texts)
    out = subprocess.run([PRINT_TOKENS, tokenizer], input=given, capture_output=True, text=True, check=True).stdout
    rows = [[int(word) for word in line.split()] for line in out.split("\n")[:-1]]
    return rows[0::2], rows[1::2]


def compare(name, texts, theirs, our_ids):
    wrong = [i for i in range(len(texts)) if theirs[i] != our_ids[i]]
    for i in wrong[:3]:
        print(f"  {texts[i]!r}\n    theirs {theirs[i]}\n    ours   {our_ids[i]}")
    print(f"{name}: {len(texts) - len(wrong)} of {len(texts)} texts equal, {sum(map(len, theirs))} tokens")
    return not wrong


def check_tokenizers(texts):
    good = True
    for name in ("hf_tokenizer", "tokenizer_llama3", "tokenizer_qwen2", "tokenizer_o200k"):
        path = SOURCE / f"tests/data/fixtures/{name}.json"
        library = Tokenizer.from_file(str(path))
        recognised, plain = ours(path, texts)
        for how, ids in (("recognised", recognised), ("plain", plain)):
            library.encode_special_tokens = how == "plain"
            # Its normal form knows no marks younger than its tables (Python's are Unicode 14 or newer).
            kept = [i for i, text in enumerate(texts) if library.normalizer is None
                    or library.normalizer.normalize_str(text) == unicodedata.normalize("NFC", text)]
            if len(kept) < len(texts):
                print(f"{name}: {len(texts) - len(kept)} texts left out, whose NFC is another in `tokenizers` than in Python")
            theirs = [library.encode(texts[i], add_special_tokens=False).ids for i in kept]
            good &= compare(f"tokenizers, {name}, special {how}", [texts[i] for i in kept], theirs, [ids[i] for i in kept])
    return good


def published_pattern(name):
    """The pattern of a published encoding; its ranks are not fetched."""
    published.load_tiktoken_bpe = published.data_gym_to_mergeable_bpe_ranks = lambda *_, **__: {}
    return getattr(published, name)()["pat_str"]


def check_tiktoken(texts):
    import base64
    good = True
    tokens = json.loads((SOURCE / "tests/data/fixtures/tokenizer_o200k.json").read_text())["model"]["vocab"]
    alphabet = {chr(c): b for b, c in tiktoken_alphabet()}
    ranks = sorted(tokens, key=tokens.get)
    ranks = {bytes(alphabet[character] for character in text): i for i, text in enumerate(ranks)}
    pathlib.Path("ranks.tiktoken").write_text(
        "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items()))
    special = {"<|endoftext|>": len(ranks) + 2, "<|fim_prefix|>": len(ranks)}
    for split, encoding in (("gpt2", "r50k_base"), ("p50k", "p50k_base"), ("cl100k", "cl100k_base"), ("o200k", "o200k_base")):
        words = [PENSTOCK, "tokenizer", "convert", "--input", "ranks.tiktoken", "--split", split, "--output", "converted.json"]
        for text, id in special.items():
            words += ["--special", f"{text}={id}"]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        library = tiktoken.Encoding(encoding, pat_str=published_pattern(encoding), mergeable_ranks=ranks, special_tokens=special)
        recognised, plain = ours("converted.json", texts)
        good &= compare(f"tiktoken, {encoding}, special recognised", texts,
                        [library.encode(text, allowed_special="all") for text in texts], recognised)
        good &= compare(f"tiktoken, {encoding}, special plain", texts, [library.encode_ordinary(text) for text in texts], plain)
        again = Tokenizer.from_file("converted.json")
        good &= compare(f"tokenizers, converted from {encoding}", texts, [again.encode(text).ids for text in texts], recognised)
    return good


def tiktoken_alphabet():
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    yield from ((byte, byte) for byte in printable)
    yield from ((byte, 0x100 + i) for i, byte in enumerate(b for b in range(256) if b not in printable))


def seconds(words, environment=None):
    out = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True, env=os.environ | (environment or {}))
    return [float(word) for word in out.stdout.split()]


def measure(text, rounds=5):
    """In turn, so that what else the machine does meets both alike; the best of each counts."""
    size = pathlib.Path(text).stat().st_size / 1e6
    every = len(os.sched_getaffinity(0))
    print(f"{size:.1f} MB of text, {every} processors, load {os.getloadavg()[0]:.1f}, best of {rounds}")
    for vocabulary in (4096, 32768):
        for threads in sorted({1, every}):
            environment = {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false" if threads == 1 else "true"}
            mine, other = [], []
            for _ in range(max(1, rounds // 2)):
                other.append(seconds([sys.executable, __file__, "--their-seconds", vocabulary, "theirs.json", text], environment)[0])
                begin = time.perf_counter()
                words = [PENSTOCK, "tokenizer", "train", "--input", text, "--vocab-size", vocabulary, "--output", "ours.json"]
                subprocess.run([str(word) for word in words], check=True, capture_output=True)
                mine.append(time.perf_counter() - begin)
            merges = [json.loads(pathlib.Path(name).read_text())["model"]["merges"] for name in ("ours.json", "theirs.json")]
            merges = [[merge if isinstance(merge, str) else " ".join(merge) for merge in row] for row in merges]
            assert merges[0] == merges[1], "the merges differ"
            print(f"train {vocabulary}, {threads} threads: ours {min(mine):.2f} s, theirs {min(other):.2f} s, "
                  f"ratio {min(other) / min(mine):.2f}, {len(merges[0])} merges equal")
    for split in ("gpt2", "llama3", "qwen2", "o200k"):
        made = json.loads(pathlib.Path("ours.json").read_text())
        if split != "gpt2":
            model = json.loads((SOURCE / f"tests/data/fixtures/tokenizer_{split}.json").read_text())
            made |= {key: model[key] for key in ("normalizer", "pre_tokenizer")}
        pathlib.Path("rates.json").write_text(json.dumps(made))
        for threads in sorted({1, every}):
            environment = {"RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false" if threads == 1 else "true"}
            mine, other = [], []
            for _ in range(rounds):
                mine.append(seconds([PRINT_TOKENS, "rates.json", text, threads]))
                other.append(seconds([sys.executable, __file__, "--their-seconds", "encode", "rates.json", text], environment))
            assert mine[0][1] == other[0][1], f"{mine[0][1]} tokens, theirs {other[0][1]}"
            best, their_best = min(mine)[0], min(other)[0]
            print(f"encode, {split}, {threads} threads: ours {size / best:.1f} MB/s, theirs {size / their_best:.1f} MB/s, "
                  f"ratio {their_best / best:.2f}")


def main():
    text = str(pathlib.Path(sys.argv[4]).resolve()) if sys.argv[3:4] == ["--rates"] else None
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        texts = more_texts()
        if not (check_tokenizers(texts) & check_tiktoken(texts)):
            sys.exit("tokenizer_check: there are differences")
        if text:
            measure(text)


if __name__ == "__main__":
    main()
