"""A model of 258 words that says `abcabcabc…` for ever: `python tiny_gguf.py FILE` (gguf, numpy)."""

import sys

import gguf
import numpy

WIDTH = 64
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{{ 'assistant: a' }}"


def byte_words():
    """The 256 words of a byte-level vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(each) if each in plain else chr(next(others)) for each in range(256)]


words = [*byte_words(), "<|end|>", "qq"]
known = numpy.zeros((len(words), WIDTH), "float32")
read = numpy.zeros((len(words), WIDTH), "float32")
for place, (word, following) in enumerate(zip("abc", "bca", strict=True)):
    known[words.index(word), place] = 1.0
    read[words.index(following), place] = 4.0

out = gguf.GGUFWriter(sys.argv[1], "llama")
out.add_block_count(1)
out.add_context_length(4096)
out.add_embedding_length(WIDTH)
out.add_feed_forward_length(32)
out.add_head_count(1)
out.add_head_count_kv(1)
out.add_rope_dimension_count(WIDTH)
out.add_layer_norm_rms_eps(1e-6)
out.add_tokenizer_model("gpt2")
out.add_tokenizer_pre("gpt-2")
out.add_token_list(words)
out.add_token_types([1] * 256 + [3, 1])
out.add_token_merges(["q q"])
out.add_eos_token_id(256)
out.add_add_bos_token(False)
out.add_chat_template(TEMPLATE)
out.add_tensor("token_embd.weight", known)
out.add_tensor("output.weight", read)
out.add_tensor("output_norm.weight", numpy.ones(WIDTH, "float32"))
shapes = {"attn_norm": (WIDTH,), "ffn_norm": (WIDTH,), "ffn_down": (WIDTH, 32)}
shapes |= {f"attn_{each}": (WIDTH, WIDTH) for each in ("q", "k", "v", "output")}
shapes |= {f"ffn_{each}": (32, WIDTH) for each in ("gate", "up")}
for name, shape in shapes.items():
    made = numpy.ones if name.endswith("norm") else numpy.zeros
    out.add_tensor(f"blk.0.{name}.weight", made(shape, "float32"))
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
