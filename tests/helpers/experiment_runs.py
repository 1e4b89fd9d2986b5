"""What tests of experiments have in common: their rows, and runs that are stopped."""

import csv


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers(path):
    """Rows without what differs between equal runs."""
    return [{k: v for k, v in r.items() if k not in ("seconds", "commit")} for r in table(path)]


class Stopped:
    """Hands on the cells of a run, remembers them, and stops it, like a kill, before the n-th."""

    def __init__(self, after=None):
        self.cells, self.after = [], after

    def __call__(self, cells):
        for cell in cells:
            if len(self.cells) == self.after:
                raise KeyboardInterrupt
            self.cells.append(cell)
            yield cell
