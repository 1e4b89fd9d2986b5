"""What several tests need: data that Hypothesis draws, folders of logits, runs of experiments."""
