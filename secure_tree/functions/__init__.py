"""Functions of margins: curves on shares, links, metrics."""
