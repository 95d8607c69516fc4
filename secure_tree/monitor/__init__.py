"""A model in use: drift, calibration and fairness on shares, against a profile of the training."""
