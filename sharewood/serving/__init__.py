"""`sharewood serve`: a resident prediction service at each party."""
