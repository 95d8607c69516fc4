"""`sharewood plan`: what a training will cost, on one machine or a cluster; the measured speed of this machine."""
