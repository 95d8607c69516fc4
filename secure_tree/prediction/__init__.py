"""Prediction by thresholds or bins, with or without MACs, to whom it is revealed; feature importance."""
