"""Systems on Flower: FedXGBllr, virtual samples, and the secure sums that both use."""
