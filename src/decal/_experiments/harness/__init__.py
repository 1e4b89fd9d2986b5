"""What experiments share: data, rows, tables, figures, published numbers, a report."""
