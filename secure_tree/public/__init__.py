"""What both parties know: configuration, layout of rows and candidates, ranges of numbers, samples."""
