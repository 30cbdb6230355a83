"""A tiny model that plays a script, for real servers: its next token depends on the last one alone.

    python scripted_model.py gguf|transformers FOLDER TEXT

Run by the Python of the server that is to have it. The chat template looks for the task in the newest
message of the person and ends the prompt in the token of that task; from there on each token leads to
one other. So templates, parsers, limits and streams are the server's own, and what comes is known.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WIDTH = 512
"""Tokens that have a successor, at most: each is one dimension."""
WINDOW = 65_536
END, BEGIN = "<|im_end|>", "<|im_start|>"
_CALL = '<tool_call>\n{{"name": "read_file", "arguments": {{"path": "{}.txt"}}}}\n</tool_call>'
_BOTH = _CALL.format("a") + "\n" + _CALL.format("b")
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
SCRIPT = {
    "calls": _BOTH,
    "thinking": "<think>\nI look at both.\n</think>\n\n" + _BOTH,
    "image": "A picture.",
    "stop": _NUMBERS,
    "limit": _NUMBERS.upper(),
    "done": "Done.",
}
ENDLESS = ("stop", "limit")
TEMPLATE = (
    "{%- set ns = namespace(task='done') -%}"
    "{%- if tools %}{{ '<|im_start|>system\\n<tools>' }}{% for tool in tools %}{{ tool | tojson }}"
    "{% endfor %}{{ '</tools><|im_end|>\\n' }}{% endif -%}"
    "{%- for message in messages -%}"
    "{%- set text = message.content if message.content is string else '' -%}"
    "{%- if message.content and message.content is not string -%}{%- set found = namespace(text='') -%}"
    "{%- for part in message.content -%}{%- if part.text -%}{%- set found.text = found.text ~ part.text -%}"
    "{%- endif -%}{%- endfor -%}{%- set text = found.text -%}{%- endif -%}"
    "{{ '<|im_start|>' ~ message.role ~ '\\n' }}"
    "{%- if message.reasoning_content %}{{ '<think>\\n' ~ message.reasoning_content ~ '\\n</think>\\n\\n' }}"
    "{% endif -%}{{ text }}"
    "{%- for call in message.tool_calls or [] -%}{%- set of = call.function or call -%}"
    '{{ \'\\n<tool_call>\\n{"name": "\' ~ of.name ~ \'", "arguments": \' }}'
    "{%- if of.arguments is string %}{{ of.arguments }}{% else %}{{ of.arguments | tojson }}{% endif -%}"
    "{{ '}\\n</tool_call>' }}{%- endfor -%}{{ '<|im_end|>\\n' }}"
    "{%- if message.role == 'tool' -%}{%- set ns.task = 'done' -%}{%- elif message.role == 'user' -%}"
    "{%- for task in TASKS -%}{%- if 'TASK ' ~ task in text -%}{%- set ns.task = task -%}{%- endif -%}"
    "{%- endfor -%}{%- if 'TASK resume' in text or 'TASK overflow' in text -%}{%- set ns.task = 'done' -%}"
    "{%- endif -%}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n<|go-' ~ ns.task ~ '|>' }}{%- endif -%}"
).replace("TASKS", repr([each for each in SCRIPT if each != "done"]))


def go(task: str) -> str:
    return f"<|go-{task}|>"


def chains() -> Iterator[tuple[str, list[str]]]:
    """Each task with the pieces of its text, no piece twice in all."""
    taken: set[str] = set()
    for task, text in SCRIPT.items():
        pieces: list[str] = []
        at = 0
        while at < len(text):
            size = next(n for n in range(3, 60) if text[at : at + n] not in taken or at + n > len(text))
            piece, at = text[at : at + size], at + size
            pieces.append(pieces.pop() + piece if piece in taken else piece)
            taken.add(pieces[-1])
        yield task, pieces


def vocabulary(text: str) -> tuple[list[str], list[str], list[str], dict[int, int]]:
    """The words, the merges, the control words and the successors: a trained alphabet, then the script."""
    tokenizers: Any = importlib.import_module("tokenizers")
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=4_000, initial_alphabet=alphabet, show_progress=False, special_tokens=[]
    )
    trained.train_from_iterator([text], trainer)
    learned: dict[str, Any] = json.loads(trained.to_str())["model"]
    words = sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    merges = [each if isinstance(each, str) else " ".join(each) for each in learned["merges"]]
    after: dict[int, int] = {}
    control = [BEGIN, END, *map(go, SCRIPT)]
    starts = {word: len(words) + number for number, word in enumerate(control)}
    words += control
    spelled = dict(_spelling())
    known = {word: number for number, word in enumerate(words)}
    for task, pieces in chains():
        last = first = starts[go(task)]
        for number, piece in enumerate(pieces):
            word = "".join(spelled[byte] for byte in piece.encode())
            if word in known:
                # The same text as a word of the alphabet: as good, as long as it leads on from here alone.
                following = known[word]
            else:
                following = known[word] = len(words)
                words.append(word)
            after[last] = last = following
            first = following if number == 0 else first
        after[last] = first if task in ENDLESS else starts[END]
    return words, merges, control, after


def _spelling() -> Iterator[tuple[int, str]]:
    """How byte-level vocabularies write each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    for byte in range(256):
        yield byte, chr(byte) if byte in plain else chr(next(others))


def weights(words: list[str], after: dict[int, int]) -> tuple[Any, Any]:
    """The embeddings, one dimension for each word that leads on, and what is read off them."""
    numpy: Any = importlib.import_module("numpy")
    size = -(-len(words) // 64) * 64
    known, read = numpy.zeros((size, WIDTH), "float32"), numpy.zeros((size, WIDTH), "float32")
    if len(after) > WIDTH:
        raise SystemExit(f"the script has {len(after)} pieces, more than {WIDTH}")
    for place, (word, following) in enumerate(after.items()):
        known[word, place] = 1.0
        read[following, place] = 4.0
    return known, read


def write_gguf(folder: Path, text: str) -> None:
    gguf: Any = importlib.import_module("gguf")
    numpy: Any = importlib.import_module("numpy")
    words, merges, control, after = vocabulary(text)
    known, read = weights(words, after)
    words = words + [f"<|unused-{each}|>" for each in range(len(known) - len(words))]
    kinds = [3 if each in control or each.startswith("<|unused") else 1 for each in words]
    out = gguf.GGUFWriter(str(folder / "scripted.gguf"), "qwen2")
    out.add_name("scripted")
    out.add_block_count(1)
    out.add_context_length(WINDOW)
    out.add_embedding_length(WIDTH)
    out.add_feed_forward_length(32)
    out.add_head_count(8)
    out.add_head_count_kv(1)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(words)
    out.add_token_types(kinds)
    out.add_token_merges(merges)
    out.add_eos_token_id(words.index(END))
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)
    out.add_tensor("token_embd.weight", known)
    out.add_tensor("output.weight", read)
    out.add_tensor("output_norm.weight", numpy.ones(WIDTH, "float32"))
    heads = {"q": WIDTH, "k": WIDTH // 8, "v": WIDTH // 8}
    for name, shape in {
        "attn_norm.weight": (WIDTH,),
        "ffn_norm.weight": (WIDTH,),
        **{f"attn_{each}.weight": (size, WIDTH) for each, size in heads.items()},
        **{f"attn_{each}.bias": (size,) for each, size in heads.items()},
        "attn_output.weight": (WIDTH, WIDTH),
        "ffn_gate.weight": (32, WIDTH),
        "ffn_up.weight": (32, WIDTH),
        "ffn_down.weight": (WIDTH, 32),
    }.items():
        made = numpy.ones if name.endswith("norm.weight") else numpy.zeros
        out.add_tensor(f"blk.0.{name}", made(shape, "float32"))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def write_transformers(folder: Path, text: str) -> None:
    tokenizers: Any = importlib.import_module("tokenizers")
    torch: Any = importlib.import_module("torch")
    transformers: Any = importlib.import_module("transformers")
    words, merges, control, after = vocabulary(text)
    known, read = weights(words, after)
    pairs = [tuple(each.split(" ")) for each in merges]
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=pairs)
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(control)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=END)
    fast.chat_template = TEMPLATE
    calls = {"open_pattern": r"\s*<tool_call>", "close": "</tool_call>", "repeats": True, "content": "json"}
    calls["transform"] = {"type": "function", "function": "{content}"}
    fast.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor": [go(task) for task in SCRIPT],
        "fields": {
            "thinking": {"open": "<think>", "close": "</think>", "content": "text"},
            "tool_calls": calls,
            "content": {"close_pattern": r"\s*<\|im_end\|>", "content": "text"},
        },
    }
    config = transformers.Qwen2Config(
        vocab_size=len(known),
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=8,
        num_key_value_heads=1,
        max_position_embeddings=WINDOW,
        eos_token_id=words.index(END),
        tie_word_embeddings=False,
    )
    model = transformers.Qwen2ForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name else 0.0)
        model.model.embed_tokens.weight.copy_(torch.from_numpy(known))
        model.lm_head.weight.copy_(torch.from_numpy(read))
    model.generation_config.do_sample = False
    model.save_pretrained(folder)
    fast.save_pretrained(folder)


if __name__ == "__main__":
    target = Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    writers = {"gguf": write_gguf, "transformers": write_transformers}
    writers[sys.argv[1]](target, Path(sys.argv[3]).read_text(encoding="utf-8"))
