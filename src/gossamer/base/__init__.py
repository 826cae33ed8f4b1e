"""What every room stands on: messages, trees of arrays, errors, files that are whole, entropy, processes."""
