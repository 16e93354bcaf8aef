"""Other libraries' convolutions, each as a function that runs one and says how long it took."""
