"""Statistics of joint data before a training: which features matter, and as little as possible about the rows."""
