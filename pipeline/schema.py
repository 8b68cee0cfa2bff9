"""What a run's settings may say: one struct a section of its TOML file, the help text below each field."""

from typing import Annotated, Literal

import msgspec

from pipeline.redaction import endpoint_problem, webhook_problem

_MOST_BYTES = (1 << 63) - 1
Tokens = Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]
Threads = Annotated[int, msgspec.Meta(ge=1, le=64)]
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=7 * 86400)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
DraftSize = Annotated[int, msgspec.Meta(ge=2, le=1 << 22)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
_TEMPLATE_CALL = {
    "conversation", "messages", "tools", "documents", "chat_template", "add_generation_prompt", "continue_final_message", "tokenize",
    "padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs",
}  # fmt: skip
"""What transformers' ``apply_chat_template`` takes besides a template's own variables, and a server's request beside them."""


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verifier."""

    path: str
    """Hugging Face model directory on the host."""
    trust_remote_code: bool = False


class Serve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The inference server that answers the prompts."""

    program: tuple[str, ...] = ()
    """The words before the server's options; empty: vLLM's, in the stage's own interpreter. A first word ``python`` is that interpreter."""
    host: str = "127.0.0.1"
    """Address that it listens on."""
    port: Port = 8000
    served_model_name: Name | None = None
    """Name that clients ask for; None: model.path."""
    tensor_parallel: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    """GPUs that share each layer."""
    gpu_memory_utilization: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.9
    max_model_len_tokens: Tokens | None = None
    """Longest prompt and answer together; None: the model's own limit."""
    max_num_seqs: Annotated[int, msgspec.Meta(ge=1, le=65536)] | None = None
    """Requests in one batch, at most; None: the server's default."""
    dtype: str = "auto"
    reasoning_parser: str | None = None
    """vLLM's parser that parts reasoning from the answer, e.g. ``kimi_k2``; None: the model does not reason."""
    enforce_eager: bool = False
    extra_args: tuple[str, ...] = ()
    """More options for the server, as they are."""
    env: dict[str, str] = {}
    """More environment for the server."""
    ready_timeout_s: Seconds = 3600.0
    """From its start to its first answer, at most."""
    stop_timeout_s: Seconds = 60.0
    """Between the one SIGTERM and giving up on a clean stop."""


class Generate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The verifier's own answers to prompts."""

    prompts: str = "shipped"
    """A JSONL file, a Hugging Face dataset directory, or ``shipped``: the questions that come with eaglewatch."""
    output: str = "data/generated"
    endpoint: str | None = None
    """An OpenAI-compatible API, e.g. ``http://127.0.0.1:8000/v1``; None: the serve section's."""
    model: Name | None = None
    """Name that the API knows the verifier by; None: the serve section's, or the only one that it lists."""
    max_prompts: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)] | None = None
    """None: all of them."""
    greedy_holdout: Count = 0
    """So many more prompts are answered at temperature 0 and kept apart from training, for the evaluation."""
    seed: int = 0
    """Which prompts are held out, and the sampling."""
    max_response_tokens: Tokens = 8192
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    """None: the server's default for this model."""
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    chat_template_args: dict[str, bool | int | float | str] = {}
    """Passed to the chat template, e.g. ``thinking = true``."""
    require_reasoning: bool = False
    """An answer without reasoning counts as failed."""
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 64
    """Requests on their way at once."""
    request_timeout_s: Seconds = 3600.0
    max_retries: Annotated[int, msgspec.Meta(ge=0, le=100)] = 5
    """Of one prompt, for errors that may pass."""
    breaker_failures: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 20
    """So many failures in a row, over all prompts, and the stage stops: the server is broken, not the prompts."""

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec tells with the section's name; it never holds a password."""
        problem = None if self.endpoint is None else endpoint_problem(self.endpoint)
        if problem is not None:
            raise ValueError(f"endpoint {problem}")
        ours = sorted(_TEMPLATE_CALL & self.chat_template_args.keys())
        if ours:
            raise ValueError(
                f"chat_template_args: {', '.join(ours)}: the stage itself decides how the template is called; only the template's own "
                "variables go here, e.g. thinking = true"
            )


class Prepare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The training set made of the answers."""

    output: str = "data/prepared"
    max_length_tokens: Tokens = 4096
    """Longer samples are cut here, and counted."""
    min_loss_tokens: Tokens = 1
    """Samples with fewer tokens to learn from are left out, and counted."""
    validation_share: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.05
    """Of the samples, chosen by a stable hash of the prompt; they are the last rows."""
    mismatched: Literal["keep", "drop"] = "keep"
    """Samples whose token ids the chat template would not give."""
    seed: int = 0
    """Of the order of the rows and of the validation split."""


class Vocab(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The drafter's smaller vocabulary."""

    output: str = "data/vocab"
    draft_vocab_size: DraftSize = 32_000
    coverage_sizes: tuple[DraftSize, ...] = (16_000, 32_000, 64_000)
    """Sizes whose coverage of token occurrences is reported; one that the verifier's vocabulary does not have is left out, and told."""


class Extract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The extraction of hidden states."""

    engine: Literal["transformers"] = "transformers"
    data: str = "data/prepared"
    """Arrow dataset (input_ids, loss_mask, seq_len); relative to the run."""
    output: str = "data/hidden_states"
    """Where hs_{i}.safetensors go; relative to the run."""
    layer_ids: tuple[int, ...] | None = None
    """None: [2, L/2, L-3, L] for L decoder layers."""
    convention: Literal["vllm", "hf", "output", "sglang"] = "vllm"
    """How ``layer_ids`` counts; see pipeline.layers."""
    max_length_tokens: Tokens = 4096
    """Longer samples are cut here."""
    batch_samples: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 8
    batch_tokens: Tokens = 16384
    """Padded tokens in a batch, at most."""
    device: Annotated[str, msgspec.Meta(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$")] = "auto"
    """auto, cpu, cuda or cuda:N."""
    compute_dtype: Literal["model", "bfloat16", "float16", "float32"] = "model"
    """What the model computes in; ``model``: as its config.json says. Hidden states are stored in bf16 either way."""
    threads: Annotated[int, msgspec.Meta(ge=0, le=1024)] = 0
    """CPU threads of torch; 0 leaves torch's default."""
    writer_threads: Threads = 4
    """Threads that write, and later re-read, the files."""
    buffer_bytes: Annotated[int, msgspec.Meta(ge=1, le=_MOST_BYTES)] = 2 << 30
    """Hidden states waiting for the disk, at most; the engine waits when it is full."""
    min_free_bytes: Annotated[int, msgspec.Meta(ge=0, le=_MOST_BYTES)] = 20 * 10**9
    """The stage stops cleanly when the disk has less."""


class Alerts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the host tells you when no console is open."""

    command: tuple[str, ...] = ()
    """A command on the host, word by word and run without a shell: it gets the alert as JSON on stdin, and in EAGLEWATCH_... variables."""
    webhook: str | None = None
    """An address that gets the alert as a POST of JSON; it is a secret, and shown without its path. None: none."""
    on: tuple[Literal["red", "crash", "finish", "disk", "transition"], ...] = ("red", "crash", "finish", "disk", "transition")
    """Of what: a stall, a crash, an end, a disk that will be full, a transition that stopped."""

    def __post_init__(self) -> None:
        """Raises ValueError, which msgspec tells with the section's name; it never holds the address."""
        problem = None if self.webhook is None else webhook_problem(self.webhook)
        if problem is not None:
            raise ValueError(f"webhook {problem}")
        if self.command and not self.command[0].strip():
            raise ValueError("command: its first word is empty; name a program")


class Watch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a stall is judged."""

    stall_scale: Annotated[float, msgspec.Meta(ge=0.001, le=100)] = 1.0
    """The shortest times after which a stall is called are multiplied by this."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run."""

    model: Model
    serve: Serve = msgspec.field(default_factory=Serve)
    generate: Generate = msgspec.field(default_factory=Generate)
    prepare: Prepare = msgspec.field(default_factory=Prepare)
    vocab: Vocab = msgspec.field(default_factory=Vocab)
    extract: Extract = msgspec.field(default_factory=Extract)
    alerts: Alerts = msgspec.field(default_factory=Alerts)
    watch: Watch = msgspec.field(default_factory=Watch)
    retry: Annotated[int, msgspec.Meta(ge=0, le=1)] = 0
    """1: a stage that crashed is started again, once, if it had made something and neither disk nor memory was the cause."""
