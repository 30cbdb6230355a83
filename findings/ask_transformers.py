"""Runs a program from standard input beside `transformers serve` with a tiny model that says one text.

`python ask_transformers.py TEXT` (transformers[serving], torch). The program has `post(path, body)`, which
gives the answer as text.
"""

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import tokenizers
import torch
import transformers

END, BEGIN = "<|im_end|>", "<|im_start|>"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}{{ call | tojson }}{% endfor %}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
program = sys.stdin.read()


def write(folder, text):
    """A Qwen2 of one layer, in which each piece of the text leads to the next one."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    spelled = {each: chr(each) if each in plain else chr(next(others)) for each in range(256)}
    words = [*spelled.values(), BEGIN, END]

    def spell(piece):
        return "".join(spelled[byte] for byte in piece.encode())

    chain, at = [spelled[10]], 0
    while at < len(text):
        # No piece twice, or it would lead to two others.
        size = next(n for n in range(3, 99) if spell(text[at : at + n]) not in chain or at + n > len(text))
        piece = spell(text[at : at + size])
        chain.append(chain.pop() + piece if piece in chain else piece)
        at += size
    chain.append(END)
    words += chain[1:-1]
    vocabulary = {word: number for number, word in enumerate(words)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocabulary, merges=[]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens([BEGIN, END])
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END)
    fast.chat_template = TEMPLATE
    width = 64 * -(-len(chain) // 64)
    config = transformers.Qwen2Config(
        vocab_size=len(words), hidden_size=width, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=1, num_key_value_heads=1, max_position_embeddings=4096,
        eos_token_id=vocabulary[END], tie_word_embeddings=False,
    )  # fmt: skip
    model = transformers.Qwen2ForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name else 0.0)
        for place, (word, following) in enumerate(itertools.pairwise(chain)):
            model.model.embed_tokens.weight[vocabulary[word], place] = 1.0
            model.lm_head.weight[vocabulary[following], place] = 4.0
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


with socket.socket() as probe:
    probe.bind(("127.0.0.1", 0))
    port = probe.getsockname()[1]
with tempfile.TemporaryDirectory() as folder:
    write(folder, sys.argv[1])

    def post(path, body):
        data = json.dumps({"model": folder, **body}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"}
        )
        return urllib.request.urlopen(request, timeout=120).read().decode()

    command = [str(Path(sys.executable).with_name("transformers")), "serve", "--port", str(port)]
    quiet, environ = subprocess.DEVNULL, {**os.environ, "HF_HUB_OFFLINE": "1"}
    server = subprocess.Popen([*command, "--host", "127.0.0.1"], stdout=quiet, stderr=quiet, env=environ)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except OSError:
                time.sleep(0.2)
        print("transformers", transformers.__version__)
        exec(program)
    finally:
        server.terminate()
        server.wait()
