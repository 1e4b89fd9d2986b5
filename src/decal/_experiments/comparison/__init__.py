"""All credal methods trained on the same data and judged alike."""
