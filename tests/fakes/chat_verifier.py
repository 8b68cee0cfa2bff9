"""A verifier's tokenizer with a chat template and reasoning, for tests: no weights."""

from pathlib import Path

BEGIN, END, THINK, THOUGHT = "<|begin|>", "<|end|>", "<think>", "</think>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['reasoning_content'] %}<think>{{ message['reasoning_content'] }}</think>{% endif %}"
    "{{ message['content'] }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
WORDS = ("water", "light", "stone", "because", "therefore", "seven", "green", "often", "Grüße", "東京", "!", "\n")


def save_verifier(directory: Path, template: str = TEMPLATE) -> Path:
    """A tokenizer with a chat template and reasoning, as transformers loads it; fewer than 512 tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [BEGIN, END, THINK, THOUGHT, *ROLES]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator([" ".join(WORDS), "What is the colour of question number? I think about it."] * 3, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END, additional_special_tokens=special[2:], chat_template=template
    )
    fast.save_pretrained(directory)
    return directory
