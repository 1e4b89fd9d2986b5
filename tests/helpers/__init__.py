"""What several tests need: drawn data, folders of logits, runs of experiments, printed results."""
