"""Images in tar shards of WebDataset's form: write, list, read."""
