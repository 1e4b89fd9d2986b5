"""Language models as classifiers: from log-probabilities of tokens to credal sets over labels.

Responses of servers (OpenAI, vLLM, llama.cpp, ollama) list a few tokens; what they leave out is an
interval, not a guess. Models of transformers tell the whole vocabulary. Responses need NumPy and
SciPy only.

Imports from `_base`, `rows`, `io`, `credal`, `directions`, `decalibrator` and
`choose`.
"""

from decal.credal import union
from decal.llm._answers import Answer, Answers, Position, Skipped, read_answer, read_answers
from decal.llm._causal import (
    label_logits,
    next_token_log_probabilities,
    spread,
    vocabulary_tokens,
)
from decal.llm._masses import label_masses, vocabulary_masses
from decal.llm._unlisted import LabelMasses, decalibrate, label_probabilities, predict
from decal.llm._verbaliser import Verbaliser
from decal.llm._verbaliser import check_spellings as check_spellings

__all__ = [
    "Answer",
    "Answers",
    "LabelMasses",
    "Position",
    "Skipped",
    "Verbaliser",
    "decalibrate",
    "label_logits",
    "label_masses",
    "label_probabilities",
    "next_token_log_probabilities",
    "predict",
    "read_answer",
    "read_answers",
    "spread",
    "union",
    "vocabulary_masses",
    "vocabulary_tokens",
]
