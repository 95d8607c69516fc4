"""Several processes per party: workers on Ray, each with its part of the rows."""
