"""Fixed point: truncation, floors, wrap-around, and words of other widths."""
