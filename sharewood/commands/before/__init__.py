"""Before the model: statistics of joint data, and the features that matter."""
