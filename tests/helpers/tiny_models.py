"""Tiny causal language models with random weights, saved as a user finds them."""

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXT = """Yes or No? yes, no. The answer is Maybe positive, possible, negative.
Premise: a man sleeps outside. Hypothesis: a woman plays. Rate 1 2 3 4 5. <b>bold</b> & "quoted"
"""
CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
LIMIT = 96


def byte_level_tokenizer():
    """A byte-level BPE in which 'Yes', ' Yes' and 'No' are tokens, and 'positive' is several."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=256 + 40, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    texts = [TEXT] + [" Yes No Yes No", "Yes", "No", "Maybe Maybe", " Maybe", "pos pos pos"] * 20
    bpe.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, model_max_length=LIMIT, chat_template=CHAT_TEMPLATE
    )


def save(folder, kind="llama"):
    """Writes a tiny model and its tokenizer into a folder, and returns the folder."""
    torch.manual_seed(0)
    tokenizer = byte_level_tokenizer()
    if kind == "llama":
        config = transformers.LlamaConfig(
            vocab_size=len(tokenizer) + 5,  # models are often padded to more columns
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=LIMIT,
            initializer_range=0.4,
        )
        model = transformers.LlamaForCausalLM(config)
    else:  # absolute positions, which padding would shift
        config = transformers.GPT2Config(
            vocab_size=len(tokenizer),
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=LIMIT,
            initializer_range=0.4,
        )
        model = transformers.GPT2LMHeadModel(config)
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
