"""FedXGBllr: federated XGBoost without gradients on the wire, with learnable learning rates (Ma et al., 2023)."""
